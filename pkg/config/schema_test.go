package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// compiled is the schema of the catalogue and of the plugins of these tests.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(entries()) })

// compile reads a schema as an independent implementation does, which holds it to the meta-schema of 2020-12.
func compile(entries []plugins.Entry) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema(entries, catalog.Descriptions())))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

// validate holds a text against the schema of entries; ok is false for one that cannot be written in JSON.
func validate(t *testing.T, schema *jsonschema.Schema, text string) (verdict error, ok bool) {
	t.Helper()
	data, ok := inJSON(text)
	if !ok {
		return nil, false
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance), true
}

// inJSON writes a YAML text in JSON, where it can be.
func inJSON(text string) (data []byte, ok bool) {
	var value any
	err := yaml.Unmarshal([]byte(text), &value)
	if err == nil {
		data, err = json.Marshal(value)
	}
	return data, err == nil
}

// schemaAccepts fails if the schema refuses what loads.
func schemaAccepts(t *testing.T, text string) {
	t.Helper()
	schema, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	if verdict, ok := validate(t, schema, text); ok && verdict != nil {
		t.Errorf("it loads, and the schema refuses it: %v\n%s", verdict, text)
	}
}

// What is wrong in itself is refused by the schema, as it is by Load.
func TestSchemaAndLoadRefuse(t *testing.T) {
	knob := func(parameters string) string {
		return head + "plugins:\n- {type: knobs-scorer, parameters: {" + parameters + "}}\n"
	}
	schema, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, text string }{
		{"nothing but a list", "- a\n"},
		{"no version", "kind: EndpointPickerConfig\n" + rest},
		{"no kind", "apiVersion: llm-d.ai/v1\n" + rest},
		{"another version", "apiVersion: apps/v1\nkind: EndpointPickerConfig\n" + rest},
		{"another kind", "apiVersion: llm-d.ai/v1\nkind: InferencePool\n" + rest},
		{"an unknown field", head + rest + "schedulingProfile: []\n"},
		{"pools under a version of llm-d", upstreamHead + rest + "pools: [{name: a}]\n"},
		{"a plugin without type", head + "plugins: [{name: a}]\n"},
		{"an unknown type", head + "plugins: [{type: zzz}]\n"},
		{"a type that is not available", head + "plugins: [{type: multicluster-queue-scorer}]\n"},
		{"an unknown field of a plugin", head + "plugins: [{type: queue-scorer, params: {}}]\n"},
		{"an unknown parameter", knob("ful: 3")},
		{"an unknown parameter of a group", knob("inner: {nam: x}")},
		{"below its bound", knob("full: -3")},
		{"above its bound", knob("share: 1.5")},
		{"a text for a number", knob(`full: "3"`)},
		{"a fraction for a whole number", knob("full: 1.5")},
		{"a list for a number", knob("full: [3]")},
		{"a duration without unit", knob("wait: 5")},
		{"a duration that is none", knob("wait: soon")},
		{"a quantity that is none", knob("size: 5 MB")},
		{"not in the list", knob("mode: swift")},
		{"too many items", knob("names: [a, b, c, d]")},
		{"an item of the wrong type", knob("names: [a, 5]")},
		{"a value of a table", knob("weights: {a: 1, b: x}")},
		{"no value", knob("full: ")},
		{"a required parameter is missing", head + "plugins: [{type: needy-filter}, {type: queue-scorer}]\n"},
		{"a parameter of a plugin that has none", head + "plugins: [{type: queue-scorer, parameters: {full: 3}}]\n"},
		{"parameters that are a list", head + "plugins: [{type: queue-scorer, parameters: [full]}]\n"},
		{"a profile without name", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{plugins: []}]\n"},
		{"a reference without name", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{weight: 1}]}]\n"},
		{"a negative weight", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: -1}]}]\n"},
		{"a weight beyond reason", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: 1e9}]}]\n"},
		{"a weight in quotes", head + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer, weight: '2'}]}]\n"},
		{"a pool without name", head + rest + "pools: [{models: []}]\n"},
		{"an unknown gate", head + rest + "featureGates: [flowControll]\n"},
		{"a gate that is neither on nor off", head + rest + "featureGates: [dataLayer=on]\n"},
		{"an unknown field of a section", head + rest + "dataLayer: {source: []}\n"},
		{"a discovery without reference", head + rest + "dataLayer: {discovery: {}}\n"},
		{"a stage that is a number", head + rest + "stages: [5]\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if file, _ := config.Load([]byte(row.text), "f", entries()); file != nil {
				t.Error("it loads")
			}
			if verdict, ok := validate(t, schema, row.text); !ok || verdict == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

// Every configuration of this repository that loads is accepted, and every page and script that has one is looked at.
func TestSchemaAcceptsWhatTheRepositoryShows(t *testing.T) {
	schema, err := compile(catalog.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	loaded := 0
	try := func(name, text string) {
		if !strings.Contains(text, config.Kind) {
			return
		}
		if file, _ := config.Load([]byte(text), name, catalog.Builtin()); file == nil {
			return
		}
		loaded++
		if verdict, ok := validate(t, schema, text); !ok || verdict != nil {
			t.Errorf("%s: %v\n%s", name, verdict, text)
		}
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".md", ".yaml", ".txtar"}, filepath.Ext(name)) {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".md":
			for _, found := range block.FindAllSubmatch(data, -1) {
				try(name, string(found[1]))
			}
		case ".yaml":
			for text := range strings.SplitSeq(string(data), "\n---\n") {
				try(name, text)
			}
		default:
			for _, text := range regexp.MustCompile(`(?m)^-- .* --\n`).Split(string(data), -1) {
				try(name, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	try("the default", config.DefaultText)
	if loaded < 20 {
		t.Errorf("only %d configurations found", loaded)
	}
}

// TestSchemaKnowsTheFieldsThatTheReaderKnows: each object of the schema has the fields that the reader names when it meets
// one that it does not know, but for those that it refuses in any case.
func TestSchemaKnowsTheFieldsThatTheReaderKnows(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(entries(), nil), &schema); err != nil {
		t.Fatal(err)
	}
	refused := []string{"peerDiscovery", "crossReplicaSyncerPluginRef", "crossReplicaSyncInterval"}
	const odd = "qqqqqqqqqqqq"
	oneOf := regexp.MustCompile(odd + `"; one of (.*)$`)
	for _, row := range []struct{ text, path string }{
		{head + odd + ": 1\n", ""},
		{head + "plugins: [{type: queue-scorer, " + odd + ": 1}]\n", "plugins[]"},
		{head + "schedulingProfiles: [{name: a, " + odd + ": 1}]\n", "schedulingProfiles[]"},
		{head + "schedulingProfiles: [{name: a, plugins: [{pluginRef: a, " + odd + ": 1}]}]\n", "schedulingProfiles[].plugins[]"},
		{head + "pools: [{name: a, " + odd + ": 1}]\n", "pools[]"},
		{head + "pools: [{name: a, models: [{name: b, " + odd + ": 1}]}]\n", "pools[].models[]"},
		{head + "dataLayer: {" + odd + ": 1}\n", "dataLayer"},
		{head + "dataLayer: {discovery: {pluginRef: a, " + odd + ": 1}}\n", "dataLayer.discovery"},
		{head + "dataLayer: {sources: [{pluginRef: a, " + odd + ": 1}]}\n", "dataLayer.sources[]"},
		{head + "dataLayer: {sources: [{pluginRef: a, extractors: [{pluginRef: b, " + odd + ": 1}]}]}\n", "dataLayer.sources[].extractors[]"},
		{head + "flowControl: {" + odd + ": 1}\n", "flowControl"},
		{head + "flowControl: {defaultPriorityBand: {" + odd + ": 1}}\n", "flowControl.defaultPriorityBand"},
		{head + "flowControl: {priorityBands: [{" + odd + ": 1}]}\n", "flowControl.priorityBands[]"},
		{head + "requestHandler: {" + odd + ": 1}\n", "requestHandler"},
		{head + "requestHandler: {parsers: [{pluginRef: a, " + odd + ": 1}]}\n", "requestHandler.parsers[]"},
		{head + "saturationDetector: {" + odd + ": 1}\n", "saturationDetector"},
		{head + "parser: {" + odd + ": 1}\n", "parser"},
	} {
		_, problems := config.Load([]byte(row.text), "f", entries())
		var known []string
		for _, p := range problems {
			if found := oneOf.FindStringSubmatch(p.Error()); found != nil {
				known = strings.Split(found[1], ", ")
			}
		}
		known = slices.DeleteFunc(known, func(name string) bool { return slices.Contains(refused, name) })
		slices.Sort(known)
		at := schema
		for step := range strings.SplitSeq(row.path, ".") {
			name, list := strings.CutSuffix(step, "[]")
			if name == "" {
				continue
			}
			at = at["properties"].(map[string]any)[name].(map[string]any)
			if list {
				at = at["items"].(map[string]any)
			}
		}
		var has []string
		for name := range at["properties"].(map[string]any) {
			has = append(has, name)
		}
		slices.Sort(has)
		if fmt.Sprint(known) != fmt.Sprint(has) {
			t.Errorf("%s: the reader knows %v, the schema %v", row.path, known, has)
		}
	}
}
