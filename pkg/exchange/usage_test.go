package exchange_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Where a gateway's access log carries usage, nothing of an answer's body is asked for though a hook wants its usage.
func TestUsageComesByTheLog(t *testing.T) {
	overrides := exchange.Via{Adapter: "extproc", Walks: true, Logs: true, Chooses: true, StreamLasts: true,
		Sees: plugins.FirstByte | plugins.Usage | plugins.Chunks | plugins.Rewrite}
	for _, tt := range []struct {
		name  string
		logs  bool
		full  bool
		sees  plugins.Parts
		never bool // Chooses is off
		asks  bool
	}{
		{"the log has none: every chunk is asked for", false, false, overrides.Sees, false, true},
		{"the log has it: nothing is", true, false, overrides.Sees, false, false},
		{"full is full all the same", true, true, overrides.Sees, false, true},
		{"headers alone are shown", true, false, plugins.FirstByte, true, false},
		{"bodies are shown anyway, and read", true, false, overrides.Sees, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(o *exchange.Options) { o.Full = tt.full }, nil, instance("usage", usageHook{}))
			w.s.LogOpened()
			via := overrides
			via.LogsUsage, via.Sees, via.Chooses = tt.logs, tt.sees, !tt.never
			x, a := w.forwarded(via)
			if asks := a.Respond&(plugins.Usage|plugins.Chunks) != 0; asks != tt.asks {
				t.Errorf("it asks for %b", a.Respond)
			}
			x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/json"}}, address(0, 0), false)
			x.End(w.now, exchange.Ending{})
			w.pass(time.Millisecond)
			w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true, Usage: &openai.Usage{Prompt: 17, Cached: 6, Out: 40}})
			doc, _ := w.s.Decision(x.ID)
			if o := doc.Record.Outcome; o == nil || o.Prompt != 17 || o.Cached != 6 || o.Out != 40 {
				t.Errorf("the outcome is %+v", o)
			}
			w.wantNoted(reason.UsageMissing, 0)
		})
	}
}

// A stage or a limit may want to refuse when the answer is on its way: it is too late, and the answer goes on.
func TestX11NoRefusalAfterTheAnswerBegan(t *testing.T) {
	w := newWorld(t, func(o *exchange.Options) { o.MaxBodyBytes = 100 }, nil)
	x := w.begin()
	x.Headers(w.now, post("/v2/novelty", openai.Header{Name: "content-encoding", Value: "br"}), proxied, false)
	if a := x.Body(w.now, []byte("so far"), false); a.Do != exchange.Forward {
		t.Fatalf("got %v, want forward", a.Do)
	}
	x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, address(0, 0), false)
	if a := x.Body(w.now, make([]byte, 200), false); a.Do != exchange.Forward {
		t.Errorf("a body that grows too long behind the answer's beginning: %v, want forward", a.Do)
	}
	if a := x.Failed(w.now, address(0, 0), reason.UpstreamBroken); a.Do == exchange.Reply {
		t.Errorf("a failure behind the answer's beginning is answered anew")
	}
	w.s.Drain()
	if a := x.Resume(w.now); a.Do == exchange.Reply {
		t.Errorf("shutting down replies to a request that is answered")
	}
	x.End(w.now, exchange.Ending{Clean: true})
	w.wantOpen(0)
}

// An answer of one chunk and no or one token has no time per token, and nothing is divided by what is zero.
func TestS21AnswersOfOneChunk(t *testing.T) {
	for _, body := range []string{`{"usage":{"prompt_tokens":5,"completion_tokens":1}}`, `{"usage":{"prompt_tokens":5,"completion_tokens":0}}`} {
		w := newWorld(t, nil, nil, instance("usage", usageHook{}))
		x, a := w.forwarded(proxied)
		x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/json"}}, a.To[0], false)
		x.Chunk(w.now, []byte(body), true)
		doc, _ := w.s.Decision(x.ID)
		if o := doc.Record.Outcome; o == nil || o.Prompt != 5 || o.Out > 1 || o.Out < 0 || o.EndingCode != "" {
			t.Errorf("%s: the outcome is %+v", body, o)
		}
		if w.noted.count(reason.UsageMissing)+w.noted.count(reason.Internal)+w.noted.count(reason.HookPanic) != 0 {
			t.Errorf("%s: reasons of a fault", body)
		}
	}
}
