package config_test

import (
	"os"
	"testing"

	"github.com/fairlead/fairlead/pkg/config"
)

// FuzzConfig: no text makes Load panic, every problem has a message, and what loads means the same when its effective text
// is loaded.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{"", head, config.DefaultText, head + rest, everything, upstreamHead + rest, "{", "- a", "a: &a [*a]", head + "plugins: &a [*a]\n",
		head + "plugins: [{type: knobs-scorer, parameters: {names: &n [a, b], tiers: [&t {name: x}, *t]}}]\n",
		`{"apiVersion":"llm-d.ai/v1","kind":"EndpointPickerConfig","plugins":[{"type":"queue-scorer"}]}`,
		head + "featureGates: [dataLayer]\nparser: {pluginRef: a}\n"} {
		f.Add([]byte(text))
	}
	if data, err := os.ReadFile("testdata/target-system.yaml"); err == nil {
		f.Add(data)
	}
	all := entries()
	f.Fuzz(func(t *testing.T, data []byte) {
		file, problems := config.Load(data, "f", all)
		for _, p := range problems {
			if p.Message == "" || p.Code == "" || p.Line < 0 {
				t.Errorf("problem %+v says nothing", p)
			}
		}
		if (file == nil) != config.HasErrors(problems) {
			t.Fatalf("file is %v with problems %v", file != nil, problems)
		}
		if file == nil {
			return
		}
		mustReload(t, file)
		file.Build()
	})
}
