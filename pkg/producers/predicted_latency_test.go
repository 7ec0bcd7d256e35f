package producers_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/reason"
)

// watch scores at random and keeps what is predicted.
type watch struct {
	ttft, itl, highTTFT plugins.EndpointValues[float64]
	itlTarget           plugins.RequestValue[float64]
	gotTTFT, gotITL     []float64
	high                []float64
	target              float64
}

func (w *watch) Provision(b *plugins.Builder) error {
	w.ttft, w.itl, w.highTTFT = plugins.Needs(b, plugins.PredictedTTFT), plugins.Needs(b, plugins.PredictedITL), plugins.Needs(b, plugins.HighTTFT)
	w.itlTarget = plugins.Needs(b, plugins.ITLTarget)
	return nil
}

func (w *watch) Score(c *plugins.Cycle, out []float64) {
	for i := range out {
		out[i] = c.Rand().Float64()
	}
	w.gotTTFT, w.gotITL, w.high, w.target = nil, nil, nil, w.itlTarget.Of(c.Request)
	for _, id := range c.Candidates {
		w.gotTTFT, w.gotITL, w.high = append(w.gotTTFT, w.ttft.Of(c)[id]), append(w.gotITL, w.itl.Of(c)[id]), append(w.high, w.highTTFT.Of(c)[id])
	}
}

// fleet is a rig whose engines take 20 ms and 50 µs for each token of a prompt, times their own factor, and 15 ms for each
// token of an answer.
type fleet struct {
	*pluginstest.Rig
	watch  *watch
	by     *producers.PredictedLatency
	random *rand.Rand
	factor map[string]float64
	held   time.Duration
}

func newFleet(t testing.TB, by *producers.PredictedLatency, names ...string) *fleet {
	t.Helper()
	f := &fleet{watch: &watch{}, by: by, random: rand.New(rand.NewPCG(7, 8)), factor: map[string]float64{}}
	f.Rig = pluginstest.NewRig(t, []pluginstest.Part{{Name: "watch", Plugin: f.watch, Weight: 1}, {Name: "loads", Plugin: producers.NewLoadModel()}, {Name: "latency", Plugin: by}}, names...)
	for _, name := range names {
		f.factor[name] = 1
	}
	return f
}

func streamed() *producers.PredictedLatency {
	p := producers.NewPredictedLatency()
	p.StreamingMode = true
	return p
}

// stream is a streamed request with a prompt of so many tokens.
func stream(prompt int64) *openai.Summary {
	s := chat("m", prompt, openai.Unknown, 1)
	s.Stream = true
	return s
}

func (f *fleet) takes(name string, prompt int64) float64 {
	return f.factor[name] * (20 + 0.05*float64(prompt))
}

// serve has n requests served one after the other, and returns the mean relative error of what was predicted for those who
// served, by name.
func (f *fleet) serve(n int) map[string]float64 {
	off, count := map[string]float64{}, map[string]float64{}
	for range n {
		prompt := int64(100 + f.random.IntN(4000))
		sent := f.Send(stream(prompt))
		name := sent.Picked[0]
		id := sent.Request.Snapshot.Members[0]
		for i, m := range sent.Request.Snapshot.Members {
			if sent.Request.Snapshot.Slots[m].Name == name {
				id = pool.ID(i)
			}
		}
		actual := f.takes(name, prompt)
		off[name] += math.Abs(f.watch.gotTTFT[id]-actual) / actual
		count[name]++
		ttft := time.Duration(actual * 1e6)
		f.Now += pool.Instant(ttft)
		sent.Answer(name)
		decode := time.Duration(f.factor[name] * 15 * 99 * 1e6)
		f.Now += pool.Instant(decode)
		sent.EndAs(plugins.Outcome{Served: sent.Request.Served, TTFT: f.held + ttft, Held: f.held, Total: f.held + ttft + decode, Prompt: prompt, Out: 100})
	}
	for name := range off {
		off[name] /= count[name]
	}
	return off
}

func TestPredictedLatencyLearns(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b", "c")
	f.Send(stream(1000))
	if f.Notes[reason.LatencyUnlearned] != 1 || f.watch.gotTTFT[0] < 20 || f.watch.gotITL[0] < 5 {
		t.Errorf("before anything was learned: %v and %v, noted %d times", f.watch.gotTTFT, f.watch.gotITL, f.Notes[reason.LatencyUnlearned])
	}
	f.serve(600)
	for name, off := range f.serve(200) {
		if off > 0.05 {
			t.Errorf("%s: off by %.1f %%", name, 100*off)
		}
	}
	f.Send(stream(2000))
	for i, itl := range f.watch.gotITL {
		if math.Abs(itl-15) > 1 {
			t.Errorf("endpoint %d is expected to take %.1f ms a token, want 15", i, itl)
		}
		if f.watch.high[i] < f.watch.gotTTFT[i] {
			t.Errorf("endpoint %d: nine of ten below %.1f ms, and %.1f on average", i, f.watch.high[i], f.watch.gotTTFT[i])
		}
	}
	noted := f.Notes[reason.LatencyUnlearned]
	f.Send(stream(10))
	if f.Notes[reason.LatencyUnlearned] != noted {
		t.Error("a fallback is noted though the model is used")
	}
}

// One of three endpoints comes to take twice as long: the error is below 20 % again within 60 of its answers, and it is an
// endpoint's matter, not its class's.
func TestPredictedLatencyFollowsASlowEndpoint(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b", "c")
	f.serve(900)
	f.factor["b"] = 2
	f.serve(180)
	for name, off := range f.serve(150) {
		if off > 0.2 {
			t.Errorf("%s: off by %.1f %%", name, 100*off)
		}
	}
	for _, a := range f.by.Accuracy() {
		if b, other := a.Paces["default/b"], a.Paces["default/a"]; b/other < 1.6 || b/other > 2.5 {
			t.Errorf("%s: b is taken for %.2f times as slow as a, want 2", a.Kind, b/other)
		}
	}
}

// A restarted engine begins with what its class has shown.
func TestPredictedLatencyForgetsARestartedEngine(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b")
	f.factor["b"] = 2
	f.serve(600)
	f.Members("a")
	f.factor["b"] = 1
	f.Members("a", "b")
	f.Send(stream(10))
	for _, a := range f.by.Accuracy() {
		if pace := a.Paces["default/b"]; pace != 1 {
			t.Errorf("%s: the new b is taken for %.2f times as slow", a.Kind, pace)
		}
	}
}

// How long a request was held before it was decided is not its endpoint's time.
func TestPredictedLatencyCountsFromTheDecision(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b")
	f.held = 3 * time.Second
	f.serve(600)
	for name, off := range f.serve(100) {
		if off > 0.05 {
			t.Errorf("%s: off by %.1f %%", name, 100*off)
		}
	}
}

func TestPredictedLatencyLearnsOnlyFromWhatTells(t *testing.T) {
	for _, r := range []struct {
		name   string
		change func(s *pluginstest.Sent, o *plugins.Outcome)
		ttft   int64
		itl    int64
	}{
		{"a stream that ended", nil, 1, 1},
		{"an answer that came at once", func(s *pluginstest.Sent, _ *plugins.Outcome) { s.Request.Body.Stream = false }, 0, 0},
		{"one that was broken off", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.Ending = reason.UpstreamBroken }, 0, 0},
		{"an error", func(s *pluginstest.Sent, _ *plugins.Outcome) { s.Request.Status = 503 }, 0, 0},
		{"nobody saw the first byte", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.TTFT = openai.Unknown }, 0, 0},
		{"another endpoint served", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.Served.ID++ }, 0, 0},
		{"nobody said who served", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.Served = pool.Ref{} }, 0, 0},
		{"no usage", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.Out = openai.Unknown }, 1, 0},
		{"three tokens", func(_ *pluginstest.Sent, o *plugins.Outcome) { o.Out = 3 }, 1, 0},
		{"twelve tokens of four completions", func(s *pluginstest.Sent, o *plugins.Outcome) { s.Request.Body.N, o.Out = 4, 12 }, 1, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			f := newFleet(t, streamed(), "a", "b")
			sent := f.Send(stream(1000))
			sent.Answer(sent.Picked[0])
			o := plugins.Outcome{Served: sent.Request.Served, TTFT: 70e6, Total: 1570e6, Out: 100}
			if r.change != nil {
				r.change(sent, &o)
			}
			sent.EndAs(o)
			var got []int64
			for _, a := range f.by.Accuracy() {
				got = append(got, a.Answers)
			}
			if got[0] != r.ttft || got[1] != r.itl {
				t.Errorf("learned from %v, want %d and %d", got, r.ttft, r.itl)
			}
		})
	}
}

// Engines that send the answer's headers before its first token: the load model says so, the time to first token
// is left to the closed form, and the time between tokens is learned all the same.
func TestPredictedLatencyOfEnginesThatSendHeadersFirst(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b")
	f.Load = pool.Load{UncachedPrefill: 4000}
	for range 400 {
		sent := f.Send(stream(4000))
		f.Now += 2 * ms
		sent.Answer(sent.Picked[0])
		f.Now += 1608 * ms
		sent.EndAs(plugins.Outcome{Served: sent.Request.Served, TTFT: 2e6, Total: 125e6 + 1485e6, Out: 100})
	}
	f.Send(stream(4000))
	if f.Notes[reason.HeadersFirst] != 1 || f.Notes[reason.LatencyUnlearned] == 0 {
		t.Errorf("noted %v", f.Notes)
	}
	if f.watch.gotTTFT[0] < 50 {
		t.Errorf("4000 tokens are expected to take %.1f ms", f.watch.gotTTFT[0])
	}
	if math.Abs(f.watch.gotITL[0]-15) > 2 {
		t.Errorf("%.1f ms are expected between tokens, want about 15", f.watch.gotITL[0])
	}
}

func TestPredictedLatencyWithoutStreamingModeSaysNothingOfTokens(t *testing.T) {
	f := newFleet(t, producers.NewPredictedLatency(), "a")
	f.Send(stream(100))
	if f.watch.gotITL[0] != plugins.Unknown || f.watch.gotTTFT[0] == plugins.Unknown {
		t.Errorf("got %v and %v", f.watch.gotTTFT, f.watch.gotITL)
	}
}

func TestPredictedLatencyThatOnlyLearns(t *testing.T) {
	by := streamed()
	by.PredictInProduce = false
	f := newFleet(t, by, "a")
	sent := f.Send(stream(100))
	if f.watch.gotTTFT[0] != plugins.Unknown {
		t.Errorf("predicts %v", f.watch.gotTTFT)
	}
	sent.Answer("a")
	sent.EndAs(plugins.Outcome{Served: sent.Request.Served, TTFT: 70e6, Total: 1570e6, Out: 100})
	if a := by.Accuracy(); a[0].Answers != 1 {
		t.Errorf("learned from %d", a[0].Answers)
	}
}

func TestTargetsAreBuffered(t *testing.T) {
	by := streamed()
	by.SLOBufferFactor = 0.5
	f := newFleet(t, by, "a")
	f.SendWith(stream(100), openai.Headers{{Name: "x-llm-d-slo-tpot-ms", Value: "40"}})
	if f.watch.target != 20 {
		t.Errorf("the target is %g, want 20", f.watch.target)
	}
	f.SendWith(stream(100), openai.Headers{{Name: "x-llm-d-slo-tpot-ms", Value: "fast"}})
	if f.watch.target != plugins.Unknown || f.Notes[reason.TargetIgnored] != 1 {
		t.Errorf("the target is %g, noted %d times", f.watch.target, f.Notes[reason.TargetIgnored])
	}
}

func TestPredictedLatencyIsInherited(t *testing.T) {
	f := newFleet(t, streamed(), "a", "b")
	f.serve(400)
	next := streamed()
	f.Replace([]pluginstest.Part{{Name: "watch", Plugin: f.watch, Weight: 1}, {Name: "loads", Plugin: producers.NewLoadModel()}, {Name: "latency", Plugin: next}})
	if a := next.Accuracy(); len(a) == 0 || a[0].Answers != 400 {
		t.Errorf("after a reload %+v", a)
	}
}

func TestPredictedLatencyRefuses(t *testing.T) {
	by := producers.NewPredictedLatency()
	by.UseEncoderCacheFeatures = true
	_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{
		{Name: "loads", Type: "load-model-producer", Construct: func() (any, error) { return producers.NewLoadModel(), nil }},
		{Name: "latency", Type: "predicted-latency-producer", Construct: func() (any, error) { return by, nil }}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "useEncoderCacheFeatures: caches of encoders") {
		t.Errorf("got %v", err)
	}
}

// A hundred endpoints are predicted without allocating.
func TestPredictingAllocatesNothing(t *testing.T) {
	cycle := hundred(t)
	if n := testing.AllocsPerRun(50, cycle); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkPredict100(b *testing.B) {
	cycle := hundred(b)
	b.ReportAllocs()
	for range b.N {
		cycle()
	}
}

// hundred returns one observation over a hundred endpoints.
func hundred(t testing.TB) func() {
	t.Helper()
	var names []string
	for i := range 100 {
		names = append(names, "e"+strings.Repeat("i", i))
	}
	by := streamed()
	f := newFleet(t, by, names...)
	f.serve(300)
	c := f.Built.Plans[0].NewCycle(f.Notes)
	sent := f.Send(stream(1000))
	if no := c.Prepare(&sent.Request, f.Pool.Snapshot(), f.Pool.StaleAfter(), 0, nil); no != nil {
		t.Fatal(no)
	}
	return func() {
		f.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) { by.Observe(c, books) })
	}
}
