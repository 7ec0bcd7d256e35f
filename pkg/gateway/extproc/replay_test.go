package extproc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/reason"
)

// event is one line of a recorded session.
type event struct {
	From      string          `json:"from"`
	Kind      string          `json:"kind"`
	BodyBytes int             `json:"body_bytes"`
	Message   json.RawMessage `json:"message"`
	Note      string          `json:"note"`
}

func readSession(t *testing.T, name string) []event {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "sessions", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var events []event
	if err := json.Unmarshal(raw, &events); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return merged(events)
}

// merged makes one event of consecutive pieces of a body that the recorded picker sent: where it cut them says nothing.
func merged(events []event) []event {
	var out []event
	for _, e := range events {
		if n := len(out) - 1; n >= 0 && e.From == "server" && e.BodyBytes > 0 && out[n].From == "server" && out[n].Kind == e.Kind {
			out[n].BodyBytes += e.BodyBytes
			out[n].Message = e.Message // the last has the end
			continue
		}
		out = append(out, e)
	}
	return out
}

// recordedDestination is the list that the recorded picker chose, which is the pool that we replay with.
func recordedDestination(events []event) string {
	for _, e := range events {
		var m struct {
			DynamicMetadata map[string]map[string]string `json:"dynamicMetadata"`
		}
		if e.From == "server" && json.Unmarshal(e.Message, &m) == nil {
			if to := m.DynamicMetadata["envoy.lb"][exchange.HeaderDestination]; to != "" {
				return to
			}
		}
	}
	return "127.0.0.1:9011"
}

// fillBodies returns the bytes of the recorded body messages of one direction, made up where the recording left them out:
// all together they are one JSON text.
func fillBodies(events []event, field string) [][]byte {
	var bodies [][]byte
	total, left := 0, false
	for _, e := range events {
		var m map[string]struct {
			Body []byte `json:"body"`
		}
		if e.From != "envoy" || json.Unmarshal(e.Message, &m) != nil {
			continue
		}
		if b, ok := m[field]; ok {
			bodies = append(bodies, b.Body)
			total += e.BodyBytes
			if len(b.Body) != e.BodyBytes {
				left = true
				bodies[len(bodies)-1] = make([]byte, e.BodyBytes)
			}
		}
	}
	if !left {
		return bodies
	}
	head, tail := `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
	whole := head + strings.Repeat("a", total-len(head)-len(tail)) + tail
	for i, b := range bodies {
		bodies[i], whole = []byte(whole[:len(b)]), whole[len(b):]
	}
	return bodies
}

// TestReplay plays the recorded gateway's part message by message, and compares what we say with what the recorded picker
// said: the same kinds in the same order, the same destination, the same bytes.
func TestReplay(t *testing.T) {
	cases := []struct {
		name   string
		ending string // of the exchange; "-": it was never forwarded
	}{
		{"unary-chat", ""},
		{"h2-unary-chat", ""},
		{"stream-chat-200k", ""},
		{"h2-stream-chat-200k", ""},
		{"body-1mib", ""},
		{"h2-slow-upload", ""},
		{"empty-body", ""}, // on another path than was recorded: a chat completion without a body is refused
		{"get-models", ""},
		{"h2-request-trailers", ""},
		{"dead-endpoint", ""},
		{"fallback-served", ""},
		{"response-body-streamed", ""},
		{"response-body-none", ""},
		{"response-body-none-abort", ""}, // what nobody shows nobody can tell apart
		{"abort-during-stream", reason.ClientAborted.String()},
		{"h2-abort-during-stream", reason.ClientAborted.String()},
		{"upstream-reset-mid-stream", reason.ClientAborted.String()}, // the same signs, without an access log
		{"abort-during-upload", "-"},
		{"abort-while-queued", "-"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			events := readSession(t, c.name)
			g := newRig(t, rigOptions{endpoints: strings.ReplaceAll(recordedDestination(events), ",", " ")})
			gw := g.open(TokenFallbacks)
			p := player{t: t, gw: gw, request: fillBodies(events, "requestBody"), response: fillBodies(events, "responseBody")}
			p.play(events, c.name == "abort-while-queued")
			g.untilClosed()
			if c.ending == "-" {
				if n := g.notes.of(reason.ClientAborted); n != 1 {
					t.Errorf("client_aborted was noted %d times; want once", n)
				}
			} else if o := g.outcome(); o.EndingCode != c.ending {
				t.Errorf("it ended with %q; want %q", o.EndingCode, c.ending)
			}
			if n := g.notes.of(reason.Internal) + g.notes.of(reason.SecondEndOfStream); n != 0 {
				t.Errorf("%d reasons of a fault were noted", n)
			}
			g.zero()
		})
	}
}

// player plays one session.
type player struct {
	t                 *testing.T
	gw                *gateway
	request, response [][]byte

	bodies                    int    // request body messages that were sent
	sentRequest, sentResponse []byte // what the gateway sent
	gotRequest, gotResponse   []byte // what came back
}

func (p *player) play(events []event, hold bool) {
	p.t.Helper()
	for i, e := range events {
		switch {
		case e.From == "envoy" && e.Kind != "":
			p.sendRecorded(e, hold)
		case e.From == "server" && e.Kind != "":
			p.expect(e)
		case strings.Contains(e.Note, "EOF"):
			p.gw.untilReceived(RequestBody, p.bodies)
			_ = p.gw.io.CloseSend()
		case strings.HasPrefix(e.Note, "stream "):
			if hold {
				<-p.gw.held // the decision waits, and the gateway goes away
			}
			p.gw.cancel()
		case i != len(events)-1:
			p.t.Logf("note: %s", e.Note)
		}
	}
	p.gw.cancel()
	if !bytes.Equal(p.gotRequest, p.sentRequest) && len(p.gotRequest) > 0 {
		p.t.Errorf("the request's body came back as %d bytes; want the %d that were sent", len(p.gotRequest), len(p.sentRequest))
	}
	if !bytes.Equal(p.gotResponse, p.sentResponse) && len(p.gotResponse) > 0 {
		p.t.Errorf("the response's body came back as %d bytes; want the %d that were sent", len(p.gotResponse), len(p.sentResponse))
	}
}

func (p *player) sendRecorded(e event, hold bool) {
	p.t.Helper()
	m := &extprocpb.ProcessingRequest{}
	if err := protojson.Unmarshal(e.Message, m); err != nil {
		p.t.Fatal(err)
	}
	switch r := m.GetRequest().(type) {
	case *extprocpb.ProcessingRequest_RequestHeaders:
		if hold {
			r.RequestHeaders.Headers.Headers = append(r.RequestHeaders.Headers.Headers, headerMap("x-hold", "1").GetHeaders()...)
		}
	case *extprocpb.ProcessingRequest_RequestBody:
		r.RequestBody.Body, p.request = p.request[0], p.request[1:]
		p.bodies++
		p.sentRequest = append(p.sentRequest, r.RequestBody.Body...)
	case *extprocpb.ProcessingRequest_ResponseBody:
		r.ResponseBody.Body, p.response = p.response[0], p.response[1:]
		p.sentResponse = append(p.sentResponse, r.ResponseBody.Body...)
	}
	p.gw.send(m)
}

// expect receives the answer that the recorded picker gave here: for a body as many pieces as its bytes take.
func (p *player) expect(e event) {
	p.t.Helper()
	want := &extprocpb.ProcessingResponse{}
	if err := protojson.Unmarshal(e.Message, want); err != nil {
		p.t.Fatal(err)
	}
	got := p.gw.recv()
	if a, b := fmt.Sprintf("%T", got.GetResponse()), fmt.Sprintf("%T", want.GetResponse()); a != b {
		p.t.Fatalf("answered with %s; the recorded picker with %s", a, b)
	}
	switch r := got.GetResponse().(type) {
	case *extprocpb.ProcessingResponse_RequestHeaders:
		ours, theirs := r.RequestHeaders.GetResponse(), want.GetRequestHeaders().GetResponse()
		list := strings.Split(set(p.t, theirs, exchange.HeaderDestination), ",")
		for i := 0; len(list) < exchange.Defaults().Fallbacks; i++ { // the recorded picker left the rest of the walk to the gateway
			list = append(list, list[i])
		}
		to := strings.Join(list, ",")
		if got := set(p.t, ours, exchange.HeaderDestination); got != to {
			p.t.Errorf("destination header %q; want %q", got, to)
		}
		if got := inMetadata(got.GetDynamicMetadata(), nsLoadBalancer, exchange.HeaderDestination); got != to {
			p.t.Errorf("destination metadata %q; want %q", got, to)
		}
		if !ours.GetClearRouteCache() {
			p.t.Error("clear_route_cache is not set")
		}
		if id := inMetadata(got.GetDynamicMetadata(), nsOwn, keyDecisionID); len(id) != 32 {
			p.t.Errorf("decision id %q; want 32 digits", id)
		}
	case *extprocpb.ProcessingResponse_RequestBody:
		p.gotRequest = p.pieces(p.gotRequest, r.RequestBody, want.GetRequestBody(), e.BodyBytes)
	case *extprocpb.ProcessingResponse_ResponseBody:
		if r.ResponseBody.GetResponse() == nil { // a body that the gateway keeps
			return
		}
		p.gotResponse = p.pieces(p.gotResponse, r.ResponseBody, want.GetResponseBody(), e.BodyBytes)
	}
}

// pieces appends the pieces that make up n bytes, of which first has come, and compares the end.
func (p *player) pieces(to []byte, first, want *extprocpb.BodyResponse, n int) []byte {
	p.t.Helper()
	piece := first.GetResponse().GetBodyMutation().GetStreamedResponse()
	from := len(to)
	for {
		if len(piece.GetBody()) > MaxPiece {
			p.t.Errorf("a piece has %d bytes; at most %d", len(piece.GetBody()), MaxPiece)
		}
		to = append(to, piece.GetBody()...)
		if len(to)-from >= n {
			break
		}
		m := p.gw.recv()
		next := m.GetRequestBody()
		if next == nil {
			next = m.GetResponseBody()
		}
		piece = next.GetResponse().GetBodyMutation().GetStreamedResponse()
	}
	end := want.GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream()
	if end && !piece.GetEndOfStream() { // a body that nobody reads is passed on as it comes, and its end comes late
		piece = p.gw.recv().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	}
	if piece.GetEndOfStream() != end || len(to)-from != n {
		p.t.Errorf("end_of_stream %v after %d bytes; the recorded picker said %v", piece.GetEndOfStream(), len(to), end)
	}
	return to
}
