package extproc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// TestOverride: a response's body mode starts at NONE, is lifted where somebody must see the body, and is never lowered.
func TestOverride(t *testing.T) {
	cases := []struct {
		name        string
		static      bodyMode
		wants       plugins.Parts
		responseEnd bool
		want        bodyMode
	}{
		{"nobody wants more than the first byte", streamed, plugins.FirstByte, false, none},
		{"static NONE", none, 0, false, none},
		{"a hook wants the usage", streamed, plugins.Usage, false, duplex},
		{"a hook wants the chunks", streamed, plugins.Chunks, false, duplex},
		{"a hook changes the chunks", streamed, plugins.Rewrite, false, duplex},
		{"there is no body to see", streamed, plugins.Chunks, true, none},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{wants: c.wants})
			gw := g.open(TokenOverride)
			gw.headers(c.static, none)
			first := gw.recv()
			over := first.GetModeOverride()
			if first.GetResponse() != nil || bodyMode(over.GetRequestBodyMode()) != duplex || bodyMode(over.GetResponseBodyMode()) != none ||
				over.GetRequestTrailerMode() != extprocconfig.ProcessingMode_SEND || over.GetResponseTrailerMode() != extprocconfig.ProcessingMode_SEND {
				t.Fatalf("the first answer is %v; want a stand-alone mode_override", first)
			}
			gw.body(chat, true)
			if got := gw.answerTo(); string(got.body) != chat || got.override {
				t.Errorf("the body came back as %q, a second override %v", got.body, got.override)
			}
			gw.responseHeaders("10.0.0.1:8000", c.responseEnd, "content-type", "text/event-stream")
			m := gw.recv()
			over = m.GetModeOverride()
			if bodyMode(over.GetResponseBodyMode()) != c.want || bodyMode(over.GetRequestBodyMode()) != none || over.GetResponseTrailerMode() != extprocconfig.ProcessingMode_SEND {
				t.Errorf("the response's headers are answered with %v; want response mode %v, request mode NONE", over, c.want)
			}
			if got := removes(m.GetResponseHeaders().GetResponse(), "content-length"); got != (c.wants&plugins.Rewrite != 0) {
				t.Errorf("content-length removed: %v", got)
			}
			if c.want == duplex {
				gw.responseBody("data: x\n\n", false)
				if b := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(b.GetBody()) != "data: x\n\n" || b.GetEndOfStream() {
					t.Errorf("a chunk is answered with %v", b)
				}
				gw.responseTrailers()
				if gw.recv().GetResponseTrailers() == nil {
					t.Error("the trailers are not answered")
				}
			}
			gw.done()
			if o := g.outcome(); o.EndingCode != "" {
				t.Errorf("it ended with %q", o.EndingCode)
			}
			g.zero()
		})
	}
}

// TestRequestStillRunning: as long as the request's body comes, its mode stays full duplex.
func TestRequestStillRunning(t *testing.T) {
	g := newRig(t, rigOptions{reads: plugins.ReadsModel})
	gw := g.open(TokenOverride)
	gw.headers(streamed, none)
	gw.recv()
	gw.body(`{"model":"m",`, false)
	gw.recv()
	gw.recv()
	gw.responseHeaders("10.0.0.1:8000", false) // the engine answers before it has all
	if mode := bodyMode(gw.recv().GetModeOverride().GetRequestBodyMode()); mode != duplex {
		t.Errorf("request mode %v; want it kept", mode)
	}
	gw.body(`"messages":[]}`, true)
	if b := gw.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(b.GetBody()) != `"messages":[]}` || !b.GetEndOfStream() {
		t.Errorf("the rest is answered with %v", b)
	}
	gw.done()
}

func TestOverrideIsNotSentWhereItIsNotTaken(t *testing.T) {
	for _, mode := range []bodyMode{duplex, buffered, partial} {
		g := newRig(t, rigOptions{atHeaders: true})
		gw := g.open(TokenOverride)
		gw.headers(mode, none)
		if m := gw.recv(); m.GetRequestHeaders() == nil || m.GetModeOverride() != nil {
			t.Errorf("static %v: answered with %v", mode, m)
		}
		gw.done()
	}
	g := newRig(t, rigOptions{atHeaders: true})
	gw := g.open(TokenOverride)
	m := requestHeaders(streamed, none, false, ":method", "POST", ":path", "/v1/chat/completions")
	m.ProtocolConfig.SendBodyWithoutWaitingForHeaderResponse = true
	gw.send(m)
	if m := gw.recv(); m.GetRequestHeaders() == nil || m.GetModeOverride() != nil {
		t.Errorf("send_body_without_waiting_for_header_response: answered with %v", m)
	}
}

// TestLargeChunksOfAResponse come back in pieces, in order, the end at the last.
func TestLargeChunksOfAResponse(t *testing.T) {
	g := newRig(t, rigOptions{wants: plugins.Chunks})
	gw := g.open()
	gw.headers(duplex, duplex)
	gw.body(chat, true)
	gw.answerTo()
	gw.responseHeaders("10.0.0.1:8000", false, "content-length", "200000")
	if removes(gw.recv().GetResponseHeaders().GetResponse(), "content-length") {
		t.Error("the length of a response that nobody changes was removed")
	}
	chunk := chatOf(200_000)
	gw.responseBody(chunk, true)
	var got []byte
	for end := false; !end; {
		b := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		got, end = append(got, b.GetBody()...), b.GetEndOfStream()
	}
	if string(got) != chunk || string(*g.seen) != chunk {
		t.Errorf("%d bytes came back, a hook saw %d; want 200000", len(got), len(*g.seen))
	}
	gw.done()
	if o := g.outcome(); o.EndingCode != "" || o.ServedNamed != "ns/10.0.0.1:8000" {
		t.Errorf("it ended with %q, served by %q", o.EndingCode, o.ServedNamed)
	}
}

func TestServedEndpointIsCompared(t *testing.T) {
	cases := []struct {
		served, named string
		note          reason.ID
	}{
		{"10.0.0.1:8000", "10.0.0.1:8000", 0},
		{"[::ffff:10.0.0.1]:8000", "10.0.0.1:8000", 0},
		{"10.0.0.2:8000", "10.0.0.2:8000", reason.FallbackServed},
		{"10.9.9.9:1", "", reason.PickNotServed},
		{"", "10.0.0.1:8000", reason.ServedUnknown},
		{"rubbish", "10.0.0.1:8000", reason.ServedUnknown},
	}
	for _, c := range cases {
		t.Run(c.served, func(t *testing.T) {
			g := newRig(t, rigOptions{})
			gw := g.open(TokenFallbacks)
			gw.headers(duplex, duplex)
			gw.body(chat, true)
			gw.answerTo()
			gw.responseHeaders(c.served, true)
			gw.recv()
			gw.done()
			if o := g.outcome(); strings.TrimPrefix(o.ServedNamed, "ns/") != c.named {
				t.Errorf("served by %q; want %q", o.ServedNamed, c.named)
			}
			if c.note != 0 && g.notes.of(c.note) != 1 {
				t.Errorf("%v was noted %d times; want once", c.note, g.notes.of(c.note))
			}
			g.zero()
		})
	}
}

// TestP19LocalReplyBeforeTheDecision: a gateway that gives up by itself shows its own answer, and every message is answered.
func TestP19LocalReplyBeforeTheDecision(t *testing.T) {
	g := newRig(t, rigOptions{})
	gw := g.open()
	gw.headers(duplex, duplex)
	gw.body(chat[:20], false)
	gw.responseHeaders("", false)
	if gw.recv().GetResponseHeaders() == nil {
		t.Error("the headers were not answered")
	}
	gw.responseBody("timeout", true)
	if b := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(b.GetBody()) != "timeout" {
		t.Errorf("the body came back as %v", b)
	}
	gw.done()
	if n := g.notes.of(reason.ClientAborted); n != 1 {
		t.Errorf("client_aborted was noted %d times", n)
	}
	g.zero()
}

func TestHold(t *testing.T) {
	t.Run("a held request goes on when it is woken", func(t *testing.T) {
		for _, phase := range []plugins.Phase{plugins.AtHeaders, plugins.AtResolve, plugins.AtAdmit} {
			g := newRig(t, rigOptions{holdAt: phase})
			gw := g.open(TokenOverride)
			gw.headers(streamed, none, "x-hold", "1")
			gw.body(chat[:10], false)
			gw.body(chat[10:], true)
			g.letGo()
			if got := gw.answerTo(); string(got.body) != chat || !got.override {
				t.Errorf("at %v: the body came back as %q, override %v", phase, got.body, got.override)
			}
			gw.done()
			g.outcome()
			g.zero()
		}
	})
	t.Run("a request without body asks for modes, which ends message_timeout", func(t *testing.T) {
		g := newRig(t, rigOptions{holdAt: plugins.AtAdmit})
		gw := g.open(TokenOverride)
		gw.send(requestHeaders(streamed, none, true, ":method", "GET", ":path", "/v1/models", "x-hold", "1"))
		if m := gw.recv(); m.GetModeOverride() == nil || m.GetResponse() != nil {
			t.Errorf("got %v, want a stand-alone override", m)
		}
		g.letGo()
		if m := gw.recv(); m.GetRequestHeaders() == nil {
			t.Errorf("got %v, want the answer to the headers", m)
		}
		gw.done()
	})
	t.Run("a wake without cause changes nothing", func(t *testing.T) {
		g := newRig(t, rigOptions{holdAt: plugins.AtAdmit})
		gw := g.open()
		gw.headers(duplex, none, "x-hold", "1")
		gw.body(chat, true)
		(<-g.held).Wake()
		g.letGo() // it had entered the stage again
		if got := gw.answerTo(); string(got.body) != chat {
			t.Errorf("the body came back as %q", got.body)
		}
		gw.done()
	})
	t.Run("a client that goes away ends the hold", func(t *testing.T) {
		g := newRig(t, rigOptions{holdAt: plugins.AtAdmit})
		gw := g.open()
		gw.headers(duplex, none, "x-hold", "1")
		gw.body(chat, true)
		<-g.held
		gw.done()
		if n := g.notes.of(reason.ClientAborted); n != 1 {
			t.Errorf("client_aborted was noted %d times", n)
		}
		g.zero()
	})
}

func TestDrain(t *testing.T) {
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	// forwarded opens a stream whose request is on its way.
	forwarded := func(g *rig, response bodyMode) *gateway {
		gw := g.open()
		gw.headers(duplex, response)
		gw.body(chat, true)
		gw.answerTo()
		return gw
	}
	t.Run("nothing is open", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		if err := g.server.Drain(soon()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a stream is ended with OK where that cuts nothing", func(t *testing.T) {
		for _, c := range []struct {
			name     string
			response bodyMode
			answered bool
		}{{"before the response", duplex, false}, {"after the headers, body NONE", none, true}, {"after the headers, body STREAMED", streamed, true}} {
			g := newRig(t, rigOptions{})
			gw := forwarded(g, c.response)
			if c.answered {
				gw.responseHeaders("10.0.0.1:8000", false)
				gw.recv()
			}
			if err := g.server.Drain(soon()); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if !gw.ends() {
				t.Errorf("%s: the stream did not end with OK", c.name)
			}
			g.zero()
		}
	})
	t.Run("a response that passes through us is waited for", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := forwarded(g, duplex)
		gw.responseHeaders("10.0.0.1:8000", false)
		gw.recv()
		done := make(chan error)
		go func() { done <- g.server.Drain(soon()) }()
		g.until("draining has not begun", func() bool { return g.server.draining.Load() })
		for i := range 3 {
			gw.responseBody(fmt.Sprint("chunk ", i), i == 2)
			gw.recv()
		}
		if !gw.ends() {
			t.Error("the stream did not end with OK after its last chunk")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if o := g.outcome(); o.EndingCode != "" {
			t.Errorf("it ended with %q", o.EndingCode)
		}
	})
	t.Run("the bound ends what does not end", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := forwarded(g, duplex)
		gw.responseHeaders("10.0.0.1:8000", false)
		gw.recv()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := g.server.Drain(ctx); err == nil {
			t.Error("no error, though a stream was open")
		}
		if !gw.ends() {
			t.Error("the stream did not end with OK")
		}
		g.untilClosed()
		g.zero()
	})
	t.Run("what was sent leaves before the server stops", func(t *testing.T) {
		for range 20 {
			g := newRig(t, rigOptions{})
			g.log()
			gw := forwarded(g, duplex)
			gw.responseHeaders("10.0.0.1:8000", false)
			gw.recv()
			done := make(chan error)
			go func() { done <- g.server.Stop(soon()) }()
			g.until("draining has not begun", func() bool { return g.server.draining.Load() })
			last := chatOf(300_000)
			gw.responseBody(last, true)
			got := ""
			for end := false; !end; {
				piece := gw.recv().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
				got, end = got+string(piece.GetBody()), piece.GetEndOfStream()
			}
			if got != last || !gw.ends() {
				t.Errorf("%d bytes of the last chunk came; want %d, and OK", len(got), len(last))
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("what is held or new is refused", func(t *testing.T) {
		g := newRig(t, rigOptions{holdAt: plugins.AtAdmit})
		held := g.open()
		held.headers(duplex, none, "x-hold", "1")
		held.body(chat, true)
		<-g.held
		if err := g.server.Drain(soon()); err != nil {
			t.Error(err)
		}
		late := g.open()
		late.headers(duplex, none)
		for name, gw := range map[string]*gateway{"held": held, "new": late} {
			if r := gw.recv().GetImmediateResponse(); r.GetStatus().GetCode() != 503 || r.GetDetails() != "shutting_down" {
				t.Errorf("%s: answered with %v", name, r)
			}
		}
	})
}
