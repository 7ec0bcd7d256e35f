package config_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
)

// What the parameters of a plugin cannot mean together, or at all, does not load, and the place is told.
func TestPluginsRefuseWhatCannotBe(t *testing.T) {
	const label = " cannot be a label's name"
	for _, row := range []struct{ name, plugin, want string }{
		{"an ejection that begins above its bound", "{type: health-filter, parameters: {ejectBase: 30s}}", "4:49: plugin \"health-filter\": ejectBase is 30s, and ejectMax 20s bounds it; lower ejectBase, or raise ejectMax"},
		{"the same where nobody listens", "{type: health-filter, parameters: {unreachableBase: 2s, ejectMax: 1500ms, ejectBase: 1s}}", "unreachableBase is 2s, and ejectMax 1.5s bounds it"},
		{"an ejection as long as its bound", "{type: health-filter, parameters: {ejectBase: 20s}}", ""},
		{"a label of hardware", "{type: capacity-class-producer, parameters: {product: 'bad label!!'}}", "4:57: plugin \"capacity-class-producer\": product \"bad label!!\"" + label},
		{"the label of a slice", "{type: capacity-class-producer, parameters: {config: 'a b'}}", "config \"a b\"" + label},
		{"the label of the number", "{type: capacity-class-producer, parameters: {replicas: a/b/c}}", "replicas \"a/b/c\"" + label},
		{"the label of the memory", "{type: capacity-class-producer, parameters: {memory: -m}}", "memory \"-m\"" + label},
		{"the annotation of a class", "{type: capacity-class-producer, parameters: {annotation: A.com/x}}", "annotation \"A.com/x\"" + label},
		{"a label of a place", "{type: topology-extractor, parameters: {zone: 'my zone'}}", "zone \"my zone\"" + label},
		{"a label that is compared with a header", "{type: header-label-affinity-scorer, parameters: {headerName: x-a, labelKey: 'a b'}}", "labelKey \"a b\"" + label},
		{"the label of a range", "{type: context-length-aware, parameters: {label: 'a b'}}", "label \"a b\"" + label},
		{"the label of an engine", "{type: core-metrics-extractor, parameters: {engineLabelKey: 'a b'}}", "engineLabelKey \"a b\"" + label},
		{"a duration that an instant cannot hold", "{type: flow-control, parameters: {defaultRequestTTL: 2562047h}}", "defaultRequestTTL is 2562047h; at most 175200h"},
		{"a duration of years", "{type: flow-control, parameters: {defaultRequestTTL: 87600h}}", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			file, problems := config.Load([]byte(head+"plugins:\n- "+row.plugin+"\n- type: queue-scorer\n"), "f", catalog.Builtin())
			if file != nil {
				_, more := file.Build()
				problems = append(problems, more...)
			}
			var errors []string
			for _, p := range problems {
				if p.Severity == config.Error {
					errors = append(errors, p.Error())
				}
			}
			got := strings.Join(errors, "\n")
			if row.want == "" && got != "" || row.want != "" && (len(errors) != 1 || !strings.Contains(got, row.want)) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
