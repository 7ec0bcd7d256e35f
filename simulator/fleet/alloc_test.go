package fleet

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

type quiet struct{}

func (quiet) Members(pool.Instant, []pool.Endpoint)                             {}
func (quiet) Observe(pool.Instant, int32, pool.Sample)                          {}
func (quiet) Arrive(pool.Instant, uint64, *Request, *openai.Summary) Answer     { return Answer{} }
func (quiet) Unreachable(pool.Instant, uint64, int32) Answer                    { return Answer{Refused: "none"} }
func (quiet) FirstToken(pool.Instant, uint64)                                   {}
func (quiet) Finish(pool.Instant, uint64, openai.Usage, bool)                   {}
func (quiet) Due(pool.Instant, []Answer) (released []Answer, next pool.Instant) { return nil, 0 }

// endless yields one request after the other.
type endless struct{ r Request }

func (e *endless) BlockTokens() int32                  { return 16 }
func (e *endless) Peek() (pool.Instant, bool)          { return e.r.At, true }
func (e *endless) Done(pool.Instant, *Request, Status) {}
func (e *endless) Pop() *Request {
	r := &Request{At: e.r.At, Prompt: 1000, Output: 1000, Hashes: make([]uint64, 125)}
	for i := range r.Hashes {
		r.Hashes[i] = uint64(i + 1)
	}
	e.r.At += pool.Instant(time.Hour)
	return r
}

// attentive is quiet, and listens.
type attentive struct {
	quiet
	heard *int
}

func (a attentive) Blocks(_ pool.Instant, _ int32, b *Batch) bool {
	*a.heard += len(b.Events)
	return false
}

func TestAStepAllocatesNothing(t *testing.T) {
	p, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	for name, d := range map[string]Decider{"nobody listens": quiet{}, "somebody listens": attentive{heard: &heard}} {
		f, err := New(Options{Pods: []Pod{{Profile: p}}, Decider: d, Source: &endless{Request{At: 1}}, Signals: Signals{EventDelay: pool.Instant(time.Second / 2)}})
		if err != nil {
			t.Fatal(err)
		}
		f.announce()
		f.arrive(f.source.Pop())
		steps := func() {
			for range 10 {
				at, _ := f.pods[0].engine.Next()
				f.now = pool.Instant(at)
				f.bring(f.pods[0])
				f.hear()
			}
		}
		for range 30 {
			steps()
		}
		if n := testing.AllocsPerRun(50, steps); n != 0 {
			t.Errorf("%s: %v allocations in 10 steps, want 0", name, n)
		}
	}
	if heard == 0 {
		t.Error("nothing was heard")
	}
}

// The tournament names the same pod as a search through all.
func TestTheFirstStep(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 100} {
		var s steps
		s.grow(n)
		x := uint64(1)
		for range 2000 {
			x = x*6364136223846793005 + 1442695040888963407
			at := int64(x >> 60)
			if at == 15 {
				at = never
			}
			s.set(int32(x>>33)%int32(n), at)
			want := int32(0)
			for i, at := range s.at {
				if at < s.at[want] {
					want = int32(i)
				}
			}
			if got, at := s.first(); s.at[want] != never && got != want || at != s.at[want] {
				t.Fatalf("%d pods: first is %d at %d, want %d at %d", n, got, at, want, s.at[want])
			}
		}
	}
}

// What is on its way from a member is bounded; what comes beyond is lost, and counted.
func TestEventsOnTheirWayAreBounded(t *testing.T) {
	p, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	f, err := New(Options{Pods: []Pod{{Profile: p}}, Decider: attentive{heard: &heard}, Source: &endless{Request{At: 1}}, Signals: Signals{EventDelay: pool.Instant(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(hwm + 5) {
		f.publish(f.pods[0], []engine.BlockEvent{{Batch: i, Kind: engine.Stored, Hash: i}})
	}
	if f.result.Batches != hwm+5 || f.result.BatchesLost != 5 {
		t.Errorf("%d of %d batches are lost, want 5 beyond the %d that may be on their way", f.result.BatchesLost, f.result.Batches, hwm)
	}
	f.now = pool.Instant(2 * time.Hour)
	if f.hear(); heard != hwm {
		t.Errorf("%d arrived, want %d", heard, hwm)
	}
}
