package plugins_test

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/scorers"
	"github.com/fairlead/fairlead/pkg/sessions"
)

// set fills in what a plugin of the catalogue must be given, and switches on what its default leaves out.
func set(plugin any) any {
	switch p := plugin.(type) {
	case *filters.LabelSelector:
		p.MatchLabels = map[string]string{"llm-d.ai/role": "encode-prefill-decode"}
	case *filters.Utilization:
		p.Conditions = []filters.UtilizationCondition{{Metric: "active-requests", MaxValue: 100}, {Metric: "running-requests", MaxValue: 100},
			{Metric: "waiting-queue", MaxValue: 100}, {Metric: "kv-cache-utilization", MaxValue: 1}}
	case *filters.EndpointAttribute:
		p.Attribute, p.Algorithm = "gpu", filters.Comparison{Type: "threshold", Threshold: filters.Threshold{Operator: "LessThan", Value: 2}}
	case *filters.TopologyAffinity:
		p.MinAffinity, p.Own = "region", &plugins.Locality{Region: "g"}
	case *filters.PrefixCacheAffinity:
		p.ExplorationProbability = 0.5
	case *scorers.ContextLength:
		p.EnableFiltering = true
	case *scorers.HeaderLabel:
		p.HeaderName, p.LabelKey = "x-tenant", "tenant"
	case *scorers.TopologyAffinity:
		p.Own = &plugins.Locality{Zone: "z1"}
	case *scorers.EndpointAttribute:
		p.AttributeKey, p.Algorithm.Type = "gpu", "linear_lower_is_better"
	case *sessions.Scorer:
		p.Strategy = "session_id"
	}
	return plugin
}

// alone is a pool of so many endpoints under a profile of one plugin, with everything known that plugins read.
func alone(t testing.TB, e plugins.Entry, endpoints int) *world {
	t.Helper()
	spec := builtin([]string{"max-score-picker"}, []float64{0})
	plugin := plugins.PluginSpec{Name: "it", Type: e.Type, Construct: func() (any, error) { return set(e.New()), nil }}
	spec.Plugins = append(spec.Plugins, plugin)
	if _, picks := e.New().(plugins.Picker); picks {
		spec.Profiles[0].Plugins = nil
	}
	spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: "it", Weight: 1})
	built, err := plugins.Build(spec, catalog.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, built, 0)
	ends := members(endpoints)
	for i := range ends {
		ends[i].Labels = map[string]string{"llm-d.ai/role": "encode-prefill-decode", "tenant": "red", "gpu": "0.5", "topology.kubernetes.io/zone": "z1",
			"topology.kubernetes.io/region": "g", "llm-d.ai/context-length-range": "0-8192"}
	}
	w.now = 1000
	w.pool.Update(w.now, ends)
	for i, id := range w.pool.Snapshot().Members {
		w.pool.Observe(w.now, w.pool.Snapshot().Slots[id].Ref, pool.Sample{
			At: w.now, Waiting: int32(i % 7), Running: int32(i % 11), Blocks: 27000, BlockTokens: 16, KVUsage: float64(i%10) / 10, ProcessStart: -1,
			Adapters: []string{"a", "b"}, AdaptersWaiting: []string{"c"}, AdaptersMax: 4,
		})
	}
	w.request.Headers = openai.Headers{{Name: "x-tenant", Value: "red"}, {Name: "x-session-id", Value: "77"},
		{Name: "x-session-token", Value: "ZGVmYXVsdC9lMQ=="}} // default/e1
	w.request.Body = prompt(8000)
	legs := w.mustDecide(t)
	built.Plans[0].Commit(w.notes, &w.request, legs, &plugins.Outgoing{})
	w.mustDecide(t)
	return w
}

// each calls f with every plugin of the catalogue that takes part in a profile.
func each(f func(e plugins.Entry)) {
	for _, e := range catalog.Builtin() {
		switch e.New().(type) {
		case plugins.Filter, plugins.Scorer, plugins.Picker:
			f(e)
		}
	}
}

func TestNoPluginAllocates(t *testing.T) {
	if raced {
		t.Skip("needs a build without the race detector, under which sync.Pool drops what it is given")
	}
	each(func(e plugins.Entry) {
		t.Run(e.Type, func(t *testing.T) {
			w := alone(t, e, 100)
			if n := testing.AllocsPerRun(100, func() { w.once(t) }); n > 0 {
				t.Errorf("a cycle over 100 endpoints allocates %v times, want 0", n)
			}
		})
	})
}

// A cycle with one filter, scorer or picker: what it costs beside one with the picker alone, with the facts that it reads.
func BenchmarkPlugins(b *testing.B) {
	each(func(e plugins.Entry) {
		for _, n := range []int{8, 100} {
			b.Run(fmt.Sprintf("%s/%d endpoints", e.Type, n), func(b *testing.B) {
				w := alone(b, e, n)
				b.ReportAllocs()
				for b.Loop() {
					w.once(b)
				}
			})
		}
	})
}
