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
type meter struct {
	heard []string
	last  exchange.Metered
}

func (m *meter) Decided(of exchange.Metered, refused reason.ID, _ pool.Instant) {
	code := ""
	if refused != 0 {
		code = refused.String()
	}
	m.last = of
	m.heard = append(m.heard, "decided "+of.Target.Pool+" "+code)
}

func (m *meter) Settled(of exchange.Metered, o plugins.Outcome) {
	m.last = of
	m.heard = append(m.heard, "settled "+of.Target.Pool+" "+o.EndingCode)
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

func TestWhatTheMeterIsToldOfARequest(t *testing.T) {
	m := &meter{}
	w := newWorld(t, func(o *exchange.Options) { o.Meter, o.Full = m, true }, nil)
	x, a := w.forwarded(proxied)
	decided := m.last
	if decided.Model == "" || decided.Target.Pool != "default" || decided.Target.Model != decided.Model || decided.To == "" || decided.Addr != a.To[0] || decided.Request <= 0 || decided.Answer != -1 || decided.Prompt <= 0 || decided.Matched != 0 {
		t.Errorf("decided %+v", decided)
	}
	x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, a.To[0], false)
	x.Chunk(w.now, []byte("hello "), false)
	x.Chunk(w.now, []byte("there"), true)
	if m.last.Answer != 11 || m.last.Model != decided.Model || m.last.Request != decided.Request {
		t.Errorf("settled %+v", m.last)
	}
}
