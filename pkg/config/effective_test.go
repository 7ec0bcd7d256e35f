package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Everything at once: each kind of parameter, defaults beside given ones, pools, stages and discovery.
const everything = head + `plugins:
- type: knobs-scorer
  parameters:
    weights: {b: 2, a: 1}
    names: []
    tiers: [{name: "yes", ttl: 90s}]
    perhaps: {}
    size: 3000Ki
    tables: {t: [{ttl: 1h}], "true": []}
- {type: file-discovery, parameters: {path: "endpoints: #1.yaml"}}
- {type: needy-filter, name: "2", parameters: {label: "1.5"}}
- {type: metrics-data-source}
- type: gate-stage
- type: queue-scorer
pools:
- name: "null"
  models: [{name: "org/model:tag", aliases: ["0x1F", "~", "- x"]}]
stages: [{pluginRef: gate-stage}]
dataLayer: {discovery: {pluginRef: file-discovery}}
`

func TestEffectiveIsCanonicalAndComplete(t *testing.T) {
	file := load(t, everything)
	golden := filepath.Join("testdata", "everything.golden")
	if *update {
		if err := os.WriteFile(golden, file.Effective(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(file.Effective())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&config.FileDiscovery{Path: "endpoints: #1.yaml"}, file.Discovery); diff != "" {
		t.Error(diff)
	}
}

// mustReload checks that an effective text means what it was printed of.
func mustReload(t *testing.T, file *config.File) {
	t.Helper()
	again, problems := config.Load(file.Effective(), "effective", entries())
	if again == nil {
		t.Fatalf("%v\n%s", problems, file.Effective())
	}
	if diff := cmp.Diff(string(file.Effective()), string(again.Effective())); diff != "" {
		t.Error(diff)
	}
	if again.Digest() != file.Digest() {
		t.Error("the digest differs")
	}
	if diff := cmp.Diff(outline(file.Spec), outline(again.Spec)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(file.Discovery, again.Discovery); diff != "" {
		t.Error(diff)
	}
	for i, p := range file.Spec.Plugins {
		a, err := p.Construct()
		b, err2 := again.Spec.Plugins[i].Construct()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if k, ok := a.(*knobs); ok {
			if diff := cmp.Diff(k, b); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestEffectiveLoadsAgainToTheSame(t *testing.T) {
	for _, text := range []string{everything, config.DefaultText, head + rest, head + "plugins: []\n",
		head + "plugins: [{type: gate-stage}]\nstages: [gate-stage]\n",
		head + rest + "pools: [{name: a}]\n"} {
		mustReload(t, load(t, text))
	}
}

func TestConstructGivesAFreshInstanceWithItsParameters(t *testing.T) {
	file := load(t, everything)
	var spec plugins.PluginSpec
	for _, p := range file.Spec.Plugins {
		if p.Type == "knobs-scorer" {
			spec = p
		}
	}
	one, err := spec.Construct()
	if err != nil {
		t.Fatal(err)
	}
	two, _ := spec.Construct()
	if one == two {
		t.Error("two constructions share an instance")
	}
	want := newKnobs()
	want.Weights = map[string]int32{"a": 1, "b": 2}
	want.Names = []string{}
	want.Tiers = []tier{{Name: "yes", TTL: 90 * time.Second}}
	want.Perhaps = &tier{}
	want.Size = 3000 << 10
	want.Tables = map[string][]tier{"t": {{TTL: time.Hour}}, "true": {}}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Error(diff)
	}
	one.(*knobs).Weights["a"] = 99
	if two.(*knobs).Weights["a"] != 1 {
		t.Error("two constructions share a table")
	}
}

func TestTheDigestSeesEveryParameter(t *testing.T) {
	with := func(parameters string) string {
		return load(t, head+"plugins: [{type: knobs-scorer, parameters: {"+parameters+"}}]\n").Digest()
	}
	base := with("")
	for _, same := range []string{"full: 128", "wait: 1000ms", "size: 1Mi", "size: 1048576", "limit: 128", "share: 5e-1"} {
		if with(same) != base {
			t.Errorf("%s is the default and changes the digest", same)
		}
	}
	for _, other := range []string{"full: 127", "on: true", "most: 0", "names: []", "inner: {name: y}", "perhaps: {}", "weights: {}", "share: 0.5000000000000001"} {
		if with(other) == base {
			t.Errorf("%s does not change the digest", other)
		}
	}
}

func TestBuildProblemsAreGivenTheirPlace(t *testing.T) {
	rows := []struct{ name, text, want string }{
		{"at the parameter that is spoken of", "plugins:\n- type: knobs-scorer\n  parameters:\n    on: true\n    full: 1\n",
			`f:7:11: plugin "knobs-scorer": full 1 with on true prefers nobody; raise full`},
		{"at the plugin", "plugins:\n- type: queue-scorer\n- {name: pods, type: label-selector-filter, parameters: {matchLabels: {'a b': c}}}\n",
			`f:5:71: plugin "pods": matchLabels: key "a b" cannot be a label's name`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			built, problems := load(t, head+row.text).Build()
			if built != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), row.want) {
				t.Errorf("got %v\nwant %s", problems, row.want)
			}
			if len(problems) > 0 && problems[0].Code != config.CodeBuild {
				t.Errorf("code is %s", problems[0].Code)
			}
		})
	}
}

// Every built-in plugin's parameters can be described, and its defaults hold its own bounds.
func TestBuiltinDefaultsHoldTheirBounds(t *testing.T) {
	given := map[string]string{ // what must be given
		"session-id-producer":          "{cookieName: session}",
		"utilization-filter":           "{conditions: [{metric: waiting-queue, maxValue: 64}]}",
		"endpoint-attribute-filter":    "{attribute: a, algorithm: {type: threshold, threshold: {operator: LessThan, value: 1}}}",
		"endpoint-attribute-scorer":    "{attributeKey: a, algorithm: {type: linear_lower_is_better}}",
		"header-label-affinity-scorer": "{headerName: x-tenant, labelKey: tenant}",
		"priority-holdback-policy":     "{minCeiling: 0.5}",
	}
	for _, e := range catalog.Builtin() {
		for _, p := range plugins.Params(e.New()) {
			if err := p.Check(); err != nil && !p.Required {
				t.Errorf("%s: %v", e.Type, err)
			}
		}
		parameters := "{}"
		if p, ok := given[e.Type]; ok {
			parameters = p
		}
		file, problems := config.Load([]byte(head+"plugins: [{type: "+e.Type+", parameters: "+parameters+"}]\n"), e.Type, catalog.Builtin())
		if file == nil {
			t.Error(problems)
			continue
		}
		if built, problems := file.Build(); built == nil {
			t.Errorf("%s: %v", e.Type, problems)
		}
	}
}
