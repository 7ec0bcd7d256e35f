package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/config"
)

const head = "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\n"

// upstreamHead is the same under an API version of llm-d.
const upstreamHead = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"

// rest is a scheduling configuration without problems, for rows about something else.
const rest = `plugins:
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
`

type problemRow struct {
	name, text string
	want       []string // one per problem, without the file; "warning" in the text tells the severity
}

func runProblems(t *testing.T, rows []problemRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			file, problems := config.Load([]byte(row.text), "f", entries())
			var got []string
			for _, p := range problems {
				got = append(got, strings.TrimPrefix(strings.TrimPrefix(p.Error(), "f:"), " "))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if (file == nil) != config.HasErrors(problems) {
				t.Errorf("file is %v with problems %v", file, problems)
			}
			if file != nil {
				schemaAccepts(t, row.text)
				if built, problems := file.Build(); built == nil {
					t.Errorf("it loads, but does not build: %v", problems)
				}
			}
		})
	}
}

func TestProblemsOfObjectives(t *testing.T) {
	runProblems(t, []problemRow{
		{"a list", head + rest + "objectives:\n- {name: chat, priority: 5}\n- {name: batch, priority: -1, pool: default}\n- {name: plain}\n", nil},
		{"one name for two pools, and one for all", head + rest + "pools: [{name: a, models: [{name: m}]}, {name: b, models: [{name: n}]}]\nobjectives: [{name: o, pool: a}, {name: o, pool: b}, {name: o}]\n", nil},
		{"no value", head + rest + "objectives:\n", []string{"9:1: warning: objectives has no value and counts as left out; remove it, or write [] for none"}},
		{"no name", head + rest + "objectives: [{priority: 1}]\n", []string{"9:14: objectives[0]: name is missing; add name"}},
		{"twice", head + rest + "objectives: [{name: a}, {name: a, priority: 1}]\n", []string{`9:32: objective "a" is defined twice, first in line 9; keep one of the two`}},
		{"a fraction", head + rest + "objectives: [{name: a, priority: 1.5}]\n", []string{`9:34: objective "a": priority is 1.5; write a whole number of 32 bits`}},
		{"too large", head + rest + "objectives: [{name: a, priority: 2147483648}]\n", []string{`9:34: objective "a": priority is 2.147483648e+09; write a whole number of 32 bits`}},
		{"a pool that is not there", head + rest + "objectives: [{name: a, pool: defualt}]\n", []string{`9:30: objective "a": no pool is named "defualt"; did you mean "default"?`}},
		{"under a version of llm-d", upstreamHead + rest + "objectives: [{name: a}]\n", []string{"9:1: objectives is no part of llm-d.ai/v1alpha1; set apiVersion: fairlead.dev/v1alpha1 in line 1, or remove it"}},
	})
}

func TestProblemsOfTheText(t *testing.T) {
	runProblems(t, []problemRow{
		{"nothing at all", "", []string{"the file is empty; write apiVersion and kind, or start without a configuration file to get the default one"}},
		{"only comments", "# nothing\n", []string{"the file is empty; write apiVersion and kind, or start without a configuration file to get the default one"}},
		{"a list", "- a\n", []string{"1:1: the document is a list; write a table of names and values"}},
		{"a tab in the indentation", head + "plugins:\n\t- type: queue-scorer\n", []string{"4:1: no valid YAML: a tab in the indentation; indent with spaces"}},
		{"tabs in JSON are no indentation", "{\n\t\"apiVersion\": \"llm-d.ai/v1\",\n\t\"kind\": \"EndpointPickerConfig\",\n\t\"plugins\": [\n\t\t{\"type\": \"queue-scorer\"}\n\t]\n}\n", nil},
		{"a comma too few in JSON with tabs", "{\n\t\"apiVersion\": \"llm-d.ai/v1\",\n\n\t\"kind\": \"EndpointPickerConfig\"\n\n\"plugins\": []}\n", []string{
			"6:1: no valid YAML: did not find expected ',' or '}'; check indentation, quotes and brackets here and in the line before"}},
		{"an open bracket", head + "plugins: [\n", []string{"4:1: no valid YAML: did not find expected node content; check indentation, quotes and brackets here and in the line before"}},
		{"a field that is indented less than its fellows", head + "plugins:\n  - type: a\n - type: b\n", []string{
			"5:2: no valid YAML: did not find expected key; check indentation, quotes and brackets here and in the line before"}},
		{"a value with a colon", head + "plugins:\n- type: a: b\n", []string{
			"4:10: no valid YAML: mapping values are not allowed in this context; check indentation, quotes and brackets here and in the line before"}},
		{"an unknown anchor", head + "plugins: *a\n", []string{"3:10: no valid YAML: unknown anchor 'a' referenced; check indentation, quotes and brackets here and in the line before"}},
		{"two documents", head + rest + "---\n" + head, []string{"10:1: a second document; a file holds one configuration; keep one document and put the rest into files of their own"}},
		{"separators around one document", "---\n" + head + rest + "---\n", nil},
		{"a key given twice", head + rest + "kind: EndpointPickerConfig\n", []string{`9:1: field "kind" is given twice, first in line 2; keep one of the two`}},
		{"a merge key", head + "plugins:\n- &a {type: queue-scorer}\n- {<<: *a}\n- {type: max-score-picker}\n", []string{
			`5:3: plugins[1]: type is missing; add type`, `5:4: plugins[1]: a name is wanted here, not a merge key; write the fields out`}},
		{"an alias", head + "plugins:\n- &a {type: queue-scorer}\n- *a\n", []string{
			`5:3: plugin "queue-scorer": the name is taken by the plugin in line 4; give each a name of its own`}},
	})
}

// What is no YAML is told with the place of the character that it is about, where the line shows it.
func TestPlacesOfSyntaxErrors(t *testing.T) {
	for _, row := range []struct{ name, text, place string }{
		{"a second colon", "a: 1\nbb: c: d\n", "2:6"},
		{"a second colon after a quoted one", "a: 1\nb: \"x: y\" : d\n", "2:11"},
		{"a key that is indented too far", "a: 1\n bb: 2\n", "2:4"},
		{"a character that begins nothing", "a: 1\nb: @x\n", "2:4"},
		{"a backquote", "a: 1\nbb: `x`\n", "2:5"},
		{"a tab between others", "a: 1\n\tb: 2\n", "2:1"},
		{"an escape that is none", "a: 1\nb: \"x\\q\"\n", "2:6"},
		{"a quote that is never closed", "a: it's\nb: [\"x\", 'y]\nc: 1\n", "2:10"},
		{"a list in the line of its key", "a: 1\nbc: - x\n", "2:5"},
		{"a bracket that is never closed", "a: 1\nb: [x, [1, 2\nc: 1\n", "2:8"},
		{"a brace closed by a bracket", "a: 1\nb: {x: 1]\n", "2:4"},
		{"a bracket that nothing opens", "a: [1 2]\nc: }\n", "2:4"},
		{"a comma too many", "a: 1\nb: ,\n", "2:4"},
		{"an anchor without name", "a: 1\nb: &\n", "2:4"},
		{"a key without colon", "a: 1\n  bb\nc: 1\nd\ne: 2\n", "4:1"},
		{"an item beside a key", "a: 1\n- b\n", "2:1"},
		{"a control character", "a: 1\nb: ä\x01\n", "2:5"},
		{"no UTF-8", "a: 1\nb: \uFFFD\xff\n", "2:5"},
		{"an anchor that is not there", "a: 1\nb: [1, *q]\n", "2:8"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, problems := config.Load([]byte(row.text), "f", entries())
			if len(problems) != 1 || problems[0].Code != config.CodeSyntax {
				t.Fatalf("got %v", problems)
			}
			if got := fmt.Sprintf("%d:%d", problems[0].Line, problems[0].Column); got != row.place {
				t.Errorf("it is told at %s, want %s: %v", got, row.place, problems[0])
			}
		})
	}
}

func TestProblemsOfTheHead(t *testing.T) {
	runProblems(t, []problemRow{
		{"no version", "kind: EndpointPickerConfig\n" + rest, []string{"1:1: apiVersion is missing; add apiVersion: fairlead.dev/v1alpha1"}},
		{"no kind", "apiVersion: llm-d.ai/v1\n" + rest, []string{"1:1: kind is missing; add kind: EndpointPickerConfig"}},
		{"another kind", "apiVersion: llm-d.ai/v1\nkind: InferencePool\n" + rest, []string{`2:7: kind is "InferencePool"; write EndpointPickerConfig`}},
		{"a mistyped version", "apiVersion: llm-d.ai/v1alpha2\nkind: EndpointPickerConfig\n" + rest, []string{
			`1:13: apiVersion is "llm-d.ai/v1alpha2"; did you mean "llm-d.ai/v1alpha1"?`}},
		{"a foreign version", "apiVersion: apps/v1\nkind: EndpointPickerConfig\n" + rest, []string{
			`1:13: apiVersion is "apps/v1"; one of fairlead.dev/v1alpha1, inference.networking.x-k8s.io/v1alpha1, llm-d.ai/v1alpha1, llm-d.ai/v1`}},
		{"an unknown field", head + rest + "schedulingProfile: []\n", []string{`9:1: unknown field "schedulingProfile"; did you mean "schedulingProfiles"?`}},
		{"pools elsewhere than under our version", upstreamHead + rest + "pools: [{name: a}]\nstages: []\n", []string{
			"9:1: pools is no part of llm-d.ai/v1alpha1; set apiVersion: fairlead.dev/v1alpha1 in line 1, or remove it",
			"10:1: stages is no part of llm-d.ai/v1alpha1; set apiVersion: fairlead.dev/v1alpha1 in line 1, or remove it"}},
	})
}

func TestProblemsOfPlugins(t *testing.T) {
	var types []string
	for _, e := range entries() {
		types = append(types, e.Type)
	}
	one := func(plugin string) string { return head + "plugins:\n- type: max-score-picker\n- " + plugin + "\n" }
	runProblems(t, []problemRow{
		{"a list that is a table", head + "plugins: {type: queue-scorer}\n", []string{
			"3:10: plugins is a table; write a list"}},
		{"no type", one("{name: a, parameters: {}}"), []string{`5:3: plugin "a": type is missing; add type`}},
		{"an entry that is a text", one("queue-scorer"), []string{`5:3: plugins[1] is the text "queue-scorer"; write a table of names and values`}},
		{"an unknown field", one("{type: queue-scorer, params: {}}"), []string{`5:24: plugin "queue-scorer": unknown field "params"; one of name, type, parameters`}},
		{"a mistyped type", one("{type: queue-scorrer}"), []string{`5:10: plugin "queue-scorrer": unknown type "queue-scorrer"; did you mean "queue-scorer"?`}},
		{"a name that never existed", one("{type: queue-depth-scorer}"), []string{
			`5:10: plugin "queue-depth-scorer": unknown type "queue-depth-scorer"; did you mean "queue-scorer"?`}},
		{"a type of other pickers", one("{type: multicluster-queue-scorer}"), []string{
			`5:10: plugin "multicluster-queue-scorer": type "multicluster-queue-scorer" is not available in this version; use "queue-scorer", or remove it: there is one cluster here`}},
		{"a type of other pickers without counterpart", one("{type: dcgm-extractor, name: d}"), []string{
			`5:10: plugin "d": type "dcgm-extractor" is not available in this version; remove it: attributes come from metrics pages, by customMetrics of core-metrics-extractor, from annotations and from labels`}},
		{"a mistyped type of other pickers", one("{type: dissag-profile-handler, name: d}"), []string{
			`5:10: plugin "d": unknown type "dissag-profile-handler"; if "disagg-profile-handler" is meant, it is not available in this version: use "single-profile-handler", or remove it and use one profile: prefill and decode are not split here`}},
		{"a type like no other", one("{type: zzz, name: d}"), []string{
			`5:10: plugin "d": unknown type "zzz"; one of ` + strings.Join(types, ", ")}},
		{"an old name of a type", one("{type: old-knobs-scorer}"), []string{
			`5:10: warning: plugin "old-knobs-scorer": type "old-knobs-scorer" is an old name; write type: knobs-scorer`}},
		{"one name twice", one("{type: queue-scorer, name: max-score-picker}"), []string{
			`5:30: plugin "max-score-picker": the name is taken by the plugin in line 4; rename one of the two`}},
		{"a name with a space", one("{type: queue-scorer, name: 'a b'}"), []string{
			`5:30: plugin "a b": the name has a space or control character; use letters, digits and -`}},
		{"a type that is a number", one("{type: 5}"), []string{`5:10: plugin "5": type is the number 5, not text; write it in quotes: "5"`}},
	})
}

func TestProblemsOfParameters(t *testing.T) {
	with := func(parameters string) string {
		return head + "plugins:\n- type: knobs-scorer\n  parameters: {" + parameters + "}\n"
	}
	where := `plugin "knobs-scorer": `
	row := func(name, parameters, want string) problemRow {
		return problemRow{name, with(parameters), []string{strings.Replace(want, "plugin: ", where, 1)}}
	}
	runProblems(t, []problemRow{
		{"none given", head + "plugins:\n- type: knobs-scorer\n  parameters:\n", nil},
		{"all kinds", with(`on: true, full: 2, share: 1, mode: slow, wait: 5ms, size: 2Gi, most: 0, names: [], tiers: [{name: a, ttl: 1s}], weights: {b: 1}, inner: {ttl: 2s}, perhaps: {}, tables: {x: [{name: y}]}`), nil},
		row("an unknown one", "ful: 3", `5:16: plugin: unknown parameter "ful"; did you mean "full"?`),
		row("an unknown one of a group", "inner: {nam: x}", `5:24: plugin: inner: unknown parameter "nam"; did you mean "name"?`),
		row("one given twice", "full: 3, full: 4", `5:25: plugin: parameter "full" is given twice, first in line 5; keep one of the two`),
		row("below its bound", "full: -3", `5:22: plugin: full is -3; at least 1`),
		row("above its bound", "share: 1.5", `5:23: plugin: share is 1.5; at most 1`),
		row("a text for a number", `full: "3"`, `5:22: plugin: full is the text "3"; write a whole number, without quotes`),
		row("a fraction for a whole number", `full: 1.5`, `5:22: plugin: full is 1.5; write a whole number`),
		row("a list for a number", `full: [3]`, `5:22: plugin: full is a list; write a whole number`),
		row("a number beyond all types", `full: 99999999999999999999`, `5:22: plugin: full is 99999999999999999999; write a smaller number`),
		row("not a number", `share: .nan`, `5:23: plugin: share is NaN; write a finite number`),
		row("no value", `full: `, `5:22: plugin: full has no value; remove it to have the default 128`),
		row("an old-fashioned yes", `on: yes`, `5:20: plugin: on is the text "yes"; write true or false, without quotes`),
		row("a duration without unit", `wait: 5`, `5:22: plugin: wait is 5; write a duration with its unit, such as 500ms or 2m`),
		row("not in the list", `mode: swift`, `5:22: plugin: mode is "swift"; one of fast, slow`),
		row("too many items", `names: [a, b, c, d]`, `5:23: plugin: names is 4 items long; at most 3 items`),
		row("an item of the wrong type", `names: [a, 5]`, `5:27: plugin: names[1] is the number 5; write it in quotes: "5"`),
		row("a member of an item", `tiers: [{name: a}, {ttl: soon}]`, `5:41: plugin: tiers[1].ttl is "soon"; write a duration with its unit, such as 500ms or 2m`),
		row("a value of a table", `weights: {a: 1, b: x}`, `5:35: plugin: weights.b is the text "x"; write a whole number, without quotes`),
		row("a name of a table twice", `weights: {a: 1, a: 2}`, `5:32: plugin: weights: name "a" is given twice, first in line 5; keep one of the two`),
		row("a number as a table's name", `weights: {1: 1}`, `5:26: plugin: weights: a name is wanted here, not the number 1; write it in quotes: "1"`),
		row("an old name", "limit: 3", `5:16: warning: plugin: parameter "limit" is an old name; write full`),
		row("an old name beside the new one", "full: 4, limit: 3", `5:25: plugin: parameter "full" is given twice, first in line 5; keep one of the two`),
		{"a required one is missing", head + "plugins:\n- type: needy-filter\n- type: queue-scorer\n", []string{
			`4:9: plugin "needy-filter": parameter "label" is missing; add it under parameters: text`}},
		{"parameters of a plugin that has none", head + "plugins:\n- type: queue-scorer\n  parameters: {full: 3}\n", []string{
			`5:16: plugin "queue-scorer": unknown parameter "full"; remove it: there are no parameters`}},
		{"parameters that are a list", head + "plugins:\n- type: queue-scorer\n  parameters: [full]\n", []string{
			`5:15: plugin "queue-scorer" is a list; write a table of names and values`}},
	})
}

func TestProblemsOfProfiles(t *testing.T) {
	with := func(profiles string) string {
		return head + "plugins:\n- type: queue-scorer\n- type: max-score-picker\n- {type: random-picker, name: dice}\n- type: single-profile-handler\nschedulingProfiles:\n" + profiles
	}
	const unused = `6:31: warning: plugin "dice": no profile uses it; remove it, or add it to a profile`
	runProblems(t, []problemRow{
		{"no name", with("- plugins: []\n"), []string{"9:3: schedulingProfiles[0]: name is missing; add name"}},
		{"one name twice", with("- {name: a, plugins: [{pluginRef: queue-scorer}, {pluginRef: dice}]}\n- {name: a}\n"), []string{
			`10:10: profile "a" is defined twice, first in line 9; rename one of the two`}},
		{"no reference", with("- {name: a, plugins: [{weight: 2}, {pluginRef: max-score-picker}]}\n"), []string{
			`9:23: profile "a": plugins[0]: pluginRef is missing; add pluginRef with the name of a plugin`}},
		{"a reference to nothing", with("- name: a\n  plugins:\n  - pluginRef: queue-scorer\n  - pluginRef: max-scor-picker\n  - pluginRef: dice\n"), []string{
			`12:16: profile "a": no plugin is named "max-scor-picker"; did you mean "max-score-picker"?`}},
		{"a reference to a type that is not declared", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}]\n", []string{
			`4:81: profile "a": no plugin is named "max-score-picker"; add - type: max-score-picker to plugins`}},
		{"two pickers", with("- name: a\n  plugins:\n  - pluginRef: queue-scorer\n  - pluginRef: max-score-picker\n  - pluginRef: dice\n"), []string{
			`13:16: profile "a": two pickers, "max-score-picker" and "dice"; keep one`}},
		{"one plugin twice", with("- name: a\n  plugins:\n  - pluginRef: queue-scorer\n  - pluginRef: queue-scorer\n  - pluginRef: dice\n"), []string{
			`12:16: profile "a": "queue-scorer" is listed twice, first in line 11; keep one of the two`}},
		{"a handler in a profile", with("- name: a\n  plugins: [{pluginRef: queue-scorer}, {pluginRef: single-profile-handler}, {pluginRef: dice}]\n"), []string{
			`10:52: profile "a": "single-profile-handler" (single-profile-handler) is a profile handler; remove it from the profile: a handler runs profiles and belongs under plugins alone`}},
		{"weights that are none", with("- name: a\n  plugins:\n  - {pluginRef: queue-scorer, weight: -1}\n  - {pluginRef: dice, weight: 3}\n  - {pluginRef: max-score-picker, weight: .nan}\n"), []string{
			`11:39: profile "a": plugins[0] (queue-scorer): weight is -1; write 0 to switch the scorer off, or use one that prefers the opposite`,
			`13:17: profile "a": two pickers, "dice" and "max-score-picker"; keep one`,
			`13:43: profile "a": plugins[2] (max-score-picker): weight is NaN; write a finite number`}},
		{"the weight of a picker", with("- name: a\n  plugins:\n  - {pluginRef: queue-scorer}\n  - {pluginRef: max-score-picker, weight: 3}\n"), []string{
			unused, `12:43: warning: profile "a": the weight of "max-score-picker" has no effect: it is a picker; remove it`}},
		{"weights beyond reason", with("- name: a\n  plugins:\n  - {pluginRef: queue-scorer, weight: 1e9}\n  - {pluginRef: dice}\n"), []string{
			`11:39: profile "a": plugins[0] (queue-scorer): weight is 1e+09; at most 1000000`}},
		{"an infinite weight and one in quotes", with("- name: a\n  plugins:\n  - {pluginRef: queue-scorer, weight: .inf}\n  - {pluginRef: dice, weight: '2'}\n"), []string{
			`11:39: profile "a": plugins[0] (queue-scorer): weight is +Inf; write a finite number`,
			`12:31: profile "a": plugins[1] (dice): weight is the text "2"; write a number, without quotes`}},
		{"weight 0", with("- name: a\n  plugins:\n  - {pluginRef: queue-scorer, weight: 0}\n  - {pluginRef: max-score-picker}\n"), []string{
			unused, `9:9: warning: profile "a": all its scorers have weight 0: one endpoint is drawn at random; give a scorer a weight above 0`,
			`11:39: warning: profile "a": "queue-scorer" has weight 0 and no effect; remove the scorer from the profile`}},
		{"weight 0 beside another", head + "plugins: [{type: queue-scorer}, {type: queue-headroom-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: 0}, {pluginRef: queue-headroom-scorer}]}]\n", []string{
			`4:76: warning: profile "a": "queue-scorer" has weight 0 and no effect; remove the scorer from the profile`}},
		{"scorers before a picker that looks at no score", head + "plugins: [{type: queue-scorer}, {type: random-picker}]\n", []string{
			`3:18: warning: profile "default": its scorers have no effect: "random-picker" draws whatever the scores are; use max-score-picker, or remove the scorers`}},
		{"a random picker alone", head + "plugins: [{type: random-picker}]\n", nil},
		{"a profile that no pool uses", head + rest + "- {name: other, plugins: [{pluginRef: queue-scorer}]}\npools: [{name: a, profiles: [default]}]\n", []string{
			`9:10: warning: profile "other": no pool uses it; remove it, or add it to a pool's profiles`}},
		{"no scorer", with("- name: a\n  plugins: [{pluginRef: max-score-picker}]\n"), []string{
			`4:9: warning: plugin "queue-scorer": no profile uses it; remove it, or add it to a profile`, unused,
			`9:9: warning: profile "a" has no scorer: all endpoints are equally good, and one is drawn at random; add a scorer, such as queue-scorer`}},
		{"two pickers and no profiles at all", head + "plugins: [{type: max-score-picker}, {type: random-picker}]\n", []string{
			`3:44: profile "default": two pickers, "max-score-picker" and "random-picker"; keep one`}},
		{"several profiles and no handler", head + rest + "- {name: other, plugins: [{pluginRef: queue-scorer}]}\n", []string{
			`9:10: several profiles and no profile handler that says which of them runs; add a plugin that is a profile handler, or keep one profile`}},
		{"several profiles under the handler for one", strings.Replace(head+rest, "plugins:\n", "plugins:\n- type: single-profile-handler\n", 1) + "- {name: other, plugins: [{pluginRef: queue-scorer}]}\n", []string{
			`4:9: pool "default": single-profile-handler runs one profile, and there are 2: "default" and "other"; keep one profile, or use a handler for several`}},
		{"two handlers", strings.Replace(head+rest, "plugins:\n", "plugins:\n- type: single-profile-handler\n- type: both-handler\n", 1), []string{
			`5:9: two profile handlers, "single-profile-handler" and "both-handler"; keep one`}},
	})
}
