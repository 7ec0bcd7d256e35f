package extproc

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// chatOf returns a chat body of exactly n bytes.
func chatOf(n int) string {
	head, tail := `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

func TestSecondEndOfStreamIsIgnored(t *testing.T) {
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

func TestLongBodiesComeBackInPieces(t *testing.T) {
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
	err := inPieces([][]byte{nil, chunk[:3], chunk[3:], {}}, true, func(piece []byte, end bool) error {
		if len(piece) == 0 || len(piece) > MaxPiece || &piece[0] != &chunk[n] || cap(piece) != len(piece) {
			t.Errorf("at %d: a piece of %d bytes that is no closed part of the chunk", n, len(piece))
		}
		n += len(piece)
		if end != (n == len(chunk)) {
			t.Errorf("at %d: end is %v", n, end)
		}
		return nil
	})
	if err != nil || n != len(chunk) {
		t.Errorf("%d bytes, error %v; want %d", n, err, len(chunk))
	}
}

func TestHeaderValues(t *testing.T) {
	m := &corepb.HeaderMap{Headers: []*corepb.HeaderValue{
		{Key: "x-request-id", Value: "by-value"},
		{Key: "x-request-id", RawValue: []byte("raw")},
		{Key: "x-request-id", Value: "by-value-2", RawValue: []byte{}},
		{Key: "X-Upper", RawValue: []byte("a")},
		{Key: ":path", RawValue: []byte("/v1/models")},
		{Key: "x-binary", RawValue: []byte{0xff, 'x'}},
	}}
	want := openai.Headers{
		{Name: "x-request-id", Value: "by-value"}, {Name: "x-request-id", Value: "raw"}, {Name: "x-request-id", Value: "by-value-2"},
		{Name: "x-upper", Value: "a"}, {Name: ":path", Value: "/v1/models"}, {Name: "x-binary", Value: "\xffx"},
	}
	if diff := cmp.Diff(want, readHeaders(m)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
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

func TestBodilessGET(t *testing.T) {
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
		if over := m.GetModeOverride(); (over != nil) != (tokens != "") || over.GetRequestBodyMode() == duplex {
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

// TestAPIKind: the kind comes from :path alone, and nothing of it is changed.
func TestAPIKind(t *testing.T) {
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

// TestOneRequestIDOnTwoStreams: state belongs to the stream.
func TestOneRequestIDOnTwoStreams(t *testing.T) {
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

func TestDestination(t *testing.T) {
	cases := []struct {
		name, endpoints, tokens string
		subset                  any // nil: no hint
		want                    string
	}{
		{"one address by default", "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1", "", nil, "10.0.0.1:1"},
		{"a list where the gateway walks one", "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1", "fallbacks", nil, "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1"},
		{"tokens may stand in one value", "10.0.0.1:1 10.0.0.2:1", "other, fallbacks ,more", nil, "10.0.0.1:1,10.0.0.2:1"},
		{"IPv6 stands in brackets", "[2001:db8::1]:1 10.0.0.2:1", "fallbacks", nil, "[2001:db8::1]:1,10.0.0.2:1"},
		{"a subset as a list", "10.0.0.1:1 10.0.0.2:1", "", []any{"10.0.0.2:1"}, "10.0.0.2:1"},
		{"a subset as a string", "10.0.0.1:1 10.0.0.2:1", "", "10.0.0.9:1, 10.0.0.2:1", "10.0.0.2:1"},
		{"a subset without a port", "10.0.0.1:1 10.0.0.2:1 10.0.0.2:2", "fallbacks", "10.0.0.2", "10.0.0.2:1,10.0.0.2:2"},
		{"a subset in IPv6", "[2001:db8::1]:1 [2001:db8::2]:1", "", []any{"[2001:db8::2]:1"}, "[2001:db8::2]:1"},
		{"an empty subset is nobody", "10.0.0.1:1", "", []any{}, ""},
		{"an empty string is nobody", "10.0.0.1:1", "", "", ""},
		{"a subset of strangers is nobody", "10.0.0.1:1", "", []any{"10.9.9.9:1"}, ""},
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
				if code := got.GetImmediateResponse().GetStatus().GetCode(); code != 503 {
					t.Errorf("answered with %d; want 503", code)
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
