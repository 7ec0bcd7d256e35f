package scorers_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestLoRAAffinity(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewLoRAAffinity() }, []row{
		{"runs, has room, waits, is full", `requested-model=l |
			a running-adapters=["k","l"] waiting-adapters=[] max-adapters=2;
			b running-adapters=["k"] waiting-adapters=[] max-adapters=2;
			c running-adapters=["k"] waiting-adapters=["l"] max-adapters=2;
			d running-adapters=["k"] waiting-adapters=["m"] max-adapters=2`, []float64{1, 0.8, 0.6, 0}},
		{"it runs although the engine is full", `requested-model=l | a running-adapters=["l"] waiting-adapters=["m"] max-adapters=1`, []float64{1}},
		{"no adapter at all is room", `requested-model=l | a running-adapters=[] waiting-adapters=[] max-adapters=1`, []float64{0.8}},
		{"one more than fits is no room", `requested-model=l | a running-adapters=["k"] waiting-adapters=[] max-adapters=1`, []float64{0}},
		{"the maximum is not told: no room", `requested-model=l | a running-adapters=[] waiting-adapters=[] max-adapters=-1`, []float64{0}},
		// (1 + 0)/2
		{"never scraped counts as the mean of those that were", `requested-model=l |
			a running-adapters=["l"] waiting-adapters=[] max-adapters=1; b; c running-adapters=["k"] waiting-adapters=[] max-adapters=1`, []float64{1, 0.5, 0}},
		{"all unknown are equal", "requested-model=l | a; b", []float64{0.5, 0.5}},
		{"all equal", `requested-model=l | a running-adapters=["l"]; b running-adapters=["l"]`, []float64{1, 1}},
		{"a request without a model", `a running-adapters=["l"]; b`, []float64{0, 0}},
	})
}
