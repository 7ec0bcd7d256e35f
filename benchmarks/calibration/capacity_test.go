package calibration_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/simulator/engine"
)

// TestCapacityClassesAreThoseOfTheSimulator: what a scheduler expects of a device before it has measured anything is what the
// simulated device is built from.
func TestCapacityClassesAreThoseOfTheSimulator(t *testing.T) {
	p := producers.NewCapacityClass()
	of, err := engine.HardwareFor("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range engine.Devices() {
		c, unknown := p.Class(&pool.Endpoint{Annotations: map[string]string{p.Annotation: h.Name}})
		if unknown != "" {
			t.Errorf("%s: %s, which nobody knows", h.Name, unknown)
			continue
		}
		prefill, decode, memory := h.FLOPS16/of.FLOPS16, h.BytesPerSecond/of.BytesPerSecond, float64(h.MemoryBytes)/float64(of.MemoryBytes)
		slack := 1e-9
		if strings.Contains(h.Name, "-mig-") {
			slack = 0.02 // a slice sees a little less than its eighths of the memory
		}
		if math.Abs(c.Prefill-prefill) > 1e-9 || math.Abs(c.Decode-decode) > 1e-9 || math.Abs(c.Memory-memory) > slack {
			t.Errorf("%s: got %+v, want prefill %.4f, decode %.4f, memory %.4f", h.Name, c, prefill, decode, memory)
		}
	}
}
