package catalog_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
	"github.com/fairlead/fairlead/pkg/sessions"
)

func TestEveryEntryServesAnExtensionPoint(t *testing.T) {
	names := map[string]bool{}
	for _, e := range catalog.Builtin() {
		for _, name := range append([]string{e.Type}, e.Renamed...) {
			if names[name] {
				t.Errorf("%s stands twice", name)
			}
			names[name] = true
		}
		switch e.New().(type) {
		case plugins.Stage, plugins.Describer, plugins.Producer, plugins.Observer, plugins.Admitter, plugins.Filter, plugins.Scorer, plugins.Picker, plugins.ProfileHandler,
			plugins.RequestHook, plugins.AttemptHook, plugins.ResponseHook, plugins.AnswerHook, plugins.Settler, plugins.Policy:
		default:
			t.Errorf("%s serves no extension point", e.Type)
		}
		if a, b := e.New(), e.New(); len(plugins.Params(a)) > 0 && a == b {
			t.Errorf("%s: two calls of the constructor return one plugin", e.Type)
		}
	}
}

// A default producer must provide what the catalogue says that it does, or a configuration that relies on it fails late.
func TestDefaultProducersProvide(t *testing.T) {
	asks := map[string]func() (any, error){ // somebody who needs it
		"approx-prefix-cache-producer": func() (any, error) { return scorers.NewPrefixCache(), nil },
		"topology-extractor":           func() (any, error) { return scorers.NewTopologyAffinity(), nil },
		"capacity-class-producer":      func() (any, error) { return &asksClasses{}, nil },
		"adapter-producer":             func() (any, error) { return &asksAdapters{}, nil },
		"load-model-producer":          func() (any, error) { return scorers.NewCost(), nil },
		"hot-prefix-producer":          func() (any, error) { return filters.NewHotPrefix(), nil },
		"predicted-latency-producer":   func() (any, error) { return &asksHigh{}, nil },
		"output-length-producer":       func() (any, error) { return &asksLengths{}, nil },
		"agent-identity": func() (any, error) {
			s := sessions.NewScorer()
			s.Strategy, s.SessionIDConfig.Sources = "session_id", []sessions.IDSource{{Attribute: "agent-identity"}}
			return s, nil
		},
	}
	for _, e := range catalog.Builtin() {
		if len(e.MakesByDefault) == 0 {
			continue
		}
		if asks[e.Type] == nil {
			t.Errorf("nobody asks for %s", e.Type)
			continue
		}
		b, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "asks", Type: "asks", Construct: asks[e.Type]}}}, catalog.Builtin())
		if err != nil {
			t.Fatal(err)
		}
		added := b.Instances()[1]
		for _, word := range append([]string{e.Type}, e.MakesByDefault...) {
			if !strings.Contains(added, word) {
				t.Errorf("%q was added; want %s with %q", added, e.Type, e.MakesByDefault)
			}
		}
	}
}

// asksAdapters needs to know where a request's adapter has a place.
type asksAdapters struct{}

func (*asksAdapters) Provision(b *plugins.Builder) error {
	_, _ = plugins.Needs(b, plugins.AdapterHere), plugins.Needs(b, plugins.AdapterPlaces)
	return nil
}

func (*asksAdapters) Score(*plugins.Cycle, []float64) {}

// asksClasses needs to know on what endpoints run.
type asksClasses struct{}

func (*asksClasses) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.CapacityClasses)
	return nil
}

// asksLengths needs to know how much requests generate.
type asksLengths struct{}

func (*asksLengths) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.ExpectedOutput)
	return nil
}

// asksHigh needs all that is predicted.
type asksHigh struct{}

func (*asksHigh) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.PredictedTTFT)
	plugins.Needs(b, plugins.PredictedITL)
	plugins.Needs(b, plugins.HighTTFT)
	plugins.Needs(b, plugins.HighITL)
	return nil
}
