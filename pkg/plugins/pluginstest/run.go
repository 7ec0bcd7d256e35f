package pluginstest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Part is a plugin of a profile. Weight counts for scorers.
type Part struct {
	Name   string
	Plugin any
	Weight float64
}

// Option changes how a world is run.
type Option func(*setup)

type setup struct {
	seed, number uint64
	want         int
	request      func(*plugins.Request)
}

// Number sets the request's number, of which the random streams are a function; 0 without it.
func Number(n uint64) Option { return func(s *setup) { s.number = n } }

// Seed sets the run's seed; 0 without it.
func Seed(n uint64) Option { return func(s *setup) { s.seed = n } }

// Want sets how many endpoints a picker shall return; 1 without it.
func Want(n int) Option { return func(s *setup) { s.want = n } }

// Request has f fill in the request before the run.
func Request(f func(*plugins.Request)) Option { return func(s *setup) { s.request = f } }

// Score returns the scores that a scorer gives the endpoints of a world, in its order, clamped as the framework does.
func Score(t testing.TB, scorer plugins.Scorer, world string, options ...Option) []float64 {
	t.Helper()
	return Run(t, world, []Part{{"it", scorer, 1}}, options...).Raw["it"]
}

// Filter returns the names of the endpoints that a filter leaves of a world, in its order.
func Filter(t testing.TB, filter plugins.Filter, world string, options ...Option) []string {
	t.Helper()
	w := parse(t, world)
	rec := w.run(t, []Part{{"it", filter, 0}}, options...)
	left := []string{}
	for i, e := range w.Endpoints {
		if !slices.Contains(rec.Removed["it"], i) {
			left = append(left, e.Name)
		}
	}
	return left
}

// Pick returns the names of the endpoints that a picker chooses of a world, best first. The world gives each endpoint's
// total score as total=, 0 without it; at most 1.
func Pick(t testing.TB, picker plugins.Picker, world string, options ...Option) []string {
	t.Helper()
	w := parse(t, world)
	totals := &given{}
	for _, e := range w.Endpoints {
		var total float64
		if raw, ok := e.Facts["total"]; ok {
			if err := json.Unmarshal(raw, &total); err != nil {
				t.Fatalf("world %q: total of %s: %v", world, e.Name, err)
			}
			delete(e.Facts, "total")
		}
		totals.scores = append(totals.scores, total)
	}
	return w.picked(w.run(t, []Part{{"totals", totals, 1}, {"it", picker, 0}}, options...))
}

// Choose returns the names of the endpoints that a whole profile chooses of a world, best first.
func Choose(t testing.TB, world string, parts []Part, options ...Option) []string {
	t.Helper()
	w := parse(t, world)
	return w.picked(w.run(t, parts, options...))
}

// Run runs a profile of these parts on a world and returns the record of the run. A picker that takes the first of the
// highest is added where there is none.
func Run(t testing.TB, world string, parts []Part, options ...Option) plugins.ProfileRecord {
	t.Helper()
	return parse(t, world).run(t, parts, options...)
}

func parse(t testing.TB, world string) *World {
	t.Helper()
	w, err := Parse(world)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *World) picked(rec plugins.ProfileRecord) []string {
	names := []string{}
	for _, i := range rec.Picked {
		names = append(names, w.Endpoints[i].Name)
	}
	return names
}

func (w *World) run(t testing.TB, parts []Part, options ...Option) plugins.ProfileRecord {
	t.Helper()
	s := setup{want: 1}
	for _, o := range options {
		o(&s)
	}
	built, err := build(parts)
	if err != nil {
		t.Fatal(err)
	}
	plan := built.Plans[0]
	var r plugins.Request
	r.Prepare(built, nil)
	r.Number, r.PoolIndex = s.number, 0
	if s.request != nil {
		s.request(&r)
	}
	given, err := w.record(plan.FactNames())
	if err != nil {
		t.Fatal(err)
	}
	runs, err := plan.Replay([]plugins.ProfileRecord{given}, &r, s.seed, s.want)
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

// build makes a configuration of one profile of these parts.
func build(parts []Part) (*plugins.Built, error) {
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "default"}},
		Pools:    []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "handler"}},
	}
	add := func(p Part) {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: p.Name, Type: p.Name, Construct: func() (any, error) { return p.Plugin, nil }})
	}
	refer := func(p Part) {
		prof := &spec.Profiles[0]
		prof.Plugins = append(prof.Plugins, plugins.RefSpec{Ref: p.Name, Weight: p.Weight})
	}
	add(Part{"handler", only{}, 0})
	picks := false
	for _, p := range parts {
		add(p)
		refer(p)
		if _, ok := p.Plugin.(plugins.Picker); ok {
			picks = true
		}
	}
	if !picks {
		first := Part{"first", First{}, 0}
		add(first)
		refer(first)
	}
	return plugins.Build(spec, nil, plugins.FactsGiven{})
}

// record writes the world down as what a run has read, so that it can be replayed.
func (w *World) record(reads []string) (plugins.ProfileRecord, error) {
	rec := plugins.ProfileRecord{Profile: "default", RequestFacts: map[string]plugins.Values{}, Facts: map[string]plugins.Values{}}
	columns := map[string][]json.RawMessage{}
	for _, never := range []string{plugins.BookedAfterSample.Name, plugins.InFlightRequests.Name, plugins.InFlightTokens.Name} {
		if slices.Contains(reads, never) { // our own books are never unknown
			columns[never] = slices.Repeat([]json.RawMessage{json.RawMessage("0")}, len(w.Endpoints))
		}
	}
	for i, e := range w.Endpoints {
		rec.Candidates = append(rec.Candidates, plugins.Candidate{
			Name:    "default/" + e.Name,
			Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000),
		})
		for name, value := range e.Facts {
			if columns[name] == nil {
				columns[name] = slices.Repeat([]json.RawMessage{unsaid(name, value)}, len(w.Endpoints))
			}
			columns[name][i] = value
		}
	}
	for name, value := range w.Request {
		if err := put(rec.RequestFacts, reads, name, value); err != nil {
			return rec, err
		}
	}
	for name, column := range columns {
		if err := put(rec.Facts, reads, name, column); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// put enters a fact that somebody reads.
func put(facts map[string]plugins.Values, reads []string, name string, value any) error {
	if !slices.Contains(reads, name) {
		return fmt.Errorf("no plugin here reads the fact %q; they read %q", name, reads)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("fact %q: %w", name, err)
	}
	var v plugins.Values
	err = v.UnmarshalJSON(raw)
	facts[name] = v
	return err
}

// unsaid is what a fact holds for endpoints of which the world does not say it, going by a value that it does say. An
// attribute may have any value, so that a missing one is none.
func unsaid(name string, value json.RawMessage) json.RawMessage {
	if strings.HasPrefix(name, plugins.AttributeNamed("").Name) {
		return json.RawMessage("null")
	}
	if value[0] == '-' || value[0] >= '0' && value[0] <= '9' {
		return json.RawMessage(fmt.Sprint(plugins.Unknown))
	}
	return json.RawMessage("null")
}

// only is the handler of one profile.
type only struct{}

func (only) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	name := c.Profiles()[0]
	chosen := c.Run(name)
	if len(chosen.Endpoints) == 0 {
		return nil, nil
	}
	return append(c.Legs(), plugins.Leg{Profile: name, Result: chosen}), nil
}

// First picks the first candidate with the highest total: no chance in it.
type First struct{}

// Pick appends the index of the first highest total.
func (First) Pick(_ *plugins.Cycle, totals []float64, _ int, best []int) []int {
	at := 0
	for i, v := range totals {
		if v > totals[at] {
			at = i
		}
	}
	return append(best, at)
}

// given scores what the test says.
type given struct{ scores []float64 }

func (g *given) Score(c *plugins.Cycle, out []float64) {
	for i, id := range c.Candidates {
		out[i] = g.scores[id]
	}
}
