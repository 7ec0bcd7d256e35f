package config_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestTheDefaultConfigurationIsTheCompleteCost(t *testing.T) {
	file, problems := config.Default(catalog.Builtin())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{{Ref: "health-filter"}, {Ref: "hot-prefix-filter"}, {Ref: "cost-scorer", Weight: 1}, {Ref: "max-score-picker"}}}}
	if diff := cmp.Diff(want, file.Spec.Profiles); diff != "" {
		t.Error(diff)
	}
	if built, problems := file.Build(); built == nil {
		t.Fatal(problems)
	}
}

// A file that names neither plugins nor profiles means what it means to llm-d, whatever the default is without a file.
func TestAFileWithoutSchedulingMeansLlmdsWeights(t *testing.T) {
	file, problems := config.Load([]byte(config.ClassicText), "classic", catalog.Builtin())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{
		{Ref: "kv-cache-utilization-scorer", Weight: 2}, {Ref: "prefix-cache-scorer", Weight: 3}, {Ref: "queue-scorer", Weight: 2}, {Ref: "max-score-picker"}}}}
	if diff := cmp.Diff(want, file.Spec.Profiles); diff != "" {
		t.Error(diff)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	if all := strings.Join(built.Instances(), "\n"); !strings.Contains(all, "approx-prefix-cache-producer [added") {
		t.Errorf("no prefix producer is added:\n%s", all)
	}

	for _, text := range []string{upstreamHead, head + "plugins:\nschedulingProfiles: []\n", head + "pools: [{name: default}]\n"} {
		same, problems := config.Load([]byte(text), "f", catalog.Builtin())
		if same == nil {
			t.Fatal(problems)
		}
		if diff := cmp.Diff(outline(file.Spec), outline(same.Spec)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestTheTargetSystemsFileLoadsUnchanged(t *testing.T) {
	data, err := os.ReadFile("testdata/target-system.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range config.Versions() {
		text := strings.Replace(string(data), "inference.networking.x-k8s.io/v1alpha1", version, 1)
		file, problems := config.Load([]byte(text), "target-system.yaml", catalog.Builtin())
		if file == nil || len(problems) > 0 {
			t.Fatalf("%s: %v", version, problems)
		}
		want := []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{
			{Ref: "prefix-cache-scorer", Weight: 3}, {Ref: "queue-scorer", Weight: 2}, {Ref: "max-score-picker"}}}}
		if diff := cmp.Diff(want, file.Spec.Profiles); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "single-profile-handler"}}, file.Spec.Pools); diff != "" {
			t.Error(diff)
		}
		if built, problems := file.Build(); built == nil {
			t.Error(problems)
		}
		if file.APIVersion != version {
			t.Errorf("API version is %q", file.APIVersion)
		}
	}
}

func TestWhatIsLeftOutIsFilledIn(t *testing.T) {
	rows := []struct {
		name, text string
		profile    string // of the first profile: refs with the weights of scorers
		handler    string
	}{
		{"no profiles: every filter, scorer and picker, filters in their order", "plugins: [{type: random-picker}, {type: queue-scorer}, {name: b, type: label-selector-filter}, {name: a, type: label-selector-filter}]",
			"b a queue-scorer=1 random-picker", "single-profile-handler"},
		{"no picker: a max-score-picker", "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer, weight: 0.5}]}]",
			"queue-scorer=0.5 max-score-picker", "single-profile-handler"},
		{"no picker, but one is declared", "plugins: [{type: queue-scorer}, {type: random-picker, name: dice}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]",
			"queue-scorer=1 dice", "single-profile-handler"},
		{"no picker, and several are declared: max-score first", "plugins: [{type: random-picker, name: dice}, {type: max-score-picker, name: best}, {type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]",
			"queue-scorer=1 best", "single-profile-handler"},
		{"no picker, and several of one type are declared: the first", "plugins: [{type: random-picker, name: z}, {type: random-picker, name: a}, {type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]",
			"queue-scorer=1 z", "single-profile-handler"},
		{"the only handler", "plugins: [{type: both-handler, name: mine}, {type: queue-scorer}]", "queue-scorer=1 max-score-picker", "mine"},
		{"a weight of zero is not none", "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer, weight: 0}]}]", "queue-scorer=0 max-score-picker", "single-profile-handler"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			file := load(t, head+row.text+"\n")
			var refs []string
			for _, ref := range file.Spec.Profiles[0].Plugins {
				s := ref.Ref
				if strings.Contains(ref.Ref, "scorer") {
					s += fmt.Sprintf("=%v", ref.Weight)
				}
				refs = append(refs, s)
			}
			if got := strings.Join(refs, " "); got != row.profile {
				t.Errorf("profile is %q, want %q", got, row.profile)
			}
			if got := file.Spec.Pools[0].Handler; got != row.handler {
				t.Errorf("handler is %q, want %q", got, row.handler)
			}
			for range 20 { // no map order decides
				if again := load(t, head+row.text+"\n"); again.Digest() != file.Digest() {
					t.Fatal("the digest changes from load to load")
				}
			}
		})
	}
}

func TestTheOrderOfReferencesChangesNothing(t *testing.T) {
	types := []string{"random-picker", "queue-scorer", "prefix-cache-scorer"}
	digests := map[string]bool{}
	permute(types, func(order []string) {
		var declared, refs strings.Builder
		for _, typ := range order {
			fmt.Fprintf(&declared, "- type: %s\n", typ)
			fmt.Fprintf(&refs, "  - pluginRef: %s\n", typ)
		}
		file := load(t, head+"plugins:\n"+declared.String()+"schedulingProfiles:\n- name: default\n  plugins:\n"+refs.String())
		digests[file.Digest()] = true
		digests[load(t, head+"plugins:\n"+declared.String()).Digest()] = true
	})
	if len(digests) != 1 {
		t.Errorf("%d digests of configurations that mean the same", len(digests))
	}
}

func permute(of []string, visit func([]string)) {
	var rec func(done, left []string)
	rec = func(done, left []string) {
		if len(left) == 0 {
			visit(done)
		}
		for i := range left {
			rec(append(slices.Clone(done), left[i]), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	rec(nil, of)
}

func TestABuildThatLacksADefaultSaysSo(t *testing.T) {
	few := []plugins.Entry{}
	for _, e := range catalog.Builtin() {
		if e.Type == "queue-scorer" {
			few = append(few, e)
		}
	}
	_, problems := config.Load([]byte(head+"plugins: [{type: queue-scorer}]\n"), "f", few)
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	want := []string{`f: the default plugin "max-score-picker" is not part of this build; write plugins and schedulingProfiles out`,
		`f: the default plugin "single-profile-handler" is not part of this build; write plugins and schedulingProfiles out`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestANameThatADefaultNeedsIsTaken(t *testing.T) {
	_, problems := config.Load([]byte(head+"plugins: [{type: queue-scorer, name: max-score-picker}]\n"), "f", entries())
	if len(problems) != 1 || problems[0].Error() != `f:3:38: plugin "max-score-picker": its name is that of the type max-score-picker, which is added by default; rename it` {
		t.Error(problems)
	}
}
