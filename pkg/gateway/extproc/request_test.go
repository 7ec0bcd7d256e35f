package extproc

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
)

const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// chatOf returns a chat body of exactly n bytes.
func chatOf(n int) string {
	head, tail := `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

func TestRequestIDIsMadeWhereMissingAndKeptWhereGiven(t *testing.T) {
	g := newRig(t, rigOptions{})
	for _, given := range []string{"", "mine"} {
		gw := g.open()
		more := []string{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		if given != "" {
			more = append(more, "x-request-id", given)
		}
		gw.headers(duplex, none, more...)
		gw.body(chat, true)
		got := gw.answerTo()
		made := set(t, got.headers, "x-request-id")
		if (given == "") != (len(made) == 36) {
			t.Errorf("x-request-id %q: the answer sets %q", given, made)
		}
		if set(t, got.headers, "traceparent") != "" || removes(got.headers, "traceparent") {
			t.Error("the trace context was touched")
		}
		gw.done()
	}
}

func TestP05BodilessGET(t *testing.T) {
	for _, tokens := range []string{"", TokenOverride} {
		g := newRig(t, rigOptions{})
		gw := g.open(tokens)
		mode := duplex
		if tokens != "" {
			mode = streamed
		}
		gw.send(requestHeaders(mode, mode, true, ":method", "GET", ":path", "/v1/models"))
		m := gw.recv()
		if to := set(t, m.GetRequestHeaders().GetResponse(), exchange.HeaderDestination); to != "10.0.0.1:8000" {
			t.Errorf("tokens %q: destination %q", tokens, to)
		}
		if over := m.GetModeOverride(); (over != nil) != (tokens != "") || bodyMode(over.GetRequestBodyMode()) == duplex {
			t.Errorf("tokens %q: mode_override %v", tokens, over)
		}
		gw.responseHeaders("10.0.0.1:8000", false, "content-length", "27")
		gw.recv()
		if tokens == "" {
			gw.responseBody(`{"object":"list","data":[]}`, true)
			if got := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(got.GetBody()) != `{"object":"list","data":[]}` || !got.GetEndOfStream() {
				t.Errorf("the response came back as %v", got)
			}
		}
		gw.done()
		if o := g.outcome(); o.EndingCode != "" {
			t.Errorf("it ended with %q", o.EndingCode)
		}
		g.zero()
	}
}

// TestP10APIKind: the kind comes from :path alone, whatever a client says of an original path, and nothing of it is changed.
func TestP10APIKind(t *testing.T) {
	cases := []struct{ name, path, header, want string }{
		{"a query does not hide the kind", "/v1/messages?beta=true", "", "messages"},
		{"a sub-path is another thing", "/v1/chat/completions/render", "", "other"},
		{"a prefix is allowed", "/openai/v1/chat/completions", "", "chat.completions"},
		{"a trailing slash is allowed", "/v1/chat/completions/", "", "chat.completions"},
		{"what a client says of the original path is not heard", "/v1/completions", "/admin", "completions"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{})
			gw := g.open()
			gw.send(requestHeaders(duplex, none, false, ":method", "POST", ":path", c.path, "content-type", "application/json", "x-envoy-original-path", c.header))
			gw.body(`{"model":"m","prompt":"x","messages":[]}`, true)
			got := gw.answerTo()
			if set(t, got.headers, ":path") != "" || removes(got.headers, ":path") {
				t.Error("the path was changed")
			}
			gw.done()
			id := inMetadata(got.metadata, nsOwn, keyDecisionID)
			if d, ok := g.scheduler.Decision(id); !ok || d.Record.API != c.want {
				t.Errorf("the record says %q, found %v; want %q", d.Record.API, ok, c.want)
			}
		})
	}
}

// TestP16OneRequestIDOnTwoStreams: state belongs to the stream.
func TestP16OneRequestIDOnTwoStreams(t *testing.T) {
	g := newRig(t, rigOptions{wants: plugins.Usage})
	var wg sync.WaitGroup
	for i := range 1000 {
		first, second := g.open(), g.open()
		for _, gw := range []*gateway{first, second} {
			gw.headers(duplex, duplex, "x-request-id", "1")
			gw.body(chat, true)
			gw.answerTo()
			gw.responseHeaders("10.0.0.1:8000", false, "content-type", "text/event-stream")
			gw.recv()
		}
		for j, gw := range []*gateway{second, first} {
			usage := fmt.Sprintf("data: {\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", 10+j, 20+j)
			gw.responseBody(usage[:20], false)
			gw.recv()
			gw.responseBody(usage[20:], true)
			gw.recv()
			if o := g.outcome(); o.Prompt != int64(10+j) || o.Out != int64(20+j) || o.EndingCode != "" {
				t.Fatalf("round %d: usage %d and %d, ending %q", i, o.Prompt, o.Out, o.EndingCode)
			}
			gw.cancel()
		}
	}
	wg.Wait()
	g.untilClosed()
	g.zero()
}

func TestControlHeadersOfAClientAreRemoved(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open()
	gw.headers(duplex, none, exchange.HeaderDestination, "6.6.6.6:1", exchange.HeaderDestination, "7.7.7.7:1", "x-prefiller-host-port", "6.6.6.6:2")
	gw.body(chat, true)
	got := gw.answerTo()
	if !removes(got.headers, exchange.HeaderDestination) || !removes(got.headers, "x-prefiller-host-port") {
		t.Error("control headers are not removed")
	}
	if to := set(t, got.headers, exchange.HeaderDestination); to != "10.0.0.1:8000" {
		t.Errorf("destination %q", to)
	}
	gw.done()
}

func TestControlTrailersOfAClientAreRemoved(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(chat, false)
	gw.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocpb.HttpTrailers{
		Trailers: headerMap("x-checksum", "1", exchange.HeaderDestination, "6.6.6.6:1"),
	}}})
	for {
		if got := gw.recv().GetRequestTrailers(); got != nil {
			if diff := cmp.Diff([]string{exchange.HeaderDestination}, got.GetHeaderMutation().GetRemoveHeaders()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			break
		}
	}
	gw.done()
}

// TestRequestsWithTrailersAreMarked where the gateway has another route for them.
func TestRequestsWithTrailersAreMarked(t *testing.T) {
	cases := []struct {
		name, token, announced string
		reads                  plugins.Reads
		trailers               bool
		want                   string
	}{
		{"trailers that came before the decision", TokenTrailers, "", plugins.ReadsBody, true, "1"},
		{"no trailers", TokenTrailers, "", plugins.ReadsBody, false, ""},
		{"announced trailers, decided early", TokenTrailers, "x-checksum", plugins.ReadsModel, true, "1"},
		{"a gateway that has no such route", "", "x-checksum", plugins.ReadsBody, true, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{reads: c.reads})
			gw := g.open(c.token)
			var more []string
			if c.announced != "" {
				more = []string{"trailer", c.announced}
			}
			gw.headers(duplex, none, more...)
			gw.body(chat, !c.trailers)
			if c.trailers {
				gw.trailers()
			}
			if got := set(t, gw.answerTo().headers, HeaderTrailers); got != c.want {
				t.Errorf("marked with %q; want %q", got, c.want)
			}
			gw.done()
		})
	}
}

// TestP25P28Destination: addresses of both families, and subset hints. A subset that nobody is in gets 503, not 429.
func TestP25P28Destination(t *testing.T) {
	cases := []struct {
		name, endpoints, tokens string
		subset                  any // nil: no hint
		want                    string
	}{
		{"one address by default", "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1", "", nil, "10.0.0.1:1"},
		{"a list where the gateway walks one", "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1", "fallbacks", nil, "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1"},
		{"tokens may stand in one value", "10.0.0.1:1 10.0.0.2:1", "other, fallbacks ,more", nil, "10.0.0.1:1,10.0.0.2:1,10.0.0.1:1"},
		{"IPv6 stands in brackets", "[2001:db8::1]:1 10.0.0.2:1", "fallbacks", nil, "[2001:db8::1]:1,10.0.0.2:1,[2001:db8::1]:1"},
		{"a subset as a list", "10.0.0.1:1 10.0.0.2:1", "", []any{"10.0.0.2:1"}, "10.0.0.2:1"},
		{"a subset as a string", "10.0.0.1:1 10.0.0.2:1", "", "10.0.0.9:1, 10.0.0.2:1", "10.0.0.2:1"},
		{"a subset without a port", "10.0.0.1:1 10.0.0.2:1 10.0.0.2:2", "fallbacks", "10.0.0.2", "10.0.0.2:1,10.0.0.2:2,10.0.0.2:1"},
		{"a subset in IPv6", "[2001:db8::1]:1 [2001:db8::2]:1", "", []any{"[2001:db8::2]:1"}, "[2001:db8::2]:1"},
		{"an empty subset is nobody", "10.0.0.1:1", "", []any{}, ""},
		{"an empty string is nobody", "10.0.0.1:1", "", "", ""},
		{"a subset of strangers is nobody", "10.0.0.1:1", "", []any{"10.9.9.9:1"}, ""},
		{"a subset of strangers without a port is nobody", "192.0.2.1:8000 192.0.2.2:8000", "", []any{"198.51.100.9"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{endpoints: c.endpoints})
			gw := g.open(c.tokens)
			m := requestHeaders(duplex, none, true, ":method", "GET", ":path", "/v1/models")
			if c.subset != nil {
				m.MetadataContext = filterMetadata(nsSubsetHint, exchange.HeaderSubset, c.subset)
			}
			gw.send(m)
			got := gw.recv()
			if c.want == "" {
				if r := got.GetImmediateResponse(); r.GetStatus().GetCode() != 503 || r.GetDetails() != "no_endpoint" {
					t.Errorf("answered with %d, %q; want 503, no_endpoint", r.GetStatus().GetCode(), r.GetDetails())
				}
				return
			}
			header := set(t, got.GetRequestHeaders().GetResponse(), exchange.HeaderDestination)
			meta := inMetadata(got.GetDynamicMetadata(), nsLoadBalancer, exchange.HeaderDestination)
			if header != c.want || meta != c.want {
				t.Errorf("header %q, metadata %q; want %q", header, meta, c.want)
			}
			gw.done()
		})
	}
}

func TestUnknownMessagesAreIgnored(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open()
	gw.send(&extprocpb.ProcessingRequest{})
	gw.headers(duplex, none)
	gw.send(&extprocpb.ProcessingRequest{FlowControlInit: &extprocpb.ProcessingRequest_FlowControlInit{}})
	gw.body(chat, true)
	if got := gw.answerTo(); string(got.body) != chat {
		t.Errorf("the body came back as %q", got.body)
	}
	if g.received(Unknown) != 2 {
		t.Errorf("%d unknown messages were counted; want 2", g.received(Unknown))
	}
	gw.done()
}

func TestABodyThatOutgrowsTheLimitOnItsWay(t *testing.T) {
	g := newRig(t, rigOptions{reads: plugins.ReadsModel, exchange: func(o *exchange.Options) { o.MaxBodyBytes = 100 }})
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(`{"model":"pub"`, false)
	if gw.recv().GetRequestHeaders() == nil {
		t.Fatal("the headers are not answered though the model was read")
	}
	gw.recv() // the piece before the model, and the model
	gw.recv()
	gw.body(strings.Repeat(" ", 100), false)
	m := gw.recv()
	if r := m.GetImmediateResponse(); r.GetStatus().GetCode() != 413 || r.GetDetails() != "body_too_large" {
		t.Errorf("answered with %v; want a refusal with 413", m)
	}
	if !gw.ends() {
		t.Error("the stream did not end with OK")
	}
	g.untilClosed()
	g.zero()
}

func TestRefusal(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open(TokenOverride)
	gw.headers(streamed, none, "x-refuse", "1")
	m := gw.recv()
	r := m.GetImmediateResponse()
	if r == nil {
		t.Fatalf("answered with %v; want the refusal before any mode_override", m)
	}
	want := map[string]string{"content-type": "application/json", "retry-after": "3", "x-llm-d-request-dropped-reason": "rejected-saturated"}
	for name, value := range want {
		if got := set(t, &extprocpb.CommonResponse{HeaderMutation: r.GetHeaders()}, name); got != value {
			t.Errorf("%s: %q; want %q", name, got, value)
		}
	}
	if r.GetStatus().GetCode() != 429 || r.GetDetails() != "queue_full" || r.GetGrpcStatus() != nil || !bytes.Contains(r.GetBody(), []byte(`"code":"queue_full"`)) {
		t.Errorf("refused with %v", r)
	}
	if id := inMetadata(m.GetDynamicMetadata(), nsOwn, keyDecisionID); len(id) != 32 {
		t.Errorf("decision id %q", id)
	}
	if !gw.ends() {
		t.Error("the stream did not end with OK")
	}
	g.untilClosed()
	g.zero()
}
