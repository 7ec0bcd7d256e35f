package exchange_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/models"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// twoPools is a model table over two pools.
func twoPools() []plugins.PoolSpec {
	return []plugins.PoolSpec{
		{Name: "first", Models: []plugins.Model{{Name: "m-base", Aliases: []string{"pub"}}}},
		{Name: "second", Models: []plugins.Model{{Name: "m-other"}}},
	}
}

func TestRefusals(t *testing.T) {
	table := instance("model-resolver", models.NewResolver())
	rows := []struct {
		name    string
		pools   []plugins.PoolSpec
		plugins []plugins.PluginSpec
		path    string
		headers openai.Headers
		via     exchange.Via
		body    string
		status  int
		code    string
		says    string
	}{
		{name: "a body that is no JSON", path: "/v1/chat/completions", body: `{"model":"m-base","messages":[`, status: 400, code: "malformed_json"},
		{name: "an empty body where JSON is due", path: "/v1/completions", body: ``, status: 400, code: "malformed_json"},
		{name: "invalid UTF-8", path: "/v1/chat/completions", body: "{\"model\":\"m\xff\"}", status: 400, code: "malformed_json"},
		{name: "an unknown model", pools: twoPools(), plugins: []plugins.PluginSpec{table}, path: "/v1/chat/completions",
			body: `{"model":"nope","messages":[]}`, status: 404, code: "model_not_found", says: "nope"},
		{name: "no model and two pools", pools: twoPools(), plugins: []plugins.PluginSpec{table}, path: "/v1/chat/completions",
			body: `{"messages":[]}`, status: 400, code: "model_required"},
		{name: "no model, two pools, and a path nobody knows", pools: twoPools(), plugins: []plugins.PluginSpec{table}, path: "/healthz", body: ``, status: 400, code: "model_required"},
		{name: "a content-length above the bound", path: "/v1/chat/completions", headers: openai.Headers{{Name: "content-length", Value: "5000"}},
			body: chat, status: 413, code: "body_too_large", says: "at most 1000"},
		{name: "a body above the bound", path: "/v1/chat/completions", body: `{"model":"` + strings.Repeat("a", 1000) + `"}`, status: 413, code: "body_too_large"},
		{name: "an empty subset", path: "/v1/chat/completions", via: exchange.Via{HasSubset: true}, body: chat, status: 503, code: "no_endpoint"},
		{name: "a subset outside the pool", path: "/v1/chat/completions", via: exchange.Via{HasSubset: true, Subset: []string{"203.0.113.9:1"}}, body: chat, status: 503, code: "no_endpoint"},
		{name: "everybody filtered away", plugins: []plugins.PluginSpec{instance("none", dropAll{})}, path: "/v1/chat/completions",
			body: chat, status: 429, code: "all_filtered", says: "3 by none"},
		{name: "a filter that panics", plugins: []plugins.PluginSpec{instance("bang", panicker{})}, path: "/v1/chat/completions", body: chat, status: 500, code: "plugin_panic", says: "bang"},
		{name: "a stage that refuses by identity", plugins: []plugins.PluginSpec{instance("guard", &stage{phase: plugins.AtHeaders, verdicts: []plugins.Verdict{{Refusal: reason.Refuse(reason.ForbiddenHeader, "x-maas-username")}}})},
			path: "/v1/chat/completions", body: chat, status: 403, code: "forbidden_header", says: "x-maas-username"},
		{name: "a stage that panics", plugins: []plugins.PluginSpec{instance("guard", &stage{phase: plugins.AtAdmit, panics: true})}, path: "/v1/chat/completions", body: chat, status: 500, code: "plugin_panic"},
		{name: "a full queue", plugins: []plugins.PluginSpec{instance("queue", &stage{phase: plugins.AtAdmit, verdicts: []plugins.Verdict{{Refusal: &reason.Refusal{ID: reason.QueueFull, RetryAfter: 1500 * time.Millisecond}}}})},
			path: "/v1/chat/completions", body: chat, status: 429, code: "queue_full"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, func(o *exchange.Options) { o.MaxBodyBytes = 1000 }, row.pools, row.plugins...)
			x := w.begin()
			a := x.Headers(w.now, post(row.path, row.headers...), row.via, false)
			if a.Do == exchange.Continue {
				a = x.Body(w.now, []byte(row.body), true)
			}
			if a.Do != exchange.Reply {
				t.Fatalf("got %v, want a reply", a.Do)
			}
			var body struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal(a.Reply.Body, &body); err != nil {
				t.Fatalf("the error body is no JSON: %v", err)
			}
			if a.Reply.Status != row.status || body.Error.Code != row.code {
				t.Errorf("got %d %s, want %d %s", a.Reply.Status, body.Error.Code, row.status, row.code)
			}
			if !strings.Contains(body.Error.Message, row.says) {
				t.Errorf("message %q does not say %q", body.Error.Message, row.says)
			}
			doc, ok := w.s.Decision(x.ID)
			if !ok || doc.Record.Refused == nil || doc.Record.Refused.Code != row.code {
				t.Errorf("the record does not tell of %s: %+v", row.code, doc.Record.Refused)
			}
			x.End(w.now, exchange.Ending{})
			w.wantOpen(0)
			if id, _ := reason.Parse(row.code); w.noted.count(id) == 0 {
				t.Errorf("%s was not counted", row.code)
			}
		})
	}
}

func TestARefusalThatKnowsNoBetterHasItsRowsRetryAfter(t *testing.T) {
	w := newWorld(t, nil, nil, instance("queue", &stage{phase: plugins.AtAdmit, verdicts: []plugins.Verdict{{Refusal: &reason.Refusal{ID: reason.QueueFull}}}}))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	if got := x.Body(w.now, []byte(chat), true).Reply.Headers.Get("retry-after"); got != "1" {
		t.Errorf("retry-after is %q, want 1", got)
	}
}

func TestRetryAfterAndDroppedReasonTravelWithTheRefusal(t *testing.T) {
	w := newWorld(t, nil, nil, instance("queue", &stage{phase: plugins.AtAdmit, verdicts: []plugins.Verdict{{Refusal: &reason.Refusal{ID: reason.QueueFull, RetryAfter: 1500 * time.Millisecond}}}}))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	a := x.Body(w.now, []byte(chat), true)
	if got := a.Reply.Headers.Get("retry-after"); got != "2" {
		t.Errorf("retry-after is %q, want 2", got)
	}
	if got := a.Reply.Headers.Get("x-llm-d-request-dropped-reason"); got != "rejected-saturated" {
		t.Errorf("dropped reason is %q", got)
	}
	if a.Reply.Headers.Get(exchange.HeaderDecisionID) != x.ID {
		t.Error("the refusal does not name its decision")
	}
}

func TestWhatGoesUpstream(t *testing.T) {
	w := newWorld(t, nil, nil)
	x := w.begin()
	a := x.Headers(w.now, post("/v1/chat/completions",
		openai.Header{Name: "x-gateway-destination-endpoint", Value: "203.0.113.1:1"},
		openai.Header{Name: "x-gateway-destination-endpoint", Value: "203.0.113.2:1"},
		openai.Header{Name: "x-prefiller-host-port", Value: "203.0.113.3:1"},
		openai.Header{Name: "test-epp-endpoint-selection", Value: "192.0.2.1"},
		openai.Header{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}), proxied, false)
	if a.Do != exchange.Continue {
		t.Fatalf("got %v, want continue", a.Do)
	}
	a = x.Body(w.now, []byte(chat), true)
	for _, name := range []string{"x-gateway-destination-endpoint", "x-prefiller-host-port", "test-epp-endpoint-selection"} {
		if n := len(slices.DeleteFunc(slices.Clone(a.Out.Remove), func(s string) bool { return s != name })); n != 1 {
			t.Errorf("%s is removed %d times, want once", name, n)
		}
	}
	if slices.Contains(a.Out.Remove, "traceparent") {
		t.Error("the trace context is removed")
	}
	if id := a.Out.Set.Get("x-request-id"); len(id) != 36 || strings.ReplaceAll(id, "-", "") != x.ID {
		t.Errorf("x-request-id is %q, want the decision's id in 8-4-4-4-12", id)
	}
	if len(a.To) != 3 {
		t.Errorf("the proxy gets %d destinations, want the primary and two fallbacks", len(a.To))
	}

	x = w.begin()
	x.Headers(w.now, post("/v1/chat/completions", openai.Header{Name: "x-request-id", Value: "mine"}), static, false)
	a = x.Body(w.now, []byte(chat), true)
	if a.Out.Set.Has("x-request-id") {
		t.Error("a client's x-request-id is replaced")
	}
	if len(a.To) != 1 {
		t.Errorf("a gateway that declares no fallbacks gets %d destinations, want one", len(a.To))
	}
}

func TestAnAliasIsReplacedInTheClientsBytes(t *testing.T) {
	w := newWorld(t, nil, twoPools(), instance("model-resolver", models.NewResolver()))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	body := []byte(`{"seed":12345678901234567890,"model":"pub","messages":[],"seed":1}`)
	a := x.Body(w.now, body, true)
	if a.Do != exchange.Forward || len(a.Out.Edits) != 1 {
		t.Fatalf("got %v with %d edits, want forward with one", a.Do, len(a.Out.Edits))
	}
	got := bytes.Join(openai.Splice(nil, 0, body, a.Out.Edits), nil)
	if want := `{"seed":12345678901234567890,"model":"m-base","messages":[],"seed":1}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if w.pools[0].Open() != 1 || w.pools[1].Open() != 0 {
		t.Errorf("booked at %d and %d, want at the pool of the alias", w.pools[0].Open(), w.pools[1].Open())
	}
}

func TestTheModelListIsOursWhereThereIsATable(t *testing.T) {
	get := openai.Headers{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/models"}}
	w := newWorld(t, nil, twoPools(), instance("model-resolver", models.NewResolver()))
	a := w.begin().Headers(w.now, get, static, true)
	if a.Do != exchange.Reply || a.Reply.Status != 200 || !bytes.Contains(a.Reply.Body, []byte(`"m-other"`)) {
		t.Errorf("got %v %v, want our list", a.Do, a.Reply)
	}
	w = newWorld(t, nil, nil)
	if a := w.begin().Headers(w.now, get, static, true); a.Do != exchange.Forward {
		t.Errorf("got %v, want it forwarded", a.Do)
	}
}

func TestSubsetHint(t *testing.T) {
	rows := []struct {
		name   string
		subset []string
		want   []string // of these one is chosen
		noted  int
	}{
		{"an address with its port", []string{"192.0.2.2:8000"}, []string{"192.0.2.2:8000"}, 0},
		{"without a port all ports count", []string{"192.0.2.3"}, []string{"192.0.2.3:8000"}, 0},
		{"a list in one string", []string{"192.0.2.1:8000, 192.0.2.2:8000"}, []string{"192.0.2.1:8000", "192.0.2.2:8000"}, 0},
		{"another port does not count", []string{"192.0.2.1:9", "192.0.2.2:8000"}, []string{"192.0.2.2:8000"}, 0},
		{"IPv4 mapped into IPv6", []string{"[::ffff:192.0.2.2]:8000"}, []string{"192.0.2.2:8000"}, 0},
		{"a bracketed host", []string{"[::ffff:192.0.2.2]"}, []string{"192.0.2.2:8000"}, 0},
		{"an entry that is no address is left out and counted", []string{"pod-7", "192.0.2.2"}, []string{"192.0.2.2:8000"}, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			for range 8 {
				via := static
				via.Subset, via.HasSubset = row.subset, true
				_, a := w.forwarded(via)
				if !slices.Contains(row.want, a.To[0].String()) {
					t.Fatalf("chose %v, want one of %v", a.To[0], row.want)
				}
			}
			w.wantNoted(reason.SubsetIgnored, 8*row.noted)
		})
	}
}

func TestConformanceSteeringIsHonouredOnlyWhereItIsSwitchedOn(t *testing.T) {
	steer := post("/v1/chat/completions", openai.Header{Name: exchange.HeaderTestSelect, Value: "192.0.2.3"})
	w := newWorld(t, func(o *exchange.Options) { o.Conformance = true }, nil)
	for range 8 {
		x := w.begin()
		x.Headers(w.now, steer, static, false)
		a := x.Body(w.now, []byte(chat), true)
		if a.To[0] != address(0, 2) {
			t.Fatalf("steered to 192.0.2.3, got %v", a.To[0])
		}
		a = x.Response(w.now, nil, a.To[0], true)
		if got := a.Out.Set.Get(exchange.HeaderTestServed); got != "192.0.2.3:8000" {
			t.Errorf("the served endpoint is reported as %q", got)
		}
	}
}

func TestFallbacksBeforeTheFirstByte(t *testing.T) {
	w := newWorld(t, nil, nil)
	x, a := w.forwarded(proxied)
	first := slices.Clone(a.To)
	a = x.Failed(w.now, first[0], reason.UpstreamUnreachable)
	if a.Do != exchange.Forward || !slices.Equal(a.To, first[1:]) {
		t.Fatalf("got %v %v, want forward to %v", a.Do, a.To, first[1:])
	}
	w.wantOpen(1)
	a = x.Response(w.now, nil, first[1], true)
	if got := w.outcome(x); got != "" {
		t.Errorf("ended as %q, want clean", got)
	}
	doc, _ := w.s.Decision(x.ID)
	if !slices.Contains(doc.Record.Reasons, "fallback_served") {
		t.Errorf("reasons %v do not tell of the fallback", doc.Record.Reasons)
	}
	w.wantOpen(0)

	x, a = w.forwarded(proxied)
	for _, at := range a.To[:2] {
		if got := x.Failed(w.now, at, reason.UpstreamUnreachable); got.Do != exchange.Forward {
			t.Fatalf("got %v, want forward", got.Do)
		}
	}
	a = x.Failed(w.now, a.To[2], reason.UpstreamUnreachable)
	if a.Do != exchange.Reply || a.Reply.Status != 503 || !bytes.Contains(a.Reply.Body, []byte("upstream_unreachable")) {
		t.Errorf("got %v %v at the list's end, want 503", a.Do, a.Reply)
	}
	w.wantOpen(0)

	x, a = w.forwarded(proxied)
	a = x.Failed(w.now, a.To[0], reason.UpstreamBroken)
	if a.Do != exchange.Reply || a.Reply.Status != 502 {
		t.Errorf("got %v, want 502: what may have generated is not repeated", a.Do)
	}
	w.wantOpen(0)
}

// A gateway that walks the list itself must not come to its end while it has attempts left: what it does then is its own.
func TestAListForAGatewayThatWalksIsAsLongAsItsAttempts(t *testing.T) {
	w := newWorld(t, nil, nil)
	walks := exchange.Via{Adapter: "ext_proc", Sees: plugins.FirstByte, Walks: true, Fallbacks: true, HasSubset: true, Subset: []string{address(0, 0).String(), address(0, 1).String()}}
	x, a := w.forwarded(walks)
	if len(a.To) != 3 || a.To[2] != a.To[0] || a.To[1] == a.To[0] {
		t.Errorf("the list is %v; want the two of the subset, and the first again", a.To)
	}
	if reply := x.Failed(w.now, a.To[1], reason.UpstreamUnreachable).Reply; reply == nil || reply.Status != 503 {
		t.Errorf("at the end of the list: %+v", reply)
	}
	walks.Fallbacks = false
	if _, a := w.forwarded(walks); len(a.To) != 1 {
		t.Errorf("a gateway that knows no lists gets %v", a.To)
	}
	w.wantOpen(1)
}

func TestTheServedEndpointIsComparedWithThePick(t *testing.T) {
	via := static
	via.Fallbacks = true
	rows := []struct {
		name   string
		served func(a exchange.Action) netip.AddrPort
		reason reason.ID
	}{
		{"a fallback", func(a exchange.Action) netip.AddrPort { return a.To[1] }, reason.FallbackServed},
		{"nobody says", func(exchange.Action) netip.AddrPort { return netip.AddrPort{} }, reason.ServedUnknown},
		{"a stranger", func(exchange.Action) netip.AddrPort { return netip.MustParseAddrPort("203.0.113.9:1") }, reason.PickNotServed},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			x, a := w.forwarded(via)
			x.Response(w.now, nil, row.served(a), true)
			w.wantNoted(row.reason, 1)
			w.wantOpen(0)
		})
	}
	t.Run("a member that the list did not name", func(t *testing.T) {
		w := newWorld(t, nil, nil)
		x, a := w.forwarded(static)
		other := address(0, 0)
		if a.To[0] == other {
			other = address(0, 1)
		}
		x.Response(w.now, nil, other, false)
		w.wantNoted(reason.PickNotServed, 1)
		w.pools[0].Decide(func(s *pool.Snapshot, b *pool.Books) {
			id, _ := s.Lookup(other)
			if b.Requests[id] != 1 {
				t.Errorf("the booking is not at who served")
			}
		})
	})
}

func TestEnds(t *testing.T) {
	logged := static
	logged.Logs = true
	lasting := static
	lasting.StreamLasts = true
	full := static
	full.Sees = plugins.FirstByte | plugins.Chunks | plugins.Usage
	rows := []struct {
		name    string
		via     exchange.Via
		log     bool // an access-log stream is open
		steps   func(w *world, x *exchange.Exchange, a exchange.Action)
		outcome string
	}{
		{"a clean answer through the proxy", proxied, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{Clean: true})
			x.End(w.now, exchange.Ending{})
		}, ""},
		{"the client left the proxy", proxied, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{ByClient: true})
		}, "client_aborted"},
		{"the upstream broke under the proxy", proxied, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
		}, "upstream_broken"},
		{"the log tells after the stream ended early", static, true, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
			w.wantOpen(1)
			w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true})
		}, ""},
		{"the log tells of an abort", static, true, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
			w.s.Ended(w.now, x.ID, exchange.Ending{ByClient: true})
		}, "client_aborted"},
		{"the log comes before the stream's end", static, true, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true})
			w.wantOpen(0)
			x.End(w.now, exchange.Ending{})
		}, ""},
		{"a declared log is awaited before its stream is open", logged, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
			w.wantOpen(1)
			w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true})
		}, ""},
		{"without a log the stream's end is the end", static, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
		}, ""},
		{"a lasting stream lets the books fall at once and the log says how", lasting, true, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
			w.wantOpen(0)
			w.s.Ended(w.now, x.ID, exchange.Ending{})
		}, "upstream_broken"},
		{"a log entry that never comes is waited for no longer than the grace", lasting, true, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.End(w.now, exchange.Ending{})
			w.pass(6 * time.Second)
			w.s.Tick(w.now)
		}, ""},
		{"every chunk was seen to the end", full, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.Chunk(w.now, []byte("data: {}\n\n"), false)
			x.Chunk(w.now, nil, true)
			w.wantOpen(0)
			x.End(w.now, exchange.Ending{})
		}, ""},
		{"chunks were seen and their end was not", full, false, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, nil, a.To[0], false)
			x.Chunk(w.now, []byte("data: {}\n\n"), false)
			x.End(w.now, exchange.Ending{})
		}, "client_aborted"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			if row.log {
				w.s.LogOpened()
			}
			x, a := w.forwarded(row.via)
			w.wantOpen(1)
			row.steps(w, x, a)
			w.wantOpen(0)
			if got := w.outcome(x); got != row.outcome {
				t.Errorf("ended as %q, want %q", got, row.outcome)
			}
			if n := w.s.Open(); n != 0 {
				t.Errorf("%d exchanges are open", n)
			}
		})
	}
}

func TestANormalLogEntryAfterTheEndIsNoStranger(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.s.LogOpened()
	x, a := w.forwarded(proxied)
	x.Response(w.now, nil, a.To[0], true)
	w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true})
	w.wantNoted(reason.UnknownLogEntry, 0)
	w.s.Ended(w.now, "who?", exchange.Ending{Clean: true})
	w.wantNoted(reason.UnknownLogEntry, 1)
}

// Where a log tells the end, a stream that ends without an answer is an abort only once answers are known to be shown: the
// log of such a request may not name us. The first answer settles those before it.
func TestAbortsBeforeTheFirstAnswerEverEndWithIt(t *testing.T) {
	w := newWorld(t, nil, nil)
	logged := static
	logged.Logs = true
	aborted, _ := w.forwarded(logged)
	aborted.End(w.now, exchange.Ending{})
	w.wantOpen(1) // an answer may still be running: nothing was shown yet
	w.pass(time.Second)
	x, a := w.forwarded(logged)
	x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, a.To[0], false)
	w.wantOpen(1)
	if got := w.outcome(aborted); got != reason.ClientAborted.String() {
		t.Errorf("the aborted exchange ended as %q", got)
	}
	later, _ := w.forwarded(logged)
	later.End(w.now, exchange.Ending{})
	w.wantOpen(1)
	w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true})
	w.wantOpen(0)
}

func TestABookingThatNobodyEndsFallsAtItsDeadline(t *testing.T) {
	w := newWorld(t, func(o *exchange.Options) { o.BookingDeadline = time.Minute }, nil)
	x, _ := w.forwarded(static)
	x.End(w.now, exchange.Ending{}) // answers are not shown here, as far as anybody has seen
	w.wantNoted(reason.ModeBlind, 1)
	w.wantOpen(1)
	if next := w.s.Tick(w.now); next != w.now+pool.Instant(time.Minute) {
		t.Errorf("the next deadline is %v, want the booking's", next)
	}
	w.pass(time.Minute)
	w.s.Tick(w.now)
	w.wantOpen(0)
	w.wantNoted(reason.BookingExpired, 1)
	if len(w.alarm.at) == 0 {
		t.Error("nobody was told of the deadline")
	}
}

func TestASecondEndOfStreamIsIgnoredAndCounted(t *testing.T) {
	w := newWorld(t, nil, nil)
	x, _ := w.forwarded(static)
	if a := x.Body(w.now, []byte(chat), true); a.Do != exchange.Ignore {
		t.Errorf("got %v, want it ignored", a.Do)
	}
	w.wantNoted(reason.SecondEndOfStream, 1)
	w.wantOpen(1)
}

func TestTheDecisionIsMadeWhenEnoughWasRead(t *testing.T) {
	w := newWorld(t, nil, nil)
	if a := w.begin().Headers(w.now, post("/v1/chat/completions"), static, false); a.Do != exchange.Continue {
		t.Fatalf("got %v at the headers though the body is read, want continue", a.Do)
	}
	w = newWorld(t, nil, twoPools(), instance("model-resolver", models.NewResolver()))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), static, false)
	if a := x.Body(w.now, []byte(`{"model":"m-`), false); a.Do != exchange.Continue {
		t.Fatalf("got %v in the middle of the model, want continue", a.Do)
	}
	if a := x.Body(w.now, []byte(`other","messages":[`), false); a.Do != exchange.Forward {
		t.Fatalf("got %v when the model is known, want forward", a.Do)
	}
	if a := x.Body(w.now, []byte(`]}`), true); a.Do != exchange.Forward {
		t.Errorf("got %v for the rest, want it passed on", a.Do)
	}
}

func TestABodyThatOutgrowsTheLimitOnItsWay(t *testing.T) {
	for _, answered := range []bool{false, true} {
		w := newWorld(t, func(o *exchange.Options) { o.MaxBodyBytes = 100 }, twoPools(), instance("model-resolver", models.NewResolver()))
		x := w.begin()
		x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
		if a := x.Body(w.now, []byte(`{"model":"m-other","messages":[`), false); a.Do != exchange.Forward {
			t.Fatalf("got %v when the model is known, want forward", a.Do)
		}
		if answered {
			x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, netip.AddrPort{}, false)
		}
		a := x.Body(w.now, make([]byte, 100), false)
		if answered {
			if a.Do != exchange.Forward {
				t.Errorf("got %v though the answer has begun, want the rest passed on", a.Do)
			}
			continue
		}
		if a.Do != exchange.Reply || a.Reply.Status != 413 {
			t.Fatalf("got %v (%v), want a reply with 413", a.Do, a.Reply)
		}
		w.wantOpen(0)
		w.wantNoted(reason.BodyTooLarge, 1)
		if got := w.outcome(x); got != "body_too_large" {
			t.Errorf("ended %q", got)
		}
		if a := x.Body(w.now, make([]byte, 100), true); a.Do != exchange.Ignore {
			t.Errorf("got %v for what still came, want it ignored", a.Do)
		}
	}
}

func TestDrainingRefusesWhatIsNotForwarded(t *testing.T) {
	w := newWorld(t, nil, nil)
	x, a := w.forwarded(proxied)
	w.s.Drain()
	late := w.begin()
	if a := late.Headers(w.now, post("/v1/chat/completions"), proxied, false); a.Do != exchange.Reply || a.Reply.Status != 503 {
		t.Errorf("got %v, want 503 shutting_down", a.Do)
	}
	x.Response(w.now, nil, a.To[0], true)
	if got := w.outcome(x); got != "" {
		t.Errorf("the running exchange ended as %q, want clean", got)
	}
}

func TestAClientThatLeavesBeforeTheDecisionLeavesNothing(t *testing.T) {
	w := newWorld(t, nil, nil)
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	x.End(w.now, exchange.Ending{ByClient: true})
	w.wantNoted(reason.ClientAborted, 1)
	w.wantOpen(0)
	if a := x.Body(w.now, []byte(chat), true); a.Do != exchange.Ignore {
		t.Errorf("got %v after the end, want it ignored", a.Do)
	}
}

func TestALogThatIsLostEndsWhatWaitsForIt(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.s.LogOpened()
	x, a := w.forwarded(static)
	x.Response(w.now, nil, a.To[0], false)
	x.End(w.now, exchange.Ending{})
	running, b := w.forwarded(static)
	running.Response(w.now, nil, b.To[0], false)

	w.s.LogClosed(w.now)
	w.pass(4 * time.Second)
	w.s.LogOpened() // back within the grace: nothing is lost
	w.pass(4 * time.Second)
	w.s.Tick(w.now)
	w.wantOpen(2)

	w.s.LogClosed(w.now)
	if next := w.s.Tick(w.now); next != w.now+pool.Instant(5*time.Second) {
		t.Errorf("the next deadline is %v, want the end of the grace", next-w.now)
	}
	w.pass(5 * time.Second)
	w.s.Tick(w.now)
	w.wantOpen(1) // the one whose stream is still open
	if got := w.outcome(x); got != "" {
		t.Errorf("ended as %q, want clean", got)
	}
	running.End(w.now, exchange.Ending{})
	w.wantOpen(0)
}

func TestABodyThatNobodyReadsPassesAndIsCounted(t *testing.T) {
	w := newWorld(t, nil, nil)
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions", openai.Header{Name: "content-encoding", Value: "gzip"}), proxied, false)
	a := x.Body(w.now, []byte{0x1f, 0x8b, 8, 0}, true)
	if a.Do != exchange.Forward {
		t.Fatalf("got %v, want forward", a.Do)
	}
	w.wantNoted(reason.BodyUnread, 1)
}

// usageHook wants the token usage of answers.
type usageHook struct{}

func (usageHook) Wants() plugins.Parts                            { return plugins.Usage }
func (usageHook) Respond(*plugins.Request, plugins.Parts, []byte) {}

func TestUsageThatIsWantedAndMissingIsCounted(t *testing.T) {
	w := newWorld(t, nil, nil, instance("usage", usageHook{}))
	x, a := w.forwarded(proxied)
	json := openai.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/json"}}
	x.Response(w.now, json, a.To[0], false)
	x.Chunk(w.now, []byte(`{"id":"1","usage":{"prompt_tokens":7,"completion_tokens":3}}`), true)
	w.wantNoted(reason.UsageMissing, 0)
	doc, _ := w.s.Decision(x.ID)
	if o := doc.Record.Outcome; o.Prompt != 7 || o.Out != 3 {
		t.Errorf("the outcome says %d prompt and %d generated tokens, want 7 and 3", o.Prompt, o.Out)
	}
	x, a = w.forwarded(proxied)
	x.Response(w.now, json, a.To[0], false)
	x.Chunk(w.now, []byte(`{"id":"1"}`), true)
	w.wantNoted(reason.UsageMissing, 1)
}

func TestSubsetHintNamesIPv6EndpointsInEveryForm(t *testing.T) {
	v6 := netip.MustParseAddrPort("[2001:db8::1]:8000")
	for _, entry := range []string{"[2001:db8::1]:8000", "[2001:db8::1]", "2001:db8::1", "192.0.2.99:1,[2001:db8:0::1]:8000"} {
		w := newWorld(t, nil, nil)
		w.pools[0].Update(w.now, []pool.Endpoint{{Namespace: "ns", Name: "a", Addr: address(0, 0)}, {Namespace: "ns", Name: "six", Addr: v6}})
		for range 8 {
			via := static
			via.Subset, via.HasSubset = []string{entry}, true
			if _, a := w.forwarded(via); a.To[0] != v6 {
				t.Fatalf("%q: chose %v, want %v", entry, a.To[0], v6)
			}
		}
		w.wantNoted(reason.SubsetIgnored, 0)
	}
}
