package exchange_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// hears keeps what it hears of endpoints: their place in the list, what became of the request there, and after how long.
type hears struct{ said []string }

func (*hears) Commit(*plugins.Request, []plugins.Leg, *plugins.Outgoing) {}

func (h *hears) Attempted(_ *plugins.Request, a plugins.Attempt) {
	what := fmt.Sprint(a.Status)
	if a.Failed != 0 {
		what = a.Failed.String()
	}
	waited := "?"
	if a.Waited != plugins.Unknown {
		waited = a.Waited.String()
	}
	h.said = append(h.said, fmt.Sprintf("%d %s %s", a.To.ID, what, waited))
}

// TestWhoWasTriedIsToldAtOnce: of each endpoint that gave no answer, and of the one that did.
func TestWhoWasTriedIsToldAtOnce(t *testing.T) {
	walks := exchange.Via{Adapter: "ext_proc", Fallbacks: true, Walks: true, Sees: plugins.FirstByte, StreamLasts: true}
	ok := openai.Headers{{Name: ":status", Value: "200"}}
	for _, r := range []struct {
		name string
		via  exchange.Via
		do   func(w *world, x *exchange.Exchange, to []netip.AddrPort)
		want string // %N is the place of the N-th destination in the pool
	}{
		{"the first answers", proxied, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Response(w.now, ok, to[0], true)
		}, "%0 200 2s"},
		{"with an error", proxied, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Response(w.now, openai.Headers{{Name: ":status", Value: "503"}}, to[0], true)
		}, "%0 503 2s"},
		{"the second answers", proxied, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Failed(w.now, to[0], reason.UpstreamUnreachable)
			w.pass(time.Second)
			x.Response(w.now, ok, to[1], true)
		}, "%0 upstream_unreachable 2s; %1 200 1s"},
		{"nobody listens", proxied, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			for _, at := range to {
				x.Failed(w.now, at, reason.UpstreamUnreachable)
				w.pass(time.Second)
			}
		}, "%0 upstream_unreachable 2s; %1 upstream_unreachable 1s; %2 upstream_unreachable 1s"},
		{"the first breaks off", proxied, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Failed(w.now, to[0], reason.UpstreamBroken)
			x.Failed(w.now, to[0], reason.UpstreamBroken) // once
		}, "%0 upstream_broken 2s"},
		{"a gateway walked to the third", walks, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Response(w.now, ok, to[2], true)
		}, "%0 upstream_unreachable ?; %1 upstream_unreachable ?; %2 200 ?"},
		{"a gateway gave up at the second", walks, func(w *world, x *exchange.Exchange, to []netip.AddrPort) {
			x.Failed(w.now, to[1], reason.UpstreamBroken)
		}, "%0 upstream_unreachable ?; %1 upstream_broken ?"},
		{"a gateway had no room and names nobody", walks, func(w *world, x *exchange.Exchange, _ []netip.AddrPort) {
			x.Failed(w.now, netip.AddrPort{}, reason.UpstreamUnreachable)
		}, ""},
		{"a gateway chose by itself, whom nobody knows", walks, func(w *world, x *exchange.Exchange, _ []netip.AddrPort) {
			x.Response(w.now, ok, netip.MustParseAddrPort("192.0.2.99:1"), true)
		}, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := &hears{}
			w := newWorld(t, nil, nil, instance("hears", h))
			x, a := w.forwarded(r.via)
			w.pass(2 * time.Second)
			r.do(w, x, a.To)
			want := r.want
			for i, at := range a.To {
				id, _ := w.pools[0].Snapshot().Lookup(at)
				want = strings.ReplaceAll(want, fmt.Sprintf("%%%d", i), fmt.Sprint(id))
			}
			if got := strings.Join(h.said, "; "); got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		})
	}
}
