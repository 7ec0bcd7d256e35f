package plugins_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// seer predicts that an endpoint takes as many milliseconds as its id, and keeps what is chosen.
type seer struct {
	ttft    plugins.EndpointValues[float64]
	chosen  []pool.ID
	foresaw []float64
	booked  int
}

func (s *seer) Provision(b *plugins.Builder) error {
	s.ttft = plugins.Provides(b, plugins.PredictedTTFT)
	return nil
}

func (s *seer) Produce(c *plugins.Cycle) {
	for _, id := range c.Candidates {
		s.ttft.Of(c)[id] = float64(id)
	}
}

func (s *seer) Chosen(c *plugins.Cycle, books *pool.Books, legs []plugins.Leg) {
	id := legs[0].Endpoints[0]
	s.chosen, s.foresaw = append(s.chosen, id), append(s.foresaw, s.ttft.Of(c)[id])
	s.booked += int(books.Requests[id])
}

// reads scores by a fact, so that its provider takes part.
type reads struct {
	ttft plugins.EndpointValues[float64]
}

func (r *reads) Provision(b *plugins.Builder) error {
	r.ttft = plugins.Needs(b, plugins.PredictedTTFT)
	return nil
}

func (r *reads) Score(c *plugins.Cycle, out []float64) {
	for i, id := range c.Candidates {
		out[i] = r.ttft.Of(c)[id] / 10
	}
}

func TestAWitnessSeesTheDecisionBeforeItIsBooked(t *testing.T) {
	s := &seer{}
	c := configure(named{"picker", first{}}, named{"seer", s}, named{"reads", &reads{}})
	c.refer("reads", 1)
	w := newWorld(t, c.mustBuild(t), 3)
	w.mustDecide(t)
	if !slices.Equal(s.chosen, []pool.ID{2}) || s.foresaw[0] != 2 || s.booked != 0 {
		t.Errorf("chosen %v, foreseen %v, booked %d", s.chosen, s.foresaw, s.booked)
	}
	if f := w.built.Foreseen(w.cycle, &w.request, 2); f != (plugins.Foreseen{TTFT: 2, ITL: plugins.Unknown, TTFTTarget: plugins.Unknown, ITLTarget: plugins.Unknown}) {
		t.Errorf("foreseen for the last endpoint: %+v", f)
	}
	c = configure(named{"picker", first{}}, named{"none", without(0, 1, 2)}, named{"seer", s}, named{"reads", &reads{}})
	c.refer("none", 1)
	c.refer("reads", 1)
	w = newWorld(t, c.mustBuild(t), 3)
	if _, no := w.decide(); no == nil || no.ID != reason.AllFiltered || len(s.chosen) != 1 {
		t.Errorf("%v, and %d were witnessed", no, len(s.chosen))
	}
}

func TestTargetsComeFromHeaders(t *testing.T) {
	const none = plugins.Unknown
	for _, r := range []struct {
		name      string
		headers   openai.Headers
		ttft, itl float64
		odd       bool
	}{
		{"no header", nil, none, none, false},
		{"both", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "500"}, {Name: "x-llm-d-slo-tpot-ms", Value: "22.5"}}, 500, 22.5, false},
		{"the older names", openai.Headers{{Name: "x-slo-ttft-ms", Value: "500"}, {Name: "x-slo-tpot-ms", Value: "20"}}, 500, 20, false},
		{"the newer name wins", openai.Headers{{Name: "x-slo-ttft-ms", Value: "1"}, {Name: "x-llm-d-slo-ttft-ms", Value: "500"}}, 500, none, false},
		{"no number", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "soon"}}, none, none, true},
		{"with a unit", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "500ms"}}, none, none, true},
		{"nothing to wait", openai.Headers{{Name: "x-llm-d-slo-tpot-ms", Value: "0"}}, none, none, true},
		{"less than nothing", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "-5"}}, none, none, true},
		{"not a number", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "NaN"}}, none, none, true},
		{"so large that it would overflow", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "9223372036854775807"}}, none, none, true},
		{"infinite", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "Inf"}}, none, none, true},
		{"beyond what a float holds", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "1e999"}}, none, none, true},
		{"a day", openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "86400000"}}, 86400000, none, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, configure(named{"picker", first{}}).mustBuild(t), 1)
			w.request.Headers = r.headers
			w.mustDecide(t)
			if f := w.built.Foreseen(w.cycle, &w.request, 0); f.TTFTTarget != r.ttft || f.ITLTarget != r.itl {
				t.Errorf("got %g and %g, want %g and %g", f.TTFTTarget, f.ITLTarget, r.ttft, r.itl)
			}
			if odd := plugins.OddTarget(&w.request); odd != r.odd {
				t.Errorf("odd %v, want %v", odd, r.odd)
			}
		})
	}
}
