package exchange_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// foretold says that every request generates so many tokens.
type foretold struct {
	tokens   int64
	expected plugins.RequestValue[int64]
}

func (f *foretold) Provision(b *plugins.Builder) error {
	f.expected = plugins.Provides(b, plugins.ExpectedOutput)
	return nil
}

func (f *foretold) Describe(r *plugins.Request) { f.expected.Set(r, f.tokens) }

// learned is a load model that has seen answers of so many tokens on average.
type learned struct {
	mean    float64
	traffic plugins.RequestValue[plugins.Traffic]
}

func (l *learned) Provision(b *plugins.Builder) error {
	l.traffic = plugins.Provides(b, plugins.Traffics)
	return nil
}

func (l *learned) Describe(r *plugins.Request) {
	l.traffic.Set(r, plugins.Traffic{OutputTokens: l.mean})
}

func (*learned) Score(c *plugins.Cycle, out []float64) { clear(out) }

// What a plugin expects to be generated is what is booked, though no profile reads it; else what answers were seen to have, however
// long; where nobody knows, the request's bound and the option.
func TestBooksCountTheExpectedOutput(t *testing.T) {
	for _, r := range []struct {
		name  string
		body  string
		extra []plugins.PluginSpec
		want  int64
	}{
		{"a plugin expects 77", `{"model":"m","max_tokens":100,"messages":[]}`, []plugins.PluginSpec{instance("foretold", &foretold{tokens: 77})}, 77},
		{"and knows better than the mean", `{"model":"m","messages":[]}`,
			[]plugins.PluginSpec{instance("foretold", &foretold{tokens: 77}), instance("learned", &learned{mean: 900})}, 77},
		{"answers have 900 on average", `{"model":"m","messages":[]}`, []plugins.PluginSpec{instance("learned", &learned{mean: 899.5})}, 900},
		{"of each completion", `{"model":"m","n":3,"messages":[]}`, []plugins.PluginSpec{instance("learned", &learned{mean: 900})}, 2700},
		{"nobody knows, and the request has a bound", `{"model":"m","max_tokens":100,"messages":[]}`, nil, 100},
		{"nobody knows", `{"model":"m","messages":[]}`, nil, 256},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, nil, nil, r.extra...)
			x := w.begin()
			x.Headers(w.now, post("/v1/chat/completions"), exchange.Via{Adapter: "test"}, false)
			if a := x.Body(w.now, []byte(r.body), true); a.Do != exchange.Forward {
				t.Fatal(a.Do)
			}
			sum := int64(0)
			w.pools[0].Decide(func(_ *pool.Snapshot, books *pool.Books) {
				for _, n := range books.DecodeTokens {
					sum += n
				}
			})
			if sum != r.want {
				t.Errorf("booked %d tokens, want %d", sum, r.want)
			}
		})
	}
}
