package scorers_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestRunningRequests(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewRunningRequests() }, []row{
		{"one endpoint alone scores 1", "a running=7", []float64{1}},
		{"all equal score 1", "a running=3; b running=3", []float64{1, 1}},
		{"linear between the smallest and the largest batch", "a running=10; b running=5; c running=0", []float64{0, 0.5, 1}},
		{"own bookings that the sample cannot know add up", "a running=1 booked-after-sample=3; b running=4", []float64{1, 1}},
		{"never scraped counts as the mean", "a running=0; b; c running=10", []float64{1, 0.5, 0}},
		{"all unknown: the bookings in flight decide", "a in-flight=4; b in-flight=2; c", []float64{0, 0.5, 1}},
	})
}
