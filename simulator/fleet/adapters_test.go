package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Readings tell which adapters run and which wait, by their names, and how many may run.
func TestReadingsNameAdapters(t *testing.T) {
	specs := pods(t, 1)
	specs[0].Options.Adapters, specs[0].Options.MaxLoras = 3, 2
	specs[0].AdapterNames = []string{"cc", "aa", "bb"}
	source := &list{}
	for i := range int32(4) { // adapters 3, 2, 1 and none: the third has no place
		source.requests = append(source.requests, fleet.Request{At: 1 + pool.Instant(i), Prompt: 100, Output: 300, Adapter: 3 - i})
	}
	d := &turns{}
	run(t, fleet.Options{Pods: specs, Decider: d, Source: source, Signals: fleet.Signals{Every: pool.Instant(100 * time.Millisecond)}})
	s := d.observed[1]
	if !slices.Equal(s.Adapters, []string{"aa", "bb"}) || !slices.Equal(s.AdaptersWaiting, []string{"cc"}) || s.AdaptersMax != 2 {
		t.Errorf("running %q, waiting %q, at most %d; want aa and bb, cc, 2", s.Adapters, s.AdaptersWaiting, s.AdaptersMax)
	}
}
