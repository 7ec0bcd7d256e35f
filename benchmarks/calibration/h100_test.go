package calibration_test

import (
	"math"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/calibration"
	"github.com/fairlead/fairlead/simulator/engine"
)

// published are the 21 stages that inference-perf publishes for Llama-3.1-8B in BF16 on one H100 with vLLM 0.11.0
// (demos/kubecon-na-2025): 10 groups of 10 prompts, 128 shared and 64 own tokens in, 64 out. Rates per second, times in ms.
// "none" has no prefix cache and max-num-seqs 128, "none-192" the same with 192, "cache" has a prefix cache and 128.
var published = []struct {
	variant         string
	number          int
	offered, served float64
	ttft, e2e       float64
}{
	{"none", 0, 1.0, 1.0, 31.1, 480},
	{"none", 1, 31.4, 31.2, 29.8, 547},
	{"none", 2, 61.8, 61.2, 34.9, 680},
	{"none", 3, 92.2, 91.4, 50.5, 1021},
	{"none", 4, 106.5, 101.2, 2616.5, 3844},
	{"none", 5, 105.6, 101.5, 2937.1, 4161},
	{"none", 6, 106.5, 103.1, 2943.2, 4143},
	{"none-192", 0, 1.0, 1.0, 33.3, 483},
	{"none-192", 1, 38.0, 37.7, 31.3, 564},
	{"none-192", 2, 74.9, 74.3, 38.6, 764},
	{"none-192", 3, 111.9, 110.8, 146.2, 1698},
	{"none-192", 4, 117.0, 112.9, 2056.4, 3700},
	{"none-192", 5, 117.7, 114.3, 2110.0, 3740},
	{"none-192", 6, 116.3, 113.7, 2200.5, 3797},
	{"cache", 0, 1.0, 1.0, 29.9, 480},
	{"cache", 1, 43.3, 42.9, 26.9, 524},
	{"cache", 2, 85.5, 84.8, 28.9, 579},
	{"cache", 3, 127.8, 126.5, 32.2, 666},
	{"cache", 4, 170.0, 167.8, 101.3, 812},
	{"cache", 5, 175.7, 170.2, 1685.1, 2421},
	{"cache", 6, 177.7, 173.0, 1734.8, 2459},
}

func stages(variants ...string) []calibration.Stage {
	var list []calibration.Stage
	for _, p := range published {
		s := calibration.Stage{
			Name: p.variant + " " + string(rune('0'+p.number)), Offered: p.offered, Served: p.served, TTFT: p.ttft,
			// The reports' own time between tokens is halved, since each token came with an empty chunk that was counted too.
			ITL: (p.e2e - p.ttft) / 63, Prompt: 192, Output: 64, Uncached: 192, MaxSeqs: 128,
		}
		switch p.variant {
		case "none-192":
			s.MaxSeqs = 192
		case "cache":
			s.Uncached = 64
		}
		if len(variants) == 0 || variants[0] == p.variant {
			list = append(list, s)
		}
	}
	return list
}

func h100(t testing.TB) engine.Profile {
	t.Helper()
	p, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTheH100ProfileAgreesWithTheMeasurement plays the workload of each stage through an engine in virtual time. Below
// saturation the mean time between two tokens must agree within 10 %, above it the requests served per second, and with the
// mean load of a stage the formula alone within 7.3 %.
//
// The stages furthest off are the two without a cache at 65 % and 98 % of what 192 requests at a time allow: there that time
// grows fastest with the load.
func TestTheH100ProfileAgreesWithTheMeasurement(t *testing.T) {
	list, err := calibration.Compare(h100(t), stages())
	if err != nil {
		t.Fatal(err)
	}
	var saturated int
	for _, c := range list {
		t.Logf("%-10s saturated %-5v formula %+5.1f %%, engine %+5.1f %%", c.Name, c.Saturated, c.Formula*100, c.Engine*100)
		if math.Abs(c.Formula) > 0.073 || !(math.Abs(c.Engine) <= 0.10) {
			t.Errorf("%s is further off", c.Name)
		}
		if c.Saturated {
			saturated++
		}
	}
	if saturated != 8 {
		t.Errorf("%d stages are saturated, want 3, 3 and 2", saturated)
	}
}

// Fitting finds about what ships, from the published stages alone, and from stages made of a known formula exactly that.
func TestFit(t *testing.T) {
	start := h100(t)
	fitted, err := calibration.Fit(start, stages(), "test")
	if err != nil {
		t.Fatal(err)
	}
	near := func(name string, got, want, within float64) {
		t.Helper()
		if math.Abs(got/want-1) > within {
			t.Errorf("%s is %v, want %v within %v %%", name, got, want, within*100)
		}
	}
	near("base", fitted.Step.Base.Seconds()*1e3, 6.9, 0.05)
	near("per prefill token", fitted.Step.PerPrefillToken.Seconds()*1e6, 29.5, 0.06)
	if fitted.Sources.Base.Kind != engine.Fitted || fitted.Step.ReferenceContext != 224 {
		t.Errorf("%+v", fitted)
	}
	list, err := calibration.Compare(fitted, stages())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if math.Abs(c.Formula) > 0.07 {
			t.Errorf("%s: the fitted formula is %+.1f %% off", c.Name, c.Formula*100)
		}
	}

	for _, c := range []struct {
		name          string
		loads         [][2]float64 // prefill tokens, sequences
		base, prefill float64      // ms
		sequence      float64
	}{
		{"one stage moves the base alone", [][2]float64{{100, 20}}, 5 + 100*0.02 + 20*0.01 - 100*0.031 - 20*0.0052, 0.031, 0.0052},
		{"two move the prefill too", [][2]float64{{100, 20}, {300, 20}}, 5 + 20*0.01 - 20*0.0052, 0.02, 0.0052},
		{"three find all", [][2]float64{{100, 20}, {300, 20}, {10, 100}}, 5, 0.02, 0.01},
		{"equal loads do not tell coefficients apart", [][2]float64{{100, 20}, {100, 20}}, 5 + 100*0.02 + 20*0.01 - 100*0.031 - 20*0.0052, 0.031, 0.0052},
	} {
		var list []calibration.Stage
		for _, l := range c.loads {
			list = append(list, calibration.Stage{ITL: 5 + 0.02*l[0] + 0.01*l[1], Prefill: l[0], Sequences: l[1], Prompt: 1, Output: 2})
		}
		got, err := calibration.Fit(start, list, "test")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		near(c.name+": base", got.Step.Base.Seconds()*1e3, c.base, 1e-4)
		near(c.name+": prefill", got.Step.PerPrefillToken.Seconds()*1e3, c.prefill, 1e-4)
		near(c.name+": sequence", got.Step.PerSequence.Seconds()*1e3, c.sequence, 1e-3)
	}
	if _, err := calibration.Fit(start, nil, ""); err == nil {
		t.Error("fitted to nothing")
	}
}
