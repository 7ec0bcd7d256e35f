package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// A picker that is listed before the scorers, and scorers without weights: every order means the same, and each weighs 1.
func TestC01PickerListedBeforeScorers(t *testing.T) {
	want := []plugins.RefSpec{{Ref: "prefix-cache-scorer", Weight: 1}, {Ref: "queue-scorer", Weight: 1}, {Ref: "random-picker"}}
	digests := map[string]bool{}
	permute([]string{"random-picker", "queue-scorer", "prefix-cache-scorer"}, func(order []string) {
		var declared, refs []string
		for _, typ := range order {
			declared = append(declared, "{type: "+typ+"}")
			refs = append(refs, "{pluginRef: "+typ+"}")
		}
		file := load(t, fmt.Sprintf("%splugins: [%s]\nschedulingProfiles: [{name: default, plugins: [%s]}]\n", head, strings.Join(declared, ", "), strings.Join(refs, ", ")))
		if diff := cmp.Diff(want, file.Spec.Profiles[0].Plugins); diff != "" {
			t.Errorf("%v: %s", order, diff)
		}
		if built, problems := file.Build(); built == nil {
			t.Errorf("%v: %v", order, problems)
		}
		digests[file.Digest()] = true
	})
	if len(digests) != 1 {
		t.Errorf("%d digests", len(digests))
	}
}

// Two pickers in one profile, written or by default, are one error that names both.
func TestC03TwoPickers(t *testing.T) {
	const both = "plugins: [{type: max-score-picker}, {type: random-picker}]\n"
	runProblems(t, []problemRow{
		{"no profiles", head + both, []string{`3:44: profile "default": two pickers, "max-score-picker" and "random-picker"; keep one`}},
		{"one profile", head + both + "schedulingProfiles: [{name: p, plugins: [{pluginRef: max-score-picker}, {pluginRef: random-picker}]}]\n", []string{
			`4:85: profile "p": two pickers, "max-score-picker" and "random-picker"; keep one`}},
	})
}

// Absent is the documented default, 0 is a value like others, and what is below the bound is refused.
func TestC12UnsetIsNotZero(t *testing.T) {
	with := func(parameters string) string {
		return head + "plugins:\n- {type: active-request-scorer, parameters: {" + parameters + "}}\n"
	}
	for _, row := range []struct{ name, parameters, effective string }{
		{"absent", "", "maxBusyScore: 1"},
		{"0", "maxBusyScore: 0", "maxBusyScore: 0"},
		{"the default written out", "maxBusyScore: 1.0", "maxBusyScore: 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			file, problems := config.Load([]byte(with(row.parameters)), "f", catalog.Builtin())
			if file == nil {
				t.Fatal(problems)
			}
			if !strings.Contains(string(file.Effective()), " "+row.effective+"\n") {
				t.Errorf("want %s in\n%s", row.effective, file.Effective())
			}
		})
	}
	runProblems(t, []problemRow{
		{"negative", with("maxBusyScore: -1"), []string{`4:60: plugin "active-request-scorer": maxBusyScore is -1; at least 0`}},
		{"no value", with("maxBusyScore: "), []string{`4:60: plugin "active-request-scorer": maxBusyScore has no value; remove it to have the default 1`}},
	})
	// A parameter that may be unset is told apart from one that is 0.
	knob := func(parameters string) string { return head + "plugins:\n- {type: knobs-scorer" + parameters + "}\n" }
	if unset, zero := load(t, knob("")), load(t, knob(", parameters: {most: 0}")); unset.Digest() == zero.Digest() || strings.Contains(string(unset.Effective()), "most") {
		t.Errorf("unset and 0 are one:\n%s", unset.Effective())
	}
}

// A name by which clients ask leads to one model: an adapter or alias named like its own base is told, in every order.
func TestX18AliasNamedLikeTheModel(t *testing.T) {
	runProblems(t, []problemRow{
		{"an alias of its own model", head + rest + "pools: [{name: a, models: [{name: m-base, aliases: [m-base]}]}]\n", []string{
			`9:53: pool "a": alias "m-base" is a name of pool "a" as well, in line 9; a name that clients ask for leads to one model`}},
		{"a model of the same pool", head + rest + "pools: [{name: a, models: [{name: m-lora, aliases: [m-base]}, {name: m-base}]}]\n", []string{
			`9:70: pool "a": model "m-base" is a name of pool "a" as well, in line 9; a name that clients ask for leads to one model`}},
		{"a model of another pool", head + rest + "pools: [{name: a, models: [{name: m-base}]}, {name: b, models: [{name: m-base}]}]\n", []string{
			`9:72: pool "b": model "m-base" is a name of pool "a" as well, in line 9; a name that clients ask for leads to one model`}},
	})
}
