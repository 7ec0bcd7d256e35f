package scorers_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestActiveRequest(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewActiveRequest() }, []row{
		{"idle scores 1, the busiest 0", "a in-flight=0; b in-flight=5; c in-flight=10", []float64{1, 0.5, 0}},
		{"nothing in flight anywhere", "a; b", []float64{1, 1}},
		{"all equally busy score 0", "a in-flight=3; b in-flight=3", []float64{0, 0}},
		{"one endpoint alone that is busy", "a in-flight=3", []float64{0}},
		{"one endpoint alone that is idle", "a", []float64{1}},
	})
	check(t, func() plugins.Scorer {
		a := scorers.NewActiveRequest()
		a.IdleThreshold, a.MaxBusyScore = 2, 0.5
		return a
	}, []row{
		// b: (8-4)/8*0.5
		{"at the threshold still idle, above it below maxBusyScore", "a in-flight=2; b in-flight=4; c in-flight=8", []float64{1, 0.25, 0}},
		// a: (4-3)/4*0.5
		{"one beyond the threshold", "a in-flight=3; b in-flight=4", []float64{0.125, 0}},
	})
}

// names are the cases of a parameter that names a producer of counts.
func TestInFlightProducerNames(t *testing.T) {
	for _, r := range []struct{ name, wants, refusal string }{
		{"nobody named", "", ""},
		{"the type, which the books stand for", "inflight-load-producer", ""},
		{"a plugin that is not there", "mine", `inFlightLoadProducerName is "mine", and no plugin of this configuration is an inflight-load-producer`},
	} {
		t.Run(r.name, func(t *testing.T) {
			a, l := scorers.NewActiveRequest(), scorers.NewTokenLoad()
			a.InFlightLoadProducerName, l.InFlightLoadProducerName = r.wants, r.wants
			for _, v := range []any{a, l} {
				_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "it", Type: "it", Construct: func() (any, error) { return v, nil }}}}, nil)
				if (err == nil) != (r.refusal == "") || err != nil && !strings.Contains(err.Error(), r.refusal) {
					t.Errorf("%T: got %v\nwant %s", v, err, r.refusal)
				}
			}
		})
	}
}
