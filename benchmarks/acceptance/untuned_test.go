//go:build acceptance

package acceptance_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/traces"
	"github.com/fairlead/fairlead/benchmarks/tuning"
	"github.com/fairlead/fairlead/benchmarks/workload"
)

// within is how far the default may stay behind.
const within = 0.05

// behind is how far the default stays behind a workload's best: the share of goodput that it lacks, and by how much its p99 TTFT is
// longer; of a run past capacity latencies tell nothing.
type behind struct {
	goodput, tail compare.Interval
	saturated     bool
}

func (b behind) holds() bool {
	return b.goodput.High <= within && (b.saturated || b.tail.High <= within)
}

// fails reports whether it certainly is behind by more.
func (b behind) fails() bool {
	return b.goodput.Low > within || !b.saturated && b.tail.Low > within
}

func (b behind) String() string {
	percent := func(i compare.Interval) string {
		return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*i.Mean, 100*i.Low, 100*i.High)
	}
	if b.saturated {
		return fmt.Sprintf("lacks goodput %s, past capacity", percent(b.goodput))
	}
	return fmt.Sprintf("lacks goodput %s, p99 TTFT longer by %s", percent(b.goodput), percent(b.tail))
}

// On each workload that ships, the default, with nothing set, is compared with the best of the configurations that a search found
// for this workload, on seeds that the search has not seen. Published traces are played with SEEDS alone, so that what is claimed
// is the same where they are not at hand.
func TestUntuned(t *testing.T) {
	seeds := 8
	closely := os.Getenv("SEEDS") != ""
	if closely {
		if _, err := fmt.Sscan(os.Getenv("SEEDS"), &seeds); err != nil {
			t.Fatal(err)
		}
	}
	records, err := tuning.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	ours := acceptance.Policies(t, "default")[0]
	good, played := 0, 0
	var open, failed []string
	for _, r := range records {
		s, err := bench.Load(r.Scenario)
		if errors.Is(err, traces.ErrAbsent) || err == nil && !closely && slices.ContainsFunc(s.Requests.Streams, recorded) {
			continue
		}
		played++
		best, err := r.Best[0].Candidate.Policy()
		if err != nil {
			t.Fatal(err)
		}
		runs := acceptance.Play(t, acceptance.Scenario(t, r.Scenario), 1001, seeds, best, ours)
		a, b := runs[0].Figures(), runs[1].Figures()
		less := acceptance.Paired(acceptance.Of(a, acceptance.Goodput), acceptance.Of(b, acceptance.Goodput))
		d := behind{
			goodput:   compare.Interval{Mean: -less.Mean, Low: -less.High, High: -less.Low},
			tail:      acceptance.Paired(acceptance.Of(a, acceptance.TailTTFT), acceptance.Of(b, acceptance.TailTTFT)),
			saturated: most(a) || most(b),
		}
		status := "within 5 %"
		switch {
		case d.holds():
			good++
		case d.fails():
			status = "FAILS"
			failed = append(failed, fmt.Sprintf("%s %v", r.Scenario, d))
		default:
			status = "not certain"
			open = append(open, r.Scenario)
		}
		fmt.Printf("  %s: %s: %v; best of %d is %s\n", r.Scenario, status, d, r.Candidates, r.Best[0].Candidate)
	}
	verdict, more := acceptance.Holds, ""
	if len(open) > 0 {
		verdict, more = acceptance.NotDecided, "; not certain: "+strings.Join(open, ", ")
	}
	if len(failed) > 0 {
		verdict, more = acceptance.Fails, more+"; fails: "+strings.Join(failed, "; ")
	}
	acceptance.Say(t, verdict, "within 5 %% on %d of %d workloads, %d seeds%s", good, played, seeds, more)
}

// recorded reports whether a stream replays a trace.
func recorded(s workload.Stream) bool { return s.Trace != nil }

func most(figures []*bench.Figures) bool {
	n := 0
	for _, f := range figures {
		if f.Saturated {
			n++
		}
	}
	return 2*n > len(figures)
}
