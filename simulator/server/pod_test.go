package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// In these tests the wall clock is that of testing/synctest, which stands still while anybody works.

func testPod(t *testing.T, o Options) *pod {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPod(o, 0, WallClock(o.Speed), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// arrival is a request with the wall time at which it comes.
type arrival struct {
	at             time.Duration
	prompt, output int32
}

func someArrivals() []arrival {
	var list []arrival
	for i := range 60 {
		list = append(list, arrival{time.Duration(i*i%97) * 3 * time.Millisecond, int32(10 + i*53%1500), int32(1 + i*7%40)})
	}
	return list
}

// TestWallClockAndVirtualTimeAgree sends the same requests to a pod, in wall time at a speed-up, and to a bare engine driven
// through virtual time, and compares what happened to each to the nanosecond.
func TestWallClockAndVirtualTimeAgree(t *testing.T) {
	const speed = 8 // a power of two, so that wall times convert exactly
	var live []engine.Timeline
	var arrived []time.Duration
	synctest.Test(t, func(t *testing.T) {
		p := testPod(t, Options{Speed: speed})
		defer p.close()
		list := someArrivals()
		live = make([]engine.Timeline, len(list))
		arrived = make([]time.Duration, len(list))
		finished := make(chan int)
		for i, a := range list {
			go func() {
				time.Sleep(a.at + time.Duration(i)*time.Microsecond) // one at a time
				arrived[i] = p.clock.Now()
				s, err := p.submit(engine.Request{Prompt: a.prompt, Output: a.output}, a.output, false)
				if err != nil {
					t.Error(err)
				}
				for !s.finished.Load() {
					<-s.ready
				}
				live[i] = s.timeline
				finished <- i
			}()
		}
		for range list {
			<-finished
		}
	})

	e, err := engine.New(engine.Profiles()[0], engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := someArrivals()
	order := make([]int, 0, len(list))
	for len(order) < len(list) { // by arrival
		first := -1
		for i := range list {
			seen := false
			for _, o := range order {
				seen = seen || o == i
			}
			if !seen && (first < 0 || arrived[i] < arrived[first]) {
				first = i
			}
		}
		order = append(order, first)
	}
	virtual := make([]engine.Timeline, len(list))
	tenant := map[engine.ID]int{}
	take := func(r engine.Result) {
		for _, f := range r.Finished {
			virtual[tenant[f.ID]] = f.Timeline
		}
	}
	runUntil := func(at time.Duration) {
		for {
			next, busy := e.Next()
			if !busy || next > at {
				return
			}
			take(e.Step(next))
		}
	}
	for _, i := range order {
		runUntil(arrived[i])
		id, err := e.Add(arrived[i], engine.Request{Prompt: list[i].prompt, Output: list[i].output})
		if err != nil {
			t.Fatal(err)
		}
		tenant[id] = i
		if _, busy := e.Next(); !busy {
			take(e.Step(arrived[i]))
		}
	}
	runUntil(time.Hour)
	for i := range list {
		if live[i] != virtual[i] {
			t.Errorf("request %d: wall clock %+v, virtual time %+v", i, live[i], virtual[i])
		}
	}
}

func TestTokensAreHeldBackButNotTheFirstNorTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPod(t, Options{Speed: 16, Flush: 50 * time.Millisecond})
		defer p.close()
		start := time.Now()
		s, err := p.submit(engine.Request{Prompt: 1, Output: 500}, 500, false)
		if err != nil {
			t.Fatal(err)
		}
		var seen []int32
		var at []time.Duration
		for !s.finished.Load() {
			<-s.ready
			seen = append(seen, s.generated.Load())
			at = append(at, time.Since(start))
		}
		// 500 tokens of some 6.9 ms at 16 times the speed are 217 ms of wall: the first, one look about every 50 ms, the last.
		if seen[0] != 1 || seen[len(seen)-1] != 500 || len(seen) < 5 || len(seen) > 7 {
			t.Errorf("looked at tokens %v, at %v", seen, at)
		}
		if at[0] > 2*time.Millisecond {
			t.Errorf("the first token came after %v", at[0])
		}
	})
}

func TestAHungDeviceGoesOnWhereItStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPod(t, Options{})
		defer p.close()
		s, err := p.submit(engine.Request{Prompt: 1, Output: 3}, 3, false)
		if err != nil {
			t.Fatal(err)
		}
		<-s.ready // the first token, after 6.9 ms
		p.setHung(true)
		p.setHung(true) // twice is once
		time.Sleep(time.Second)
		if got := s.generated.Load(); got != 1 {
			t.Errorf("%d tokens while hung", got)
		}
		waiting, err := p.submit(engine.Request{Prompt: 1, Output: 1}, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		p.setHung(false)
		for !s.finished.Load() {
			<-s.ready
		}
		if got := s.timeline.LastToken - s.timeline.FirstToken; got < time.Second || got > time.Second+15*time.Millisecond {
			t.Errorf("the other two tokens took %v, want a second and two steps", got)
		}
		for !waiting.finished.Load() {
			<-waiting.ready
		}
	})
}

func TestABusyEngineThatHungWhileIdleStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPod(t, Options{})
		defer p.close()
		p.setHung(true)
		s, err := p.submit(engine.Request{Prompt: 1, Output: 1}, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.setHung(false)
		<-s.ready
		if got := s.timeline.FirstToken; got < time.Second || got > time.Second+8*time.Millisecond {
			t.Errorf("the token came at %v, want one step after a second", got)
		}
	})
}
