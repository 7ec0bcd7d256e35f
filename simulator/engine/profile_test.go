package engine_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

func profile(t testing.TB, hardware string) engine.Profile {
	t.Helper()
	return profileOf(t, hardware, "llama-3.1-8b")
}

func profileOf(t testing.TB, hardware, model string) engine.Profile {
	t.Helper()
	p, err := engine.ProfileFor(hardware, model)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStepTimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		hardware string
		load     engine.Load
		want     time.Duration
	}{
		{"H100, one decode in a short context: 6.63 ms + 5.2 µs", "h100-sxm", engine.Load{Sequences: 1, Decodes: 1, DecodeContext: 200}, 6_635_200},
		{"H100, 128 decodes at the reference context: 6.63 ms + 128·5.2 µs", "h100-sxm", engine.Load{Sequences: 128, Decodes: 128, DecodeContext: 128 * 224}, 7_295_600},
		{"H100, one decode at 100,224 tokens: 100,000·56 ns more", "h100-sxm", engine.Load{Sequences: 1, Decodes: 1, DecodeContext: 100_224}, 12_235_200},
		{"H100, 1000 tokens of prefill: 1000·31 µs, and 500,500 context tokens at 31 µs/30,632", "h100-sxm", engine.Load{Sequences: 1, PrefillTokens: 1000, PrefillContext: 500_500}, 6_635_200 + 31_000_000 + 506_512},
		{"MIG, 1000 tokens of prefill", "h100-mig-3g.40gb", engine.Load{Sequences: 1, PrefillTokens: 1000, PrefillContext: 500_500}, 13_697_228 + 6160 + 68_667_000 + 1_121_958},
		{"MIG, one decode in a short context", "h100-mig-3g.40gb", engine.Load{Sequences: 1, Decodes: 1, DecodeContext: 10}, 13_703_388},
	} {
		if got := profile(t, c.hardware).Step.Of(c.load); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The terms for attention and long contexts must not move the fit where it was made: prompts of 192 tokens with 64 or all of
// them uncached, outputs of 64, batches up to 192.
func TestStepTimeKeepsTheFit(t *testing.T) {
	step := profile(t, "h100-sxm").Step
	for _, batch := range []int32{1, 8, 32, 64, 128, 192} {
		for _, prefill := range []int32{0, 64, 192, 384} {
			fit := 6.63 + 0.0310*float64(prefill) + 0.0052*float64(batch)
			// Each prompt's tokens attend to at most 192.
			got := step.Of(engine.Load{Sequences: batch, Decodes: batch, DecodeContext: 224 * int64(batch), PrefillTokens: prefill, PrefillContext: 192 * int64(prefill)})
			if off := math.Abs(got.Seconds()*1e3/fit - 1); off > 0.005 {
				t.Errorf("batch %d, prefill %d: %v, the fit says %.3f ms", batch, prefill, got, fit)
			}
		}
	}
}

func TestProfileForNamesWhatThereIs(t *testing.T) {
	for _, c := range []struct{ name, hardware, model, want string }{
		{"unknown hardware", "h100", "llama-3.1-8b", `no hardware "h100"; there is h100-sxm, h100-pcie, h200,`},
		{"unknown model", "h200", "llama-8b", `no model "llama-8b"; there is llama-3.1-8b, llama-3.1-70b,`},
		// 0.9·9.875 GiB = 9.5 GB; 16.1 GB of weights.
		{"a model larger than the slice", "h100-mig-1g.10gb", "llama-3.1-8b", "usable = 9.5 GB; weights take 16.1 GB and the engine 2.7 GB, which leaves -9.2 GB for KV, 0 tokens"},
		{"a model that would need several slices", "h100-mig-3g.40gb", "llama-3.1-70b", "does not fit on 1 x h100-mig-3g.40gb"},
	} {
		if _, err := engine.ProfileFor(c.hardware, c.model); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	full, err := engine.ProfileFor("h100-mig-3g.40gb", "meta-llama/Llama-3.1-8B-Instruct")
	if err != nil || full.MaxBatchedTokens != 2048 || full.MaxSeqs != 256 || full.PeerBytesPerSecond != 0 {
		t.Errorf("got %+v, %v; a slice has the defaults of a small device, and no peers", full, err)
	}
}

// The KV capacities and coefficients that a published study derives by the same formulas, to its own precision.
func TestDerivedProfiles(t *testing.T) {
	for _, c := range []struct {
		hardware, model string
		devices         int32
		tokens          float64 // thousands
		base, prefill   float64 // ms, µs; without exchanges between devices
		context         float64 // ns
		batched, seqs   int32
	}{
		{"h200", "llama-3.1-8b", 1, 897, 4.8, 31, 39, 8192, 1024},
		{"h100-mig-3g.40gb", "llama-3.1-8b", 1, 148, 13.7, 69, 112, 2048, 256},
		{"a100-80", "llama-3.1-8b", 1, 447, 11.3, 99, 92, 2048, 256},
		{"l40s", "llama-3.1-8b", 1, 211, 26.6, 85, 217, 2048, 256},
		{"h100-sxm", "llama-3.1-70b", 4, 480, 15.1, 69, 35, 8192, 1024},
		{"h200", "llama-3.1-70b", 2, 384, 21.0, 137, 49, 8192, 1024},
		{"a100-80", "llama-3.1-70b", 4, 480, 24.7, 218, 57, 2048, 256},
		{"h100-sxm", "qwen3-30b-a3b", 1, 139, 26, 12.8, 42, 8192, 1024},
		{"a100-80", "qwen3-30b-a3b", 1, 139, 42.7, 41, 69, 2048, 256},
		{"l40s", "qwen3-30b-a3b", 2, 269, 50, 17.5, 81, 2048, 256},
		{"h200", "deepseek-r1", 8, 707, 25, 9.0, 21, 8192, 1024},
		{"h100-sxm", "deepseek-r1", 16, 465, 17.9, 4.5, 30, 8192, 1024},
	} {
		p, err := engine.ProfileFor(c.hardware, c.model)
		if err != nil {
			t.Error(err)
			continue
		}
		near := func(what string, got, want float64) {
			if math.Abs(got/want-1) > 0.03 {
				t.Errorf("%s on %s: %s is %.4g, want %.4g", c.model, c.hardware, what, got, want)
			}
		}
		base := p.Step.Base + p.Step.AllExperts
		if c.devices > 1 {
			m, _ := engine.ModelFor(c.model)
			base -= time.Duration(2*m.Layers) * 20 * time.Microsecond
		}
		near("devices", float64(p.TensorParallel), float64(c.devices))
		near("KV tokens", float64(p.Blocks)*float64(p.BlockTokens)/1000, c.tokens)
		near("base", base.Seconds()*1e3, c.base)
		near("prefill", p.Step.PerPrefillToken.Seconds()*1e6, c.prefill)
		near("context", p.Step.PerContextToken.Seconds()*1e9, c.context)
		if p.MaxBatchedTokens != c.batched || p.MaxSeqs != c.seqs {
			t.Errorf("%s on %s: %d tokens and %d requests a step, want %d and %d", c.model, c.hardware, p.MaxBatchedTokens, p.MaxSeqs, c.batched, c.seqs)
		}
	}
}

// 128 experts of which a token uses 8: distinct experts of a layer at batch 1, 4, 8, 16, 32, 64 are 8, 29, 52, 82, 112, 126,
// and the H100's floor is these shares of 17.3 ms beside 0.9 ms.
func TestExpertsTouched(t *testing.T) {
	step := profileOf(t, "h100-sxm", "qwen3-30b-a3b").Step
	for _, c := range []struct {
		tokens  int32
		experts float64
	}{{1, 8}, {4, 29}, {8, 52}, {16, 82}, {32, 112}, {64, 126}, {1000, 128}} {
		got := step.Of(engine.Load{Decodes: c.tokens}) - step.Base
		want := step.AllExperts.Seconds() * c.experts / 128
		if math.Abs(got.Seconds()/want-1) > 0.015 {
			t.Errorf("%d tokens: %v for experts, want %.3f ms", c.tokens, got, want*1e3)
		}
	}
}

func TestEveryFigureHasASource(t *testing.T) {
	profiles := engine.Profiles()
	if len(profiles) < 30 || profiles[0].Hardware != "h100-sxm" || profiles[0].Sources.Base.Kind != engine.Fitted {
		t.Errorf("%d profiles, the first is %s with a %s base", len(profiles), profiles[0].Hardware, profiles[0].Sources.Base.Kind)
	}
	for _, p := range profiles {
		for _, f := range p.Figures() {
			if f.Kind == "" || f.Text == "" || f.Value == "" {
				t.Errorf("%s with %s: %+v", p.Hardware, p.ModelFlag, f)
			}
		}
		if _, err := engine.New(p, engine.Options{}); err != nil {
			t.Error(err)
		}
	}
}
