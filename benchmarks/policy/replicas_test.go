package policy_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/fleet"
)

func TestReplicas(t *testing.T) {
	spec := conversation(t, 400)
	alone, _ := run(t, "classic", spec, 3, nil)
	one, _ := run(t, "replicas=1:classic", spec, 3, nil)
	four, _ := run(t, "replicas=4:classic", spec, 3, nil)
	again, _ := run(t, "replicas=4:classic", spec, 3, nil)
	if digest(one) != digest(alone) {
		t.Error("one replica decides otherwise than a scheduler alone")
	}
	if digest(four) != digest(again) {
		t.Error("two runs with one seed differ")
	}
	if digest(four) == digest(alone) {
		t.Error("four replicas decide as one does; each should know a quarter of the bookings alone")
	}
	for i := range four.Outcomes {
		if o := &four.Outcomes[i]; o.Status != fleet.Completed {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}

func TestBadReplicas(t *testing.T) {
	for name, want := range map[string]string{
		"replicas=4":         "want replicas=N:NAME",
		"replicas=0:default": "from 1 to 64",
		"replicas=x:default": "want replicas=N:NAME",
		"replicas=2:nobody":  `"nobody"`,
	} {
		if _, err := policy.Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

// After clients went away at any point, nothing is left, and Left says so.
func TestNothingIsLeft(t *testing.T) {
	_, d := run(t, policy.Default, conversation(t, 200), 1, nil)
	if left := d.(*policy.Production).Left(); left != "" {
		t.Errorf("left: %s", left)
	}
	_, d = run(t, policy.Default, conversation(t, 200), 1, func(o *fleet.Options) { o.Until = 20e9 })
	if left := d.(*policy.Production).Left(); !strings.Contains(left, "bookings") || !strings.Contains(left, "decode tokens") {
		t.Errorf("in the middle of a run is left: %q", left)
	}
}
