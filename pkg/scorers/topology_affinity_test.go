package scorers_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestTopologyAffinity(t *testing.T) {
	const ends = `a locality={"host":"h1","rack":"r1","zone":"z1","region":"g"}; b locality={"host":"h2","rack":"r1","zone":"z1","region":"g"};
		c locality={"host":"h3","rack":"r2","zone":"z1","region":"g"}; d locality={"host":"h4","rack":"r3","zone":"z2","region":"g"};
		e locality={"host":"h5","region":"f"}; f`
	own := func(l *plugins.Locality) func() plugins.Scorer {
		return func() plugins.Scorer { s := scorers.NewTopologyAffinity(); s.Own = l; return s }
	}
	check(t, own(&plugins.Locality{Host: "h1", Rack: "r1", Zone: "z1", Region: "g"}), []row{
		{"each level has its score", ends, []float64{1, 0.2, 0.05, 0.02, 0, 0}},
		{"one endpoint alone", `a locality={"zone":"z1"}`, []float64{0.05}},
	})
	check(t, own(&plugins.Locality{Zone: "z2"}), []row{{"a zone of our own", ends, []float64{0, 0, 0, 0.05, 0, 0}}})
	check(t, own(nil), []row{
		{"nothing to be near to", ends, []float64{0, 0, 0, 0, 0, 0}},
		{"nothing is known of anybody", "a; b", []float64{0, 0}},
	})
}
