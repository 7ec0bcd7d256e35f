package plugins_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// gate refuses where no endpoint is predicted to take less than so many milliseconds.
type gate struct {
	reads
	most float64
}

func (g *gate) Admit(c *plugins.Cycle) *reason.Refusal {
	for _, id := range c.Candidates {
		if g.ttft.Of(c)[id] <= g.most {
			return nil
		}
	}
	return reason.Refuse(reason.DroppedEarly, "too slow")
}

// An admitter in no profile has the facts that it reads made, is asked before profiles run about the candidates that are left, and
// its refusal is the decision's.
func TestAnAdmitterRefusesBeforeProfilesRun(t *testing.T) {
	for _, r := range []struct {
		name    string
		most    float64
		refused bool
	}{{"one is fast enough", 1, false}, {"none is", 0, true}} {
		t.Run(r.name, func(t *testing.T) {
			s := &seer{}
			w := newWorld(t, configure(named{"picker", first{}}, named{"seer", s}, named{"gate", &gate{most: r.most}}).mustBuild(t), 3)
			if got := w.built.Layout().Pools[0].Admitters; !slices.Equal(got, []string{"gate"}) {
				t.Errorf("admitters %v", got)
			}
			w.among = func(e *pool.Endpoint) bool { return e.ID > 0 }
			legs, no := w.decide()
			if refused := no != nil && no.ID == reason.DroppedEarly; refused != r.refused || refused != (len(legs) == 0) || refused != (len(s.chosen) == 0) {
				t.Errorf("%v, legs %v, chosen %v", no, legs, s.chosen)
			}
		})
	}
}
