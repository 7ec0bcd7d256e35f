package fleet_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// apart has member 0 compute every prompt and member 1 generate.
type apart struct {
	turns
	firsts int
}

func (d *apart) Arrive(_ pool.Instant, number uint64, _ *fleet.Request, _ *openai.Summary) fleet.Answer {
	return fleet.Answer{Number: number, To: 1, Split: true, Prefill: 0}
}

func (d *apart) Unreachable(pool.Instant, uint64, int32) fleet.Answer {
	return fleet.Answer{Refused: "upstream_unreachable"}
}

func (d *apart) FirstToken(pool.Instant, uint64) { d.firsts++ }

func TestPromptsComputedElsewhere(t *testing.T) {
	split := func(transfer fleet.Transfer, events ...fleet.Event) (*fleet.Result, *apart, *list) {
		d, source := &apart{}, every(20, 300*time.Millisecond, 4000, 50)
		return run(t, fleet.Options{Pods: pods(t, 2), Decider: d, Source: source, Transfer: transfer, Events: events}), d, source
	}
	fast, d, _ := split(fleet.Transfer{BytesPerSecond: 1e15})
	slow, _, _ := split(fleet.Transfer{Setup: 10 * time.Millisecond, BytesPerSecond: 1e10})
	alone := run(t, fleet.Options{Pods: pods(t, 1), Decider: &turns{}, Source: every(20, 300*time.Millisecond, 4000, 50)})
	if d.firsts != 20 {
		t.Errorf("the decider heard of %d first tokens, want one for each of 20 requests", d.firsts)
	}
	// 4000 tokens of 131,072 bytes at 10 GB/s and 10 ms.
	const transfer = 10*time.Millisecond + 52_428_800*time.Nanosecond
	for i := range slow.Outcomes {
		a, b, c := &fast.Outcomes[i], &slow.Outcomes[i], &alone.Outcomes[i]
		if a.Status != fleet.Completed || a.Generated != 50 || a.Pod != 1 {
			t.Fatalf("request %d: %+v", i, a)
		}
		fastTTFT, _ := a.TTFT()
		slowTTFT, _ := b.TTFT()
		aloneTTFT, _ := c.TTFT()
		if got := slowTTFT - fastTTFT; got < transfer-8*time.Millisecond || got > transfer+8*time.Millisecond {
			t.Errorf("request %d: the transfer costs %v, want %v within a step", i, got, transfer)
		}
		if fastTTFT < aloneTTFT || fastTTFT > aloneTTFT+20*time.Millisecond {
			t.Errorf("request %d: TTFT %v apart without a transfer, %v together; want one step more", i, fastTTFT, aloneTTFT)
		}
	}
	if p := fast.Pods; p[0].Counters.GenerationTokens != 20 || p[1].Counters.GenerationTokens != 1000 {
		t.Errorf("%d tokens of the prefilling engine, %d of the other; want one each, and all", p[0].Counters.GenerationTokens, p[1].Counters.GenerationTokens)
	}

	// Whoever crashes, every request ends once, and nobody else's.
	for pod := range int32(2) {
		r, _, source := split(fleet.Transfer{BytesPerSecond: 1e10}, fleet.Event{At: second, Kind: fleet.Crash, Pod: pod}, fleet.Event{At: 2 * second, Kind: fleet.Restart, Pod: pod})
		statuses := map[fleet.Status]int{}
		for i := range r.Outcomes {
			statuses[r.Outcomes[i].Status]++
		}
		if len(source.done) != 20 || statuses[fleet.Unfinished] > 0 || statuses[fleet.Completed] < 12 || statuses[fleet.Completed] > 19 {
			t.Errorf("a crash of pod %d: %v, %d ends", pod, statuses, len(source.done))
		}
	}
}
