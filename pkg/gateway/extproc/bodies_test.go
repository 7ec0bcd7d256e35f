package extproc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestP01SecondEndOfStreamIsIgnored(t *testing.T) {
	for _, size := range []int{60, 1_363_149} {
		for _, tokens := range []string{"", TokenOverride} {
			t.Run(fmt.Sprintf("%d bytes, tokens %q", size, tokens), func(t *testing.T) {
				g := newRig(t, rigOptions{})
				gw := g.open(tokens)
				mode := duplex
				if tokens == TokenOverride {
					mode = streamed
				}
				body := chatOf(size)
				gw.headers(mode, none)
				gw.body(body[:30], false)
				gw.body(body[30:], true)
				gw.body(body[30:], true)
				if got := gw.answerTo(); string(got.body) != body {
					t.Errorf("the body came back with %d bytes; want the %d sent, once", len(got.body), len(body))
				}
				gw.responseHeaders("10.0.0.1:8000", false)
				if gw.recv().GetResponseHeaders() == nil {
					t.Error("the response's headers were not answered")
				}
				gw.body("", true) // and once more, late
				gw.responseTrailers()
				if gw.recv().GetResponseTrailers() == nil {
					t.Error("the trailers were not answered next: the late end was")
				}
				gw.done()
				if n := g.notes.of(reason.SecondEndOfStream); n != 2 {
					t.Errorf("second_end_of_stream was noted %d times; want 2", n)
				}
				g.outcome()
				g.zero()
			})
		}
	}
}

func TestP02LongBodiesComeBackInPieces(t *testing.T) {
	g := newRig(t, rigOptions{})
	for _, size := range []int{61_999, 62_000, 62_001, 128<<10 + 1, 1 << 20, 20 << 20} {
		body := chatOf(size)
		gw := g.open()
		gw.headers(duplex, none)
		go func() {
			for rest := body; ; {
				n := min(len(rest), 1<<20)
				gw.body(rest[:n], n == len(rest))
				if rest = rest[n:]; rest == "" {
					return
				}
			}
		}()
		got := gw.answerTo()
		if string(got.body) != body {
			t.Errorf("%d bytes came back as %d, or changed", size, len(got.body))
		}
		gw.done()
	}
}

func TestPiecesAreNotCopied(t *testing.T) {
	chunk := []byte(chatOf(200_000))
	n := 0
	inPieces([][]byte{nil, chunk[:3], chunk[3:], {}}, true, func(piece []byte, end bool) {
		if len(piece) == 0 || len(piece) > MaxPiece || &piece[0] != &chunk[n] || cap(piece) != len(piece) {
			t.Errorf("at %d: a piece of %d bytes that is no closed part of the chunk", n, len(piece))
		}
		n += len(piece)
		if end != (n == len(chunk)) {
			t.Errorf("at %d: end is %v", n, end)
		}
	})
	if n != len(chunk) {
		t.Errorf("%d bytes; want %d", n, len(chunk))
	}
}

// TestEditedBodies: an edit is spliced into the bytes wherever they are cut, and the length goes in every mode.
func TestEditedBodies(t *testing.T) {
	body := `{"n":12345678901234567890, "model" : "pub","messages":[{"role":"user","content":"\u00e9"}],"model2":"pub"}`
	want := strings.Replace(body, `"pub"`, `"a-much-longer-\"internal\"-name"`, 1)
	g := newRig(t, rigOptions{rewriteTo: `a-much-longer-"internal"-name`})
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]bodyMode{duplex, streamed, none, buffered}).Draw(rt, "mode")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(body)), 0, 8).Draw(rt, "cuts")
		trailers := rapid.Bool().Draw(rt, "trailers")
		tokens := ""
		if mode == streamed || mode == none {
			tokens = TokenOverride
		}
		gw := g.open(tokens)
		gw.headers(mode, none, "content-length", fmt.Sprint(len(body)))
		var headers *extprocpb.CommonResponse
		var got []byte
		if mode == buffered {
			if gw.recv().GetRequestHeaders().GetResponse() != nil {
				rt.Error("the headers answer says something before the body was read")
			}
			gw.body(body, !trailers)
			headers = gw.recv().GetRequestBody().GetResponse()
			got = headers.GetBodyMutation().GetBody()
		} else {
			gw.cut(body, cuts, !trailers)
			if trailers {
				gw.trailers()
			}
			a := gw.answerTo()
			headers, got = a.headers, a.body
			if a.trailers != trailers || a.end == trailers {
				rt.Errorf("trailers %v came back as trailers %v, end_of_stream %v", trailers, a.trailers, a.end)
			}
		}
		if string(got) != want {
			rt.Errorf("body\n%s\nwant\n%s", got, want)
		}
		if !removes(headers, "content-length") || set(t, headers, "content-length") != "" {
			rt.Error("content-length is not removed")
		}
		gw.done()
	})
}

// cut sends body cut at the given offsets.
func (g *gateway) cut(body string, cuts []int, end bool) {
	g.t.Helper()
	at := map[int]bool{}
	for _, c := range cuts {
		at[c] = true
	}
	from := 0
	for i := range body {
		if at[i] {
			g.body(body[from:i], false)
			from = i
		}
	}
	g.body(body[from:], end)
}

func TestUneditedBodiesKeepTheirLength(t *testing.T) {
	g := newRig(t, rigOptions{rewriteTo: "x"})
	gw := g.open()
	gw.headers(duplex, none, "content-length", fmt.Sprint(len(chat)))
	gw.body(chat, true)
	if got := gw.answerTo(); removes(got.headers, "content-length") {
		t.Error("content-length is removed, though nothing was edited")
	}
	gw.done()
}

// TestEarlyForward: once the configuration has read what it needs, the rest of the body streams on.
func TestEarlyForward(t *testing.T) {
	g := newRig(t, rigOptions{reads: plugins.ReadsModel, rewriteTo: "other"})
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(`{"model":"pub"`, false)
	first := gw.recv()
	if set(t, first.GetRequestHeaders().GetResponse(), exchange.HeaderDestination) == "" {
		t.Fatal("the headers are not answered though the model was read")
	}
	if got := gw.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); string(got.GetBody()) != `{"model":` {
		t.Fatalf("first piece %q", got.GetBody())
	}
	var got bytes.Buffer
	if piece := gw.recv(); true {
		got.Write(piece.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody())
	}
	for _, chunk := range []string{`,"messages":`, `[]`} {
		gw.body(chunk, false)
		got.Write(gw.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody())
	}
	gw.body("}", true)
	last := gw.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	got.Write(last.GetBody())
	if got.String() != `"other","messages":[]}` || !last.GetEndOfStream() {
		t.Errorf("the rest came back as %q, end_of_stream %v", got.String(), last.GetEndOfStream())
	}
	gw.done()
}

// TestBodyThatOutgrowsItsLimit after its request was sent on its way is refused all the same.
func TestBodyThatOutgrowsItsLimit(t *testing.T) {
	g := newRig(t, rigOptions{reads: plugins.ReadsModel, exchange: func(o *exchange.Options) { o.MaxBodyBytes = 1000 }})
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(`{"model":"m","messages":[`, false)
	gw.recv()
	gw.recv()
	gw.body(strings.Repeat(" ", 2000), false)
	if r := gw.recv().GetImmediateResponse(); r.GetStatus().GetCode() != 413 || r.GetDetails() != "body_too_large" {
		t.Errorf("answered with %v", r)
	}
	if !gw.ends() {
		t.Error("the stream did not end with OK")
	}
	g.untilClosed()
	g.zero()
}

func TestEmptyBody(t *testing.T) {
	g := newRig(t, rigOptions{atHeaders: true})
	gw := g.open()
	gw.headers(duplex, none)
	gw.body("", true)
	if got := gw.answerTo(); len(got.body) != 0 || got.pieces != 1 {
		t.Errorf("%d bytes in %d pieces; want an empty one that ends", len(got.body), got.pieces)
	}
	gw.done()
}

// TestModesInWhichTheGatewayKeepsTheBody: what is read of it, and in which answer the destination stands.
func TestModesInWhichTheGatewayKeepsTheBody(t *testing.T) {
	to := func(t *testing.T, c *extprocpb.CommonResponse) string { return set(t, c, exchange.HeaderDestination) }
	t.Run("BUFFERED decides by the whole body", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		gw.headers(buffered, none)
		if m := gw.recv(); m.GetRequestHeaders() == nil || m.GetDynamicMetadata() != nil {
			t.Errorf("the headers are answered with %v", m)
		}
		gw.body(chat, true)
		m := gw.recv()
		if c := m.GetRequestBody().GetResponse(); to(t, c) != "10.0.0.1:8000" || c.GetBodyMutation() != nil || !c.GetClearRouteCache() {
			t.Errorf("the body is answered with %v", c)
		}
		if inMetadata(m.GetDynamicMetadata(), nsLoadBalancer, exchange.HeaderDestination) != "10.0.0.1:8000" {
			t.Error("the destination is not in the metadata")
		}
		gw.trailers()
		if gw.recv().GetRequestTrailers() == nil {
			t.Error("the trailers are not answered")
		}
		gw.done()
	})
	t.Run("BUFFERED with a bad body is refused", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		gw.headers(buffered, none)
		gw.recv()
		gw.body(chat[:20], true)
		if code := gw.recv().GetImmediateResponse().GetStatus().GetCode(); code != 400 {
			t.Errorf("status %d; want 400", code)
		}
	})
	t.Run("BUFFERED trailers without a body carry the destination in metadata", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		gw.send(requestHeaders(buffered, none, false, ":method", "POST", ":path", "/custom"))
		for first := true; ; first = false {
			m := gw.recv()
			if c := m.GetRequestHeaders().GetResponse(); c != nil { // nothing of such a body is read: decided at once
				if to(t, c) == "" {
					t.Error("no destination")
				}
				break
			}
			if !first {
				t.Fatalf("got %v", m)
			}
			gw.trailers()
		}
		gw.done()
	})
	t.Run("BUFFERED_PARTIAL decides by what fits", func(t *testing.T) {
		g := newRig(t, rigOptions{rewriteTo: "other"})
		gw := g.open()
		gw.headers(partial, none)
		gw.recv()
		gw.body(`{"model":"pub","messages":[{"role":"user","content":"aaa`, false)
		c := gw.recv().GetRequestBody().GetResponse()
		if to(t, c) == "" || string(c.GetBodyMutation().GetBody()) != `{"model":"other","messages":[{"role":"user","content":"aaa` || !removes(c, "content-length") {
			t.Errorf("the part is answered with %v", c)
		}
		gw.trailers()
		if gw.recv().GetRequestTrailers() == nil {
			t.Error("the trailers are not answered")
		}
		gw.done()
		if n := g.notes.of(reason.SecondEndOfStream); n != 0 {
			t.Error("the trailers were taken for a second end")
		}
	})
	t.Run("STREAMED decides by the headers", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		gw.headers(streamed, streamed)
		if to(t, gw.recv().GetRequestHeaders().GetResponse()) == "" {
			t.Error("the headers' answer has no destination")
		}
		gw.body(chat[:10], false)
		gw.body(chat[10:], true)
		for range 2 {
			if b := gw.recv().GetRequestBody(); b == nil || b.GetResponse().GetBodyMutation() != nil {
				t.Errorf("a chunk is answered with %v", b)
			}
		}
		gw.responseHeaders("10.0.0.1:8000", false)
		gw.recv()
		gw.responseBody("x", false)
		gw.responseBody("", true)
		for range 2 {
			if b := gw.recv().GetResponseBody(); b == nil || b.GetResponse().GetBodyMutation() != nil {
				t.Errorf("a response chunk is answered with %v", b)
			}
		}
		gw.done()
		if o := g.outcome(); o.EndingCode != "" {
			t.Errorf("it ended with %q", o.EndingCode)
		}
		g.zero()
	})
	t.Run("NONE decides by the headers", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		gw.headers(none, none)
		if to(t, gw.recv().GetRequestHeaders().GetResponse()) == "" {
			t.Error("the headers' answer has no destination")
		}
		gw.done()
	})
	t.Run("a gateway that says no modes is full duplex", func(t *testing.T) {
		g := newRig(t, rigOptions{})
		gw := g.open()
		m := requestHeaders(none, none, false, ":method", "POST", ":path", "/v1/chat/completions")
		m.ProtocolConfig = nil
		gw.send(m)
		gw.body(chat, true)
		if got := gw.answerTo(); string(got.body) != chat {
			t.Errorf("the body came back as %q", got.body)
		}
		gw.done()
	})
}
