package scorers_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestTokenLoad(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewTokenLoad() }, []row{
		{"nothing in flight and no prompt scores 1", "prompt-tokens=0 | a; b", []float64{1, 1}},
		// 1 - 2097152/4194304
		{"half the threshold", "prompt-tokens=0 | a in-flight-tokens=2097152; b in-flight-tokens=4194304; c in-flight-tokens=9000000", []float64{0.5, 0, 0}},
		{"a request whose prompt is not known", "a in-flight-tokens=0", []float64{1}},
	})
	check(t, func() plugins.Scorer { l := scorers.NewTokenLoad(); l.QueueThresholdTokens = 1000; return l }, []row{
		// 1 - (200 + 300)/1000
		{"the request's own prompt counts", "prompt-tokens=300 | a in-flight-tokens=200; b in-flight-tokens=0", []float64{0.5, 0.7}},
		// b: 1 - (0 + 300-200)/1000
		{"what is cached of it does not", "prompt-tokens=300 | a cached-tokens=0; b cached-tokens=200; c cached-tokens=300", []float64{0.7, 0.9, 1}},
		{"all equal", "prompt-tokens=500 | a in-flight-tokens=0; b in-flight-tokens=0", []float64{0.5, 0.5}},
	})
}
