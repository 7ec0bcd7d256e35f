package workload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
)

const plainStream = "requests: 2000\narrivals: {type: poisson, rate: 50}\nindependent: {input: 100, output: {type: exponential, mean: 50, min: 1}}\n"

// Whoever gives up changes nothing of what anybody asks.
func TestAborts(t *testing.T) {
	without := all(t, parse(t, plainStream), 7, time.Second)
	with := all(t, parse(t, plainStream+"aborts: {share: 0.05, after: {type: uniform, min: 1, max: 3}}\nslo: {ttft: 300ms, itl: 20ms}\n"), 7, time.Second)
	if len(with) != len(without) {
		t.Fatalf("%d requests with aborts, %d without", len(with), len(without))
	}
	gaveUp := 0
	for i, r := range with {
		if r.At != without[i].At || r.Output != without[i].Output {
			t.Fatalf("request %d is another one with aborts", i)
		}
		if r.TTFT != 300*time.Millisecond || r.ITL != 20*time.Millisecond {
			t.Fatalf("request %d wants %v and %v", i, r.TTFT, r.ITL)
		}
		if r.GivesUp != 0 {
			gaveUp++
			if r.GivesUp < pool.Instant(time.Second) || r.GivesUp > pool.Instant(3*time.Second) {
				t.Errorf("a client gives up after %v", time.Duration(r.GivesUp))
			}
		}
	}
	near(t, "the share of clients that give up", float64(gaveUp)/2000, 0.05, 0.2)
}

func TestBadAborts(t *testing.T) {
	for text, want := range map[string]string{
		"aborts: {share: 1.5, after: 1}\n":                   "share is 1.5",
		"aborts: {share: 0.1}\n":                             "after is missing",
		"aborts: {share: 0.1, after: {type: lognormal}}\n":   "mean",
		"slo: {ttft: -1s}\n":                                 "may be negative",
		"aborts: {share: 0.1, after: {type: often, min: 1}}": "often",
	} {
		if _, err := workload.Parse([]byte(plainStream + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
