package demo

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

func TestBothPoliciesGetTheSameTraffic(t *testing.T) {
	shape := DefaultShape()
	a := shape.Sessions(7, pad("round-robin below"), 2, time.Minute)
	b := shape.Sessions(7, pad("fairlead below"), 2, time.Minute)
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%d and %d sessions", len(a), len(b))
	}
	for i := range a {
		if a[i].Start != b[i].Start || !reflect.DeepEqual(a[i].Think, b[i].Think) || len(a[i].System) != len(b[i].System) {
			t.Fatalf("session %d differs", i)
		}
		for j := range a[i].Turns {
			if len(a[i].Turns[j]) != len(b[i].Turns[j]) {
				t.Fatalf("session %d turn %d has another length", i, j)
			}
			if a[i].Turns[j] == b[i].Turns[j] {
				t.Fatalf("session %d turn %d has the same text: the second phase would find the first one's cache", i, j)
			}
		}
	}
	if again := shape.Sessions(7, pad("round-robin below"), 2, time.Minute); !reflect.DeepEqual(a, again) {
		t.Error("the same seed gives other sessions")
	}
}

func TestSessionsOfOneApplicationShareTheirSystemPrompt(t *testing.T) {
	shape := DefaultShape()
	s := shape.Sessions(1, "x", 2, time.Minute)
	if s[0].System != s[shape.Apps].System || s[0].System == s[1].System {
		t.Error("system prompts do not follow the applications")
	}
}

func TestStreamsThatEndEarlyAreErrors(t *testing.T) {
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	if a := readStream(strings.NewReader(event)); a.err == nil || a.text != "a" {
		t.Errorf("got %+v, want the text and an error", a)
	}
	if a := readStream(strings.NewReader(event + "data: [DONE]\n\n")); a.err != nil {
		t.Errorf("a whole stream is an error: %v", a.err)
	}
	if a := readStream(strings.NewReader("data: {\n\ndata: [DONE]\n\n")); a.err == nil {
		t.Error("a broken event is no error")
	}
}

func TestVerdicts(t *testing.T) {
	rows := []struct {
		roundRobin, fairlead float64
		more                 bool
		want                 string
	}{
		{200, 100, false, "2.00x better"},
		{100, 200, false, "2.00x WORSE"},
		{100, 102, false, "equal"},
		{100, 150, true, "1.50x better"},
		{150, 100, true, "1.50x WORSE"},
		{0, 100, true, "not measured"},
	}
	for _, row := range rows {
		if got := verdict(row.roundRobin, row.fairlead, row.more); got != row.want {
			t.Errorf("verdict(%v, %v, %v) = %q, want %q", row.roundRobin, row.fairlead, row.more, got, row.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	r := Result{TTFT: []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	if r.Quantile(0.5) != 6 || r.Quantile(0.99) != 10 || r.Quantile(1) != 10 || (&Result{}).Quantile(0.5) != 0 {
		t.Errorf("got %v %v %v", r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1))
	}
}

func TestAPhaseAgainstSimulatedPods(t *testing.T) {
	profile, err := engine.ProfileFor("h100-mig-3g.40gb", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := server.Start(t.Context(), server.Options{Engines: 2, Profile: profile, Speed: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	shape := Shape{Apps: 1, SystemTokens: 200, TurnTokens: 100, Turns: 2, AnswerTokens: 4, Think: 100 * time.Millisecond}
	span := 10 * time.Second // of engine time, one of wall time
	p := &phase{
		policy: "round-robin", model: "llama-3.1-8b", answer: shape.AnswerTokens, speed: 10, span: span,
		sessions: shape.Sessions(1, "test", 2, span/2), client: &http.Client{},
		choose: func(n int) string { return "http://" + pods.Addrs()[n%2].String() },
	}
	res := p.run(context.Background())
	if res.Errors != 0 || res.Requests != 2*len(p.sessions) {
		t.Fatalf("%d requests of %d sessions with two turns, %d errors: %v", res.Requests, len(p.sessions), res.Errors, res.FirstErr)
	}
	if res.HitRate() <= 0.2 || res.Out != 4*res.Requests || res.Quantile(0.5) <= 0 {
		t.Errorf("hit rate %.2f, %d tokens out, TTFT %v", res.HitRate(), res.Out, res.Quantile(0.5))
	}
	state, err := readPod(t.Context(), p.client, "http://"+pods.Addrs()[0].String())
	if err != nil || state.queries == 0 {
		t.Errorf("the pod's page says %+v, %v", state, err)
	}
}
