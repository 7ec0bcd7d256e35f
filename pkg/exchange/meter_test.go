package exchange_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// meter writes down what it hears.
type meter struct{ heard []string }

func (m *meter) Decided(poolName string, _ openai.API, refused string, _ pool.Instant) {
	m.heard = append(m.heard, "decided "+poolName+" "+refused)
}

func (m *meter) Settled(poolName string, _ openai.API, o plugins.Outcome) {
	m.heard = append(m.heard, "settled "+poolName+" "+o.EndingCode)
}

func TestEachRequestIsMeteredOnce(t *testing.T) {
	m := &meter{}
	w := newWorld(t, func(o *exchange.Options) { o.Meter = m }, nil)
	for _, row := range []struct {
		name string
		run  func(x *exchange.Exchange, a exchange.Action)
		want []string
	}{
		{"a clean end", func(x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{Clean: true})
		}, []string{"decided default ", "settled default "}},
		{"an upstream that broke before its first byte", func(x *exchange.Exchange, a exchange.Action) {
			x.Failed(w.now, a.To[0], reason.UpstreamBroken)
			x.End(w.now, exchange.Ending{})
		}, []string{"decided default ", "settled default upstream_broken"}},
		{"a client that went away", func(x *exchange.Exchange, _ exchange.Action) {
			x.End(w.now, exchange.Ending{ByClient: true})
			x.End(w.now, exchange.Ending{Clean: true})
		}, []string{"decided default ", "settled default client_aborted"}},
	} {
		m.heard = nil
		x, a := w.forwarded(proxied)
		row.run(x, a)
		if !slices.Equal(m.heard, row.want) {
			t.Errorf("%s: heard %q, want %q", row.name, m.heard, row.want)
		}
	}
	m.heard = nil
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	x.Body(w.now, []byte(`{"model":}`), true)
	x.End(w.now, exchange.Ending{ByClient: true})
	if want := []string{"decided  malformed_json"}; !slices.Equal(m.heard, want) {
		t.Errorf("a refusal: heard %q, want %q", m.heard, want)
	}
}
