package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestProblemsOfPools(t *testing.T) {
	const models = "models: [{name: m}]"
	runProblems(t, []problemRow{
		{"an empty table", head + rest + "pools: []\n", []string{"9:8: pools is empty; list a pool, or remove pools to have one that takes any model"}},
		{"no name", head + rest + "pools: [{" + models + "}]\n", []string{"9:9: pools[0]: name is missing; add name"}},
		{"one name twice", head + rest + "pools:\n- {name: a, " + models + "}\n- {name: a, models: [{name: n}]}\n", []string{
			`11:10: pool "a" is defined twice, first in line 10; rename one of the two`}},
		{"an unknown field", head + rest + "pools: [{name: a, model: m}]\n", []string{`9:19: pool "a": unknown field "model"; did you mean "models"?`}},
		{"a model in two pools", head + rest + "pools:\n- {name: a, " + models + "}\n- {name: b, " + models + "}\n", []string{
			`11:29: pool "b": model "m" is a name of pool "a" as well, in line 10; a name that clients ask for leads to one model`}},
		{"an alias that is another's model", head + rest + "pools:\n- {name: a, " + models + "}\n- name: b\n  models:\n  - {name: n, aliases: [o, m]}\n", []string{
			`13:28: pool "b": alias "m" is a name of pool "a" as well, in line 10; a name that clients ask for leads to one model`}},
		{"an alias that is its own model", head + rest + "pools: [{name: a, models: [{name: n, aliases: [n]}]}]\n", []string{
			`9:48: pool "a": alias "n" is a name of pool "a" as well, in line 9; a name that clients ask for leads to one model`}},
		{"a model without name", head + rest + "pools: [{name: a, models: [{aliases: [n]}]}]\n", []string{`9:28: pool "a": models[0]: name is missing; add name`}},
		{"a pool without models beside another", head + rest + "pools:\n- {name: a, " + models + "}\n- {name: b}\n", []string{
			`11:10: pool "b" has no models, and there are several pools; add models, so that requests find it`}},
		{"an only pool without models", head + rest + "pools: [{name: a}]\n", nil},
		{"a profile that is not there", head + rest + "pools: [{name: a, profiles: [defualt, default, default]}]\n", []string{
			`9:30: pool "a": no profile is named "defualt"; did you mean "default"?`,
			`9:48: pool "a": profile "default" is listed twice, first in line 9; keep one of the two`}},
		{"several pools and profiles, and none named", head + rest + "- {name: other, plugins: [{pluginRef: queue-scorer}]}\npools:\n- {name: a, " + models + "}\n- {name: b, models: [{name: n}]}\n", []string{
			`11:10: pool "a" has no profiles, and there are several pools and profiles; add profiles with the names of those that decide for it`,
			`12:10: pool "b" has no profiles, and there are several pools and profiles; add profiles with the names of those that decide for it`}},
		{"a handler that is none", head + rest + "pools: [{name: a, handler: queue-scorer}]\n", []string{`9:28: pool "a": handler "queue-scorer" is a scorer`}},
		{"a handler that is not there", head + rest + "pools: [{name: a, handler: single}]\n", []string{`9:28: pool "a": no plugin is named "single"`}},
	})
}

func TestProblemsOfStages(t *testing.T) {
	runProblems(t, []problemRow{
		{"a stage that is none", head + rest + "stages: [queue-scorer]\n", []string{`9:10: stages: "queue-scorer" is a scorer; remove it from stages`}},
		{"a stage that is not there", head + rest + "stages: [{pluginRef: gate}]\n", []string{`9:22: stages: no plugin is named "gate"`}},
		{"a stage twice", head + "plugins: [{type: gate-stage}, {type: queue-scorer}]\nstages: [gate-stage, gate-stage]\n", []string{
			`4:22: stages: "gate-stage" is listed twice, first in line 4; keep one of the two`}},
		{"a stage that the list leaves out", head + "plugins: [{type: gate-stage}, {type: queue-scorer}]\nstages: []\n", []string{
			`3:18: plugin "gate-stage": a stage that stages does not list would never run; add it to stages, or remove it`}},
		{"a stage in a profile", head + "plugins: [{type: gate-stage}, {type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: gate-stage}, {pluginRef: queue-scorer}]}]\n", []string{
			`4:54: profile "a": "gate-stage" (gate-stage) is a stage; remove it from the profile: a stage runs before scheduling and belongs under plugins alone`}},
	})
}

func load(t *testing.T, text string) *config.File {
	t.Helper()
	file, problems := config.Load([]byte(text), "f", entries())
	if file == nil {
		t.Fatalf("does not load: %v", problems)
	}
	schemaAccepts(t, text)
	schemaAccepts(t, string(file.Effective()))
	return file
}

// outline is a Spec without the constructors, which cannot be compared.
func outline(s plugins.Spec) plugins.Spec {
	out := s
	out.Plugins = nil
	for _, p := range s.Plugins {
		out.Plugins = append(out.Plugins, plugins.PluginSpec{Name: p.Name, Type: p.Type})
	}
	return out
}

func TestPoolsAreCompleted(t *testing.T) {
	got := outline(load(t, head+rest+`pools:
- name: large
  models: [{name: llama-70b, aliases: [big, best]}]
- name: small
  models: [{name: llama-8b}]
`).Spec)
	want := plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "model-resolver", Type: "model-resolver"},
			{Name: "single-profile-handler", Type: "single-profile-handler"},
			{Name: "queue-scorer", Type: "queue-scorer"},
			{Name: "max-score-picker", Type: "max-score-picker"},
		},
		Profiles: []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{{Ref: "queue-scorer", Weight: 1}, {Ref: "max-score-picker"}}}},
		Pools: []plugins.PoolSpec{
			{Name: "large", Models: []plugins.Model{{Name: "llama-70b", Aliases: []string{"big", "best"}}}, Profiles: []string{"default"}, Handler: "single-profile-handler"},
			{Name: "small", Models: []plugins.Model{{Name: "llama-8b"}}, Profiles: []string{"default"}, Handler: "single-profile-handler"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The stage that reads objectives stands behind the one that finds the pool, wherever that stands.
func TestTheObjectiveResolverKnowsThePool(t *testing.T) {
	const pools = "pools:\n- {name: a, models: [{name: m}]}\n- {name: b, models: [{name: n}]}\n"
	const objectives = "objectives: [{name: o, priority: -3}]\n"
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"both are added", head + rest + pools + objectives, []string{"model-resolver", "objective-resolver"}},
		{"one pool needs no other", head + rest + objectives, []string{"objective-resolver"}},
		{"the other is declared", head + "plugins: [{type: queue-scorer}, {type: model-resolver}]\n" + pools + objectives, []string{"model-resolver", "objective-resolver"}},
		{"a list of stages", head + "plugins: [{type: queue-scorer}, {type: model-resolver}]\nstages: [model-resolver]\n" + pools + objectives, []string{"model-resolver", "objective-resolver"}},
		{"an empty list", head + rest + "stages: []\n" + objectives, []string{"objective-resolver"}},
		{"it is declared", head + "plugins: [{type: queue-scorer}, {type: objective-resolver, name: o, parameters: {trustHeaders: false}}]\n" + objectives, []string{"o"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := load(t, row.text)
			if diff := cmp.Diff([]plugins.Objective{{Name: "o", Priority: -3}}, file.Spec.Objectives); diff != "" {
				t.Error(diff)
			}
			built, problems := file.Build()
			if built == nil {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(row.want, built.StageNames(plugins.AtResolve)); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			again, problems := config.Load(file.Effective(), "effective", entries())
			if again == nil || again.Digest() != file.Digest() {
				t.Errorf("the effective text loads to something else: %v\n%s", problems, file.Effective())
			}
		})
	}
}

func TestTheModelResolverRunsFirstUnlessDeclared(t *testing.T) {
	const pool = "pools: [{name: a, models: [{name: m}]}]\n"
	rows := []struct {
		name, text string
		want       []string
	}{
		{"before the stages of the list", "plugins: [{type: gate-stage}, {type: queue-scorer}]\nstages: [gate-stage]\n" + pool, []string{"model-resolver", "gate-stage"}},
		{"where the list has it", "plugins: [{type: gate-stage}, {type: model-resolver, name: models}, {type: queue-scorer}]\nstages: [gate-stage, models]\n" + pool, []string{"gate-stage", "models"}},
		{"without a list", "plugins: [{type: gate-stage}, {type: queue-scorer}]\n" + pool, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			file := load(t, head+row.text)
			if diff := cmp.Diff(row.want, file.Spec.Stages); diff != "" {
				t.Error(diff)
			}
			built, problems := file.Build()
			if built == nil {
				t.Fatal(problems)
			}
			if n := len(built.StageNames(plugins.AtHeaders)) + len(built.StageNames(plugins.AtResolve)); n != 2 {
				t.Errorf("%d stages run", n)
			}
		})
	}
	if got := load(t, head+rest+"pools: [{name: a}]\n").Spec.Plugins[0].Type; got == "model-resolver" {
		t.Error("a pool that takes any model needs no resolver")
	}
}
