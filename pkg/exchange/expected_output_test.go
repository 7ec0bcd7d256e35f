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

// What a plugin expects to be generated is what is booked, though no profile reads it; where none does, the request's bound
// and the option.
func TestBooksCountTheExpectedOutput(t *testing.T) {
	for _, r := range []struct {
		name  string
		extra []plugins.PluginSpec
		want  int64
	}{
		{"a plugin expects 77", []plugins.PluginSpec{instance("foretold", &foretold{tokens: 77})}, 77},
		{"no plugin expects", nil, 100},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, nil, nil, r.extra...)
			x := w.begin()
			x.Headers(w.now, post("/v1/chat/completions"), exchange.Via{Adapter: "test"}, false)
			if a := x.Body(w.now, []byte(`{"model":"m","max_tokens":100,"messages":[]}`), true); a.Do != exchange.Forward {
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
