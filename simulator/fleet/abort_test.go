package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// A client goes away at any point of its request's life: it gets no more, what it used is free, and nobody else is touched.
func TestClientsGiveUp(t *testing.T) {
	const never = 0
	for _, tt := range []struct {
		name  string
		hold  bool
		split bool
		after time.Duration // of the first of two requests; the second comes 1 ms later
		want  fleet.Status
		first bool // whether the first token came
	}{
		{"never", false, false, never, fleet.Completed, true},
		{"while its prompt is computed", false, false, 100 * time.Millisecond, fleet.Aborted, false},
		{"while its answer is generated", false, false, 1500 * time.Millisecond, fleet.Aborted, true},
		{"after its end", false, false, time.Minute, fleet.Completed, true},
		{"while it is held", true, false, 200 * time.Millisecond, fleet.Aborted, false},
		{"while another engine computes its prompt", false, true, 100 * time.Millisecond, fleet.Aborted, false},
		{"while its keys and values are on their way", false, true, 690 * time.Millisecond, fleet.Aborted, false},
		{"while the other engine generates", false, true, 1500 * time.Millisecond, fleet.Aborted, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := every(2, time.Millisecond, 20_000, 200)
			source.requests[0].GivesUp = pool.Instant(tt.after)
			o := fleet.Options{Pods: pods(t, 2), Decider: &turns{hold: tt.hold, release: second}, Source: source, Transfer: fleet.Transfer{BytesPerSecond: 1e10}}
			if tt.split {
				o.Decider = &apart{}
			}
			r := run(t, o)
			a, b := &r.Outcomes[0], &r.Outcomes[1]
			if a.Status != tt.want || (a.FirstToken != 0) != tt.first {
				t.Errorf("%v, first token at %v; want %v, first token %v", a.Status, time.Duration(a.FirstToken), tt.want, tt.first)
			}
			if tt.want == fleet.Aborted && (a.End-a.Arrived != pool.Instant(tt.after) || a.Reason != "client_gave_up") {
				t.Errorf("it ended after %v as %q; want after %v", time.Duration(a.End-a.Arrived), a.Reason, tt.after)
			}
			if b.Status != fleet.Completed || b.Generated != 200 {
				t.Errorf("the other one: %+v", b)
			}
			if len(source.done) != 2 {
				t.Errorf("the source heard of %d ends, want 2", len(source.done))
			}
			if aborted := r.Pods[0].Counters.Aborted + r.Pods[1].Counters.Aborted; tt.want == fleet.Aborted != (aborted == 1) && !tt.hold && !tt.split {
				t.Errorf("engines aborted %d", aborted)
			}
		})
	}
}

// taker takes the request that runs back from its engine at an instant, if there was no first token.
type taker struct {
	turns
	at    pool.Instant
	first bool
	heard []string
}

func (d *taker) FirstToken(_ pool.Instant, number uint64) {
	d.first = true
	d.heard = append(d.heard, fmt.Sprint("first ", number))
}

func (d *taker) Finish(_ pool.Instant, number uint64, _ openai.Usage, clean bool) {
	d.heard = append(d.heard, fmt.Sprintf("end %d %v", number, clean))
}

func (d *taker) Due(now pool.Instant, released []fleet.Answer) ([]fleet.Answer, pool.Instant) {
	if now < d.at || d.at == 0 {
		return released, d.at
	}
	d.at = 0
	if !d.first {
		released = append(released, fleet.Answer{Number: 0, Refused: "evicted"})
	}
	return released, 0
}

func TestRequestsAreTakenBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     pool.Instant
		status fleet.Status
		heard  string
	}{
		{"before the first token", second / 5, fleet.Refused, "[]"},
		{"not after it", second * 3 / 2, fleet.Completed, "[first 0 end 0 true]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &taker{at: tt.at}
			r := run(t, fleet.Options{Pods: pods(t, 1), Decider: d, Source: every(1, 1, 20_000, 200)})
			if o := &r.Outcomes[0]; o.Status != tt.status || o.Status == fleet.Refused && (o.Reason != "evicted" || o.End != tt.at) {
				t.Errorf("%+v, want %v", o, tt.status)
			}
			if got := fmt.Sprint(d.heard); got != tt.heard {
				t.Errorf("the decider heard %s, want %s", got, tt.heard)
			}
		})
	}
}
