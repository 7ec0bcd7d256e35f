package extproc

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// TestP08StaleContentLength: a body of another length than its headers say leaves without content-length, and a streamed
// response keeps its own, since nothing of it is changed.
func TestP08StaleContentLength(t *testing.T) {
	const long = "very-long-internal-name"
	body := `{"model":"pub","messages":[{"role":"user","content":"hello"}]}`
	for _, mode := range []bodyMode{duplex, streamed, buffered} {
		t.Run(mode.String(), func(t *testing.T) {
			g := newRig(t, rigOptions{rewriteTo: long})
			token := ""
			if mode == streamed {
				token = TokenOverride
			}
			gw := g.open(token)
			gw.headers(mode, duplex, "content-length", fmt.Sprint(len(body)))
			var headers *extprocpb.CommonResponse
			var got string
			if mode == buffered {
				gw.recv()
				gw.body(body, true)
				headers = gw.recv().GetRequestBody().GetResponse()
				got = string(headers.GetBodyMutation().GetBody())
			} else {
				gw.body(body, true)
				a := gw.answerTo()
				headers, got = a.headers, string(a.body)
			}
			if want := strings.Replace(body, `"pub"`, `"`+long+`"`, 1); got != want {
				t.Errorf("the body is %s; want %s", got, want)
			}
			if !removes(headers, "content-length") {
				t.Error("the length of the old body stays")
			}
			gw.responseHeaders("10.0.0.1:8000", false, "content-length", "5000", "content-type", "text/event-stream")
			if m := gw.recv().GetResponseHeaders().GetResponse(); removes(m, "content-length") || set(t, m, "content-length") != "" {
				t.Error("the response's length was touched")
			}
			if mode == duplex {
				for _, chunk := range []string{"data: {}\n\n", strings.Repeat("x", 4990)} {
					gw.responseBody(chunk, len(chunk) > 100)
					if got := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(got.GetBody()) != chunk {
						t.Errorf("%d bytes of a chunk of %d came back", len(got.GetBody()), len(chunk))
					}
				}
			}
			gw.done()
		})
	}
}

// TestP11MalformedJSONWhileDebugging: what is no JSON is refused whatever is logged, and the next request is fine.
func TestP11MalformedJSONWhileDebugging(t *testing.T) {
	g := newRig(t, rigOptions{})
	var log strings.Builder
	g.server.o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for range 2 {
		gw := g.open()
		gw.headers(duplex, none)
		gw.body(`{"model":"m-base","messages":[`, true)
		r := gw.recv().GetImmediateResponse()
		if r.GetStatus().GetCode() != 400 || r.GetDetails() != "malformed_json" || !strings.Contains(string(r.GetBody()), `"error":`) {
			t.Errorf("answered with %v", r)
		}
		if !gw.ends() {
			t.Error("the stream did not end with OK")
		}
		gw = g.open()
		gw.headers(duplex, none)
		gw.body(chat, true)
		if got := gw.answerTo(); string(got.body) != chat {
			t.Errorf("the next body came back as %q", got.body)
		}
		gw.done()
	}
	g.untilClosed()
	if n := g.notes.of(reason.Internal); n != 0 {
		t.Errorf("%d failures of ours", n)
	}
}

// TestP19GatewaysOwnReply: an answer that the gateway made by itself passes as it is, and no engine is blamed for it.
func TestP19GatewaysOwnReply(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open()
	gw.headers(duplex, duplex)
	gw.body(chat, true)
	gw.answerTo()
	const words = `{"error":{"message":"bad temperature"}}`
	gw.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocpb.HttpHeaders{
		Headers: headerMap(":status", "422", "content-type", "application/json", "content-length", fmt.Sprint(len(words))),
	}}})
	if m := gw.recv(); m.GetResponseHeaders() == nil || set(t, m.GetResponseHeaders().GetResponse(), ":status") != "" {
		t.Errorf("the headers were answered with %v", m)
	}
	gw.responseBody(words, true)
	if b := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(b.GetBody()) != words || !b.GetEndOfStream() {
		t.Errorf("the body came back as %v", b)
	}
	gw.done()
	if o := g.outcome(); o.EndingCode != "" {
		t.Errorf("it ended with %q", o.EndingCode)
	}
	if n := g.notes.of(reason.UpstreamBroken) + g.notes.of(reason.UpstreamUnreachable); n != 0 {
		t.Errorf("an engine was blamed %d times", n)
	}
	g.zero()
}

// TestP04AnswerOfAnotherFilter: what a filter before this one answered passes through it whole, though it never saw the request.
func TestP04AnswerOfAnotherFilter(t *testing.T) {
	g := newRig(t, rigOptions{})
	for _, mode := range []bodyMode{duplex, streamed, none} {
		gw := g.open(TokenOverride)
		m := requestHeaders(duplex, mode, false)
		m.Request = &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocpb.HttpHeaders{Headers: headerMap(":status", "200", "content-length", "5")}}
		gw.send(m)
		if a := gw.recv(); a.GetResponseHeaders() == nil || a.GetModeOverride() != nil {
			t.Errorf("%v: the headers were answered with %v", mode, a)
		}
		gw.responseBody("hello", true)
		b := gw.recv().GetResponseBody()
		if piece := b.GetResponse().GetBodyMutation().GetStreamedResponse(); b == nil || (piece != nil) != (mode == duplex) || piece != nil && (string(piece.GetBody()) != "hello" || !piece.GetEndOfStream()) {
			t.Errorf("%v: the body was answered with %v", mode, b)
		}
		gw.done()
	}
	g.zero()
}

// TestP20Trailers: trailers end a body that said nothing of its end, in both directions, and go on as they are.
func TestP20Trailers(t *testing.T) {
	g := newRig(t, rigOptions{wants: plugins.Usage})
	gw := g.open()
	gw.headers(duplex, duplex)
	gw.body(chat, false)
	gw.trailers()
	got := gw.answerTo()
	if string(got.body) != chat || got.end || !got.trailers {
		t.Errorf("the body came back as %q, end %v, trailers %v", got.body, got.end, got.trailers)
	}
	gw.responseHeaders("10.0.0.1:8000", false, "content-type", "text/event-stream")
	gw.recv()
	usage := "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n"
	gw.responseBody(usage, false)
	if b := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(b.GetBody()) != usage || b.GetEndOfStream() {
		t.Errorf("the response came back as %v", b)
	}
	gw.responseTrailers()
	if m := gw.recv().GetResponseTrailers(); m == nil || m.GetHeaderMutation() != nil {
		t.Errorf("the trailers were answered with %v", m)
	}
	if o := g.outcome(); o.Prompt != 7 || o.Out != 3 || o.EndingCode != "" {
		t.Errorf("usage %d and %d, ending %q", o.Prompt, o.Out, o.EndingCode)
	}
	gw.done()
	select {
	case o := <-g.settled:
		t.Errorf("it was settled twice: %v", o)
	default:
	}
	g.zero()
}

// TestP22SlowFirstToken: nothing of ours bounds the time until an engine's first byte: 90 s on, with every timer run, the
// stream is open, the booking stands, and the answer passes.
func TestP22SlowFirstToken(t *testing.T) {
	g := newRig(t, rigOptions{exchange: func(o *exchange.Options) { o.BookingDeadline = 10 * time.Minute }})
	clock := g.server.o.Clock
	var later pool.Instant
	g.server.o.Clock = func() pool.Instant { return clock() + later }
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(chat, true)
	gw.answerTo()
	later = pool.Instant(90 * time.Second)
	g.scheduler.Tick(g.server.o.Clock())
	if g.booked() == 0 || g.server.Open() != 1 {
		t.Error("the request was given up")
	}
	gw.responseHeaders("10.0.0.1:8000", true)
	if gw.recv().GetResponseHeaders() == nil {
		t.Error("the headers were not answered")
	}
	gw.done()
	if o := g.outcome(); o.EndingCode != "" || o.TTFT < 90*time.Second {
		t.Errorf("it ended with %q, TTFT %v", o.EndingCode, o.TTFT)
	}
	g.zero()
}
