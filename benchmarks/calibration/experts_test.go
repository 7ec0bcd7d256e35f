package calibration_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/calibration"
	"github.com/fairlead/fairlead/simulator/engine"
)

// A model with experts is found again from what an engine with other coefficients does: its time between two tokens in every
// stage, and the reading of its experts.
func TestExpertsAreFitted(t *testing.T) {
	start, err := engine.ProfileFor("h100-sxm", "qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	truth := start
	truth.Step.Base = start.Step.Base * 3 / 2
	truth.Step.PerPrefillToken = start.Step.PerPrefillToken * 2
	truth.Step.AllExperts = start.Step.AllExperts * 7 / 10
	var stages []calibration.Stage
	for i, rate := range []float64{0.5, 2, 5, 10, 20, 40} {
		s := calibration.Stage{Name: fmt.Sprint("stage ", i), Offered: rate, Prompt: 512, Output: 64, Uncached: 512, TTFT: 30}
		if s.ITL, s.Served, err = calibration.Play(truth, s, 1); err != nil {
			t.Fatal(err)
		}
		stages = append(stages, s)
	}
	fitted, err := calibration.Fit(start, stages, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		itl, _, err := calibration.Play(fitted, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		if off := itl/s.ITL - 1; math.Abs(off) > 0.1 {
			t.Errorf("%s: the fitted engine takes %.2f ms between tokens, measured %.2f, %+.1f %% off", s.Name, itl, s.ITL, off*100)
		}
	}
	near := func(name string, got, want time.Duration, within float64) {
		if math.Abs(float64(got)/float64(want)-1) > within {
			t.Errorf("%s is %v, was %v in truth; want within %.0f %%", name, got, want, within*100)
		}
	}
	near("the base", fitted.Step.Base, truth.Step.Base, 0.15)
	near("reading all experts", fitted.Step.AllExperts, truth.Step.AllExperts, 0.15)
	if fitted.Sources.Experts.Kind != engine.Fitted {
		t.Errorf("the source of the experts is %+v", fitted.Sources.Experts)
	}

	// Fewer stages leave the reading of the experts as it was derived.
	few, err := calibration.Fit(start, stages[:3], "test")
	if err != nil {
		t.Fatal(err)
	}
	if few.Step.AllExperts != start.Step.AllExperts || few.Sources.Experts.Kind != engine.Derived {
		t.Errorf("three stages make the experts %v, %s", few.Step.AllExperts, few.Sources.Experts.Kind)
	}
}
