package plugins_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestNearness(t *testing.T) {
	at := plugins.Locality{Host: "h1", Rack: "r1", Zone: "z1", Region: "g1"}
	for _, r := range []struct {
		name string
		to   plugins.Locality
		want plugins.Nearness
	}{
		{"the same host", plugins.Locality{Host: "h1", Rack: "r1", Zone: "z1", Region: "g1"}, plugins.SameHost},
		{"the host alone is known", plugins.Locality{Host: "h1"}, plugins.SameHost},
		{"the same rack", plugins.Locality{Host: "h2", Rack: "r1", Zone: "z1", Region: "g1"}, plugins.SameRack},
		{"the same zone", plugins.Locality{Host: "h2", Rack: "r2", Zone: "z1", Region: "g1"}, plugins.SameZone},
		{"the same region", plugins.Locality{Host: "h2", Zone: "z2", Region: "g1"}, plugins.SameRegion},
		{"nothing is shared", plugins.Locality{Host: "h2", Rack: "r2", Zone: "z2", Region: "g2"}, plugins.Apart},
		{"nothing is known", plugins.Locality{}, plugins.Apart},
	} {
		t.Run(r.name, func(t *testing.T) {
			if a, b := at.Nearness(r.to), r.to.Nearness(at); a != r.want || b != r.want {
				t.Errorf("got %v and %v, want %v", a, b, r.want)
			}
		})
	}
	if (plugins.Locality{}).Nearness(plugins.Locality{}) != plugins.Apart {
		t.Error("what is not known is shared with nobody")
	}
}

func TestScalarsTravelInRecords(t *testing.T) {
	for _, r := range []struct {
		text string
		want plugins.Scalar
	}{{"null", plugins.Scalar{}}, {"-1", plugins.Scalar{Value: -1, Known: true}}, {"0.1", plugins.Scalar{Value: 0.1, Known: true}}} {
		got := plugins.Scalar{Value: 9, Known: true}
		if err := json.Unmarshal([]byte(r.text), &got); err != nil || got != r.want {
			t.Errorf("%s: got %v, %v", r.text, got, err)
		}
		if text, err := json.Marshal(r.want); err != nil || string(text) != r.text {
			t.Errorf("%v: got %s, %v", r.want, text, err)
		}
	}
}

func TestHeaderNames(t *testing.T) {
	for _, r := range []struct{ name, want, refused string }{
		{"EPP-Profile", "epp-profile", ""},
		{"x_y.z~", "x_y.z~", ""},
		{"", "", "headerName is empty"},
		{":path", "", `headerName is ":path"`},
		{"a b", "", `headerName is "a b"`},
		{"Authorization", "", "carries secrets"},
		{"Cookie", "", "carries secrets"},
	} {
		got, err := plugins.HeaderName("headerName", r.name)
		if got != r.want || (err == nil) != (r.refused == "") || err != nil && !strings.Contains(err.Error(), r.refused) {
			t.Errorf("%q: got %q, %v", r.name, got, err)
		}
	}
	if got, err := plugins.AnyHeaderName("headerName", "Cookie"); got != "cookie" || err != nil {
		t.Errorf("a header of which a hash alone is kept: %q, %v", got, err)
	}
}

// reader scores nothing and keeps what it reads.
type reader struct {
	attribute plugins.EndpointValues[plugins.Scalar]
	header    plugins.RequestValue[string]
	model     plugins.RequestValue[string]
	steered   plugins.RequestValue[[]string]
	running   plugins.EndpointValues[[]string]
	most      plugins.EndpointValues[int32]
	tokens    plugins.EndpointValues[int64]
	got       []plugins.Scalar
	said      []any
}

func (p *reader) Provision(b *plugins.Builder) error {
	p.attribute = plugins.Needs(b, plugins.AttributeNamed("gpu"))
	p.header = plugins.Needs(b, plugins.HeaderValue("x-tenant"))
	p.model = plugins.Needs(b, plugins.RequestedModel)
	p.steered = plugins.Needs(b, plugins.SteeredTo)
	p.running = plugins.Needs(b, plugins.RunningAdapters)
	p.most = plugins.Needs(b, plugins.MaxAdapters)
	p.tokens = plugins.Needs(b, plugins.InFlightTokens)
	return nil
}

func (p *reader) Score(c *plugins.Cycle, _ []float64) {
	p.got, p.said = nil, []any{p.header.Of(c.Request), p.model.Of(c.Request), len(p.steered.Of(c.Request))}
	for _, id := range c.Candidates {
		p.got = append(p.got, p.attribute.Of(c)[id])
		p.said = append(p.said, p.running.Of(c)[id], p.most.Of(c)[id], p.tokens.Of(c)[id])
	}
}

// An attribute comes from the fresh sample, else the annotation, else the label; a text that is no number is none.
func TestAttributes(t *testing.T) {
	p := &reader{}
	spec := builtin([]string{"max-score-picker"}, []float64{0})
	spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: "reader", Type: "reader", Construct: func() (any, error) { return p, nil }})
	spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: "reader", Weight: 1})
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if built.Reads != plugins.ReadsModel {
		t.Errorf("somebody reads the model, and %v of a request is awaited", built.Reads)
	}
	w := newWorld(t, built, 0)
	w.now = 100
	ends := members(7)
	for i, says := range []struct{ annotation, label string }{{"0.5", "0.7"}, {"", "0.7"}, {"many", "0.7"}, {"", "inf"}, {"NaN", ""}, {}, {"-1", ""}} {
		if says.annotation != "" {
			ends[i].Annotations = map[string]string{"gpu": says.annotation}
		}
		ends[i].Labels = map[string]string{"gpu": says.label}
	}
	w.pool.Update(w.now, ends)
	s := pool.NoSample()
	s.At, s.Adapters, s.AdaptersMax, s.Custom = w.now, []string{"a"}, 4, []pool.Attribute{{Name: "gpa", Value: 1}, {Name: "gpu", Value: 2}}
	for _, i := range []int{0, 5} {
		w.pool.Observe(w.now, w.pool.Snapshot().Slots[i].Ref, s)
	}
	w.mustDecide(t)
	known := func(v float64) plugins.Scalar { return plugins.Scalar{Value: v, Known: true} }
	for i, want := range []plugins.Scalar{known(2), known(0.7), {}, {}, {}, known(2), known(-1)} {
		if p.got[i] != want {
			t.Errorf("endpoint %d: got %v, want %v", i, p.got[i], want)
		}
	}
	if running, most := p.said[3].([]string), p.said[4].(int32); len(running) != 1 || most != 4 {
		t.Errorf("scraped: %v, %v", running, most)
	}
	if running, most, tokens := p.said[6].([]string), p.said[7].(int32), p.said[8].(int64); running != nil || most != plugins.Unknown || tokens != 0 {
		t.Errorf("never scraped: %v, %v, %v", running, most, tokens)
	}
}

// answerer adds a header to answers.
type answerer struct{ fails bool }

func (a answerer) Answer(_ *plugins.Request, set openai.Headers) openai.Headers {
	if a.fails {
		panic("answerer")
	}
	return set.Set("x-session-token", "abc")
}

func TestAnswerHooks(t *testing.T) {
	spec := builtin([]string{"max-score-picker"}, []float64{0})
	for name, a := range map[string]answerer{"good": {}, "bad": {fails: true}} {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return a, nil }})
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := notes{}
	set := built.Plans[0].Answer(n, &plugins.Request{}, openai.Headers{{Name: "x-own", Value: "1"}})
	if set.Get("x-own") != "1" || set.Get("x-session-token") != "abc" {
		t.Errorf("got %v", set)
	}
	if len(n[reason.HookPanic]) != 1 {
		t.Errorf("the panic of a hook is noted: %v", n)
	}
}

// doubler makes a fact of what another producer makes.
type doubler struct {
	in  plugins.EndpointValues[int64]
	out plugins.EndpointValues[int64]
}

func doubled() plugins.Fact[plugins.EndpointValues[int64]] {
	return plugins.Fact[plugins.EndpointValues[int64]]{Name: "doubled", Source: "doubler"}
}

func (p *doubler) Provision(b *plugins.Builder) error {
	p.in, p.out = plugins.Needs(b, plugins.CachedTokens), plugins.Provides(b, doubled())
	return nil
}

func (p *doubler) Produce(c *plugins.Cycle) {
	for _, id := range c.Candidates {
		p.out.Of(c)[id] = 2 * p.in.Of(c)[id]
	}
}

// seven makes the fact that doubler needs.
type seven struct{ out plugins.EndpointValues[int64] }

func (p *seven) Provision(b *plugins.Builder) error {
	p.out = plugins.Provides(b, plugins.CachedTokens)
	return nil
}

func (p *seven) Produce(c *plugins.Cycle) {
	for _, id := range c.Candidates {
		p.out.Of(c)[id] = 7
	}
}

// wantsDoubled needs the last fact of the chain.
type wantsDoubled struct {
	in  plugins.EndpointValues[int64]
	got int64
}

func (p *wantsDoubled) Provision(b *plugins.Builder) error {
	p.in = plugins.Needs(b, doubled())
	return nil
}

func (p *wantsDoubled) Score(c *plugins.Cycle, _ []float64) { p.got = p.in.Of(c)[c.Candidates[0]] }

func TestProducersRunAfterThoseTheyNeed(t *testing.T) {
	p := &wantsDoubled{}
	spec := builtin([]string{"max-score-picker"}, []float64{0})
	for _, it := range []struct {
		name  string
		value any
	}{{"scorer", p}, {"doubler", &doubler{}}, {"seven", &seven{}}} {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: it.name, Type: it.name, Construct: func() (any, error) { return it.value, nil }})
	}
	spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: "scorer", Weight: 1})
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	newWorld(t, built, 1).mustDecide(t)
	if p.got != 14 {
		t.Errorf("got %d, want 14: the second producer ran before the first", p.got)
	}
}

// peers runs two profiles and keeps whom each saw as its peer.
type peers struct{ seen []string }

func (p *peers) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	look := func() {
		name := "nobody"
		if id, ok := c.Peer(); ok {
			name = c.Snapshot.Slots[id].Name
		}
		p.seen = append(p.seen, name)
	}
	look()
	first := c.Run("decode")
	look()
	second := c.Run("prefill")
	look()
	return append(c.Legs(), plugins.Leg{Profile: "decode", Result: first}, plugins.Leg{Profile: "prefill", Result: second}), nil
}

func TestALaterProfileKnowsWhomTheFirstChose(t *testing.T) {
	p := &peers{}
	spec := builtin([]string{"max-score-picker"}, []float64{0})
	spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: "peers", Type: "peers", Construct: func() (any, error) { return p, nil }})
	refs := spec.Profiles[0].Plugins
	spec.Profiles = []plugins.ProfileSpec{{Name: "decode", Plugins: refs}, {Name: "prefill", Plugins: refs}}
	spec.Pools[0].Profiles, spec.Pools[0].Handler = []string{"decode", "prefill"}, "peers"
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, built, 4)
	for range 2 {
		legs := w.mustDecide(t)
		chosen := w.pool.Snapshot().Slots[legs[0].Endpoints[0]].Name
		if want := []string{"nobody", chosen, chosen}; !slices.Equal(p.seen, want) {
			t.Errorf("got %v, want %v", p.seen, want)
		}
		p.seen = nil
	}
}
