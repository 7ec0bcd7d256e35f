package producers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
)

// places scores nothing and keeps what it reads.
type places struct {
	where  plugins.EndpointValues[plugins.Locality]
	tokens plugins.EndpointValues[int64]
	got    []plugins.Locality
	load   []int64
}

func (p *places) Provision(b *plugins.Builder) error {
	p.where, p.tokens = plugins.Needs(b, plugins.Localities), plugins.Needs(b, plugins.InFlightTokens)
	return nil
}

func (p *places) Score(c *plugins.Cycle, _ []float64) {
	p.got, p.load = nil, nil
	for _, id := range c.Candidates {
		p.got, p.load = append(p.got, p.where.Of(c)[id]), append(p.load, p.tokens.Of(c)[id])
	}
}

func TestTopologyReadsLabels(t *testing.T) {
	read := &places{}
	own := producers.NewTopology()
	own.Rack = "nvlink-domain"
	g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "read", Plugin: read, Weight: 1}, {Name: "topology", Plugin: own}})
	labels := map[string]map[string]string{
		"a": {"kubernetes.io/hostname": "h1", "nvlink-domain": "r1", "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "g1"},
		"b": {"topology.kubernetes.io/rack": "unread"},
		"c": nil,
	}
	like := func(e *pool.Endpoint) {
		e.Labels = labels[e.Name]
		if e.Name == "b" {
			e.Node = "node-7"
		}
	}
	g.MembersLike(like, "a", "b", "c")
	for range 2 { // the second time from memory
		g.Send(openai.NewSummary())
		want := []plugins.Locality{{Host: "h1", Rack: "r1", Zone: "z1", Region: "g1"}, {Host: "node-7"}, {}}
		if !slices.Equal(read.got, want) {
			t.Errorf("got %v, want %v", read.got, want)
		}
	}
	labels["c"] = map[string]string{"topology.kubernetes.io/zone": "z9"}
	g.MembersLike(like, "a", "b", "c")
	g.Send(openai.NewSummary())
	if read.got[2].Zone != "z9" {
		t.Errorf("a label that changed is not seen: %v", read.got)
	}
}

func TestInFlightLoadChoosesWhatCounts(t *testing.T) {
	for _, r := range []struct {
		name   string
		output bool
		want   int64
	}{{"prompts alone", false, 700}, {"answers too", true, 740}} {
		t.Run(r.name, func(t *testing.T) {
			read, load := &places{}, producers.NewInFlightLoad()
			load.AddEstimatedOutputTokens = r.output
			g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "read", Plugin: read, Weight: 1}, {Name: "topology", Plugin: producers.NewTopology()}, {Name: "load", Plugin: load}}, "a", "b")
			g.Pool.Decide(func(s *pool.Snapshot, books *pool.Books) {
				books.Book(s.Slots[1].Ref, pool.Load{UncachedPrefill: 700, Decode: 40}, 1e12)
			})
			g.Send(openai.NewSummary())
			if read.load[0] != 0 || read.load[1] != r.want {
				t.Errorf("got %v, want [0 %d]", read.load, r.want)
			}
		})
	}
}

func TestInFlightLoadRefusesWhatTheBooksDoNotKnow(t *testing.T) {
	ratio, most := 1.5, int64(100)
	for _, r := range []struct {
		name      string
		load      producers.InFlightLoad
		want, say string
	}{
		{"a ratio of the prompt", producers.InFlightLoad{AddEstimatedOutputTokens: true, OutputRatio: &ratio}, "outputRatio: the length of an answer", ""},
		{"another bound", producers.InFlightLoad{AddEstimatedOutputTokens: true, MaxEstimatedOutputTokens: &most}, "maxEstimatedOutputTokens: the bound", ""},
		{"a ratio that counts for nothing", producers.InFlightLoad{OutputRatio: &ratio}, "", "outputRatio has no effect"},
		{"a bound that counts for nothing", producers.InFlightLoad{MaxEstimatedOutputTokens: &most}, "", "maxEstimatedOutputTokens has no effect"},
		{"replicas that shall talk", producers.InFlightLoad{SyncCrossReplicaState: true}, "", "syncCrossReplicaState has no effect"},
		{"nothing of it", producers.InFlightLoad{}, "", ""},
	} {
		b, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "load", Type: "inflight-load-producer", Construct: func() (any, error) { l := r.load; return &l, nil }}}}, nil)
		if (err == nil) != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: got %v\nwant %s", r.name, err, r.want)
		}
		if err != nil {
			continue
		}
		said := ""
		for _, w := range b.Warnings() {
			said += w.Message
		}
		if (said == "") != (r.say == "") || !strings.Contains(said, r.say) {
			t.Errorf("%s: warned %q, want %q", r.name, said, r.say)
		}
	}
}
