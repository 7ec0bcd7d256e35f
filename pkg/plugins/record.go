package plugins

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// ProfileRecord is one run of a profile as data: enough to run its filters, scorers and picker again, in a process that
// never saw the pool, and get the same numbers to the bit.
type ProfileRecord struct {
	Profile string `json:"profile"`
	// Candidates are the endpoints before any filter, by "namespace/name" and address.
	Candidates []Candidate `json:"candidates"`
	// RequestFacts and Facts are the values that the profile's plugins read; Facts are columns aligned with Candidates.
	RequestFacts map[string]Values `json:"requestFacts,omitempty"`
	Facts        map[string]Values `json:"facts,omitempty"`
	// Removed are, by filter, indexes into Candidates. Left are the indexes that no filter removed.
	Removed map[string][]int `json:"removed,omitempty"`
	Left    []int            `json:"left"`
	// Raw are, by scorer, the clamped scores before the weight, and Totals their weighted sums; both aligned with Left.
	Raw map[string][]float64 `json:"raw,omitempty"`
	// Explained are, by scorer, lines that say of what each score is made, aligned with Left; only scorers with something to say, and of
	// the explainedMost candidates with the greatest totals: the lines of others are empty.
	Explained map[string][]string `json:"explained,omitempty"`
	Weights   map[string]float64  `json:"weights,omitempty"`
	Totals    []float64           `json:"totals,omitempty"`
	// Picked are indexes into Candidates, best first.
	Picked []int `json:"picked"`
}

// Candidate names an endpoint in a record.
type Candidate struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"`
}

// EndpointName returns "namespace/name" as records and output name an endpoint.
func EndpointName(e *pool.Endpoint) string { return e.Namespace + "/" + e.Name }

func (c *Cycle) begin(prof *profile) ProfileRecord {
	rec := ProfileRecord{Profile: prof.name, Candidates: c.candidates(), Left: []int{}, Picked: []int{}}
	for _, slot := range prof.reads {
		f := &c.plan.built.facts[slot]
		if !f.provided() {
			continue
		}
		if f.perEndpoint {
			put(&rec.Facts, f.name, c.columns[slot].record(c.initial))
		} else {
			put(&rec.RequestFacts, f.name, c.Request.values[slot].recordOne())
		}
	}
	return rec
}

// candidates names the cycle's candidates. Decisions over one membership mostly have the same ones, so that their records
// share the list; nobody modifies it.
func (c *Cycle) candidates() []Candidate {
	if c.namedIn == c.Snapshot && slices.Equal(c.namedIDs, c.initial) {
		return c.named
	}
	c.namedIn, c.namedIDs = c.Snapshot, append(c.namedIDs[:0], c.initial...)
	c.named = make([]Candidate, len(c.initial))
	for i, id := range c.initial {
		e := &c.Snapshot.Slots[id]
		c.named[i] = Candidate{EndpointName(e), e.Addr}
	}
	return c.named
}

func put(m *map[string]Values, name string, v any) {
	if *m == nil {
		*m = map[string]Values{}
	}
	(*m)[name] = Values{v: v}
}

// Values are what a record keeps of a fact: a column, or the single value of the request. They are kept as they are and
// written as JSON only when somebody asks for the record; JSON is exact for what facts hold, integers as digits and floats
// in shortest form. NaN and infinities cannot be said in JSON, and do not stand in facts.
type Values struct {
	v   any
	raw json.RawMessage
}

// MarshalJSON writes the values.
func (v Values) MarshalJSON() ([]byte, error) {
	if v.raw != nil {
		return v.raw, nil
	}
	return json.Marshal(v.v)
}

// UnmarshalJSON keeps the text; it is read when the fact's type is known.
func (v *Values) UnmarshalJSON(text []byte) error {
	v.v, v.raw = nil, append(json.RawMessage(nil), text...)
	return nil
}

func (r *ProfileRecord) remove(by string, id pool.ID, initial []pool.ID) {
	if r.Removed == nil {
		r.Removed = map[string][]int{}
	}
	i, _ := slices.BinarySearch(initial, id)
	r.Removed[by] = append(r.Removed[by], i)
}

func (r *ProfileRecord) score(by string, weight float64, raw []float64) {
	if r.Raw == nil {
		r.Raw, r.Weights = map[string][]float64{}, map[string]float64{}
	}
	r.Raw[by], r.Weights[by] = slices.Clone(raw), weight
}

// explainedMost is of how many candidates scores are put into words. In a large pool the words would cost more than the decision, and nobody
// asks why the fortieth was not taken; its figures are in the record.
const explainedMost = 16

// foremost returns the indexes of the n greatest totals, the greatest first and of equal ones the first.
func foremost(totals []float64, n int) []int {
	found := make([]int, 0, n)
	for i, total := range totals {
		at := len(found)
		for at > 0 && totals[found[at-1]] < total {
			at--
		}
		if at == n {
			continue
		}
		if len(found) < n {
			found = append(found, 0)
		}
		copy(found[at+1:], found[at:])
		found[at] = i
	}
	return found
}

// explain keeps what a scorer says of its scores, once the totals are there.
func (r *ProfileRecord) explain(by string, c *Cycle, x Explainer) {
	lines := make([]string, len(r.Totals))
	for _, i := range foremost(r.Totals, explainedMost) {
		lines[i] = x.Explain(c, i)
	}
	if r.Explained == nil {
		r.Explained = map[string][]string{}
	}
	r.Explained[by] = lines
}

func (r *ProfileRecord) total(left, initial []pool.ID, totals []float64) {
	r.Left = make([]int, len(left))
	for i, id := range left {
		r.Left[i], _ = slices.BinarySearch(initial, id)
	}
	r.Totals = slices.Clone(totals)
}

func (r *ProfileRecord) pick(best []int) {
	for _, i := range best {
		r.Picked = append(r.Picked, r.Left[i])
	}
}

// Replay runs the recorded runs of one decision again from the record alone: the recorded facts are put in place, the
// handler runs the pool's filters, scorers and pickers with the recorded random streams, and the new runs are returned.
// number and seed are the decision's; want is how many endpoints it asked for.
func (p *Plan) Replay(runs []ProfileRecord, r *Request, seed uint64, want int) ([]ProfileRecord, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("the record keeps no profile runs: it was not sampled, or the request was refused before scheduling")
	}
	s := &pool.Snapshot{Version: 1}
	for i, cand := range runs[0].Candidates {
		namespace, name, _ := strings.Cut(cand.Name, "/")
		s.Slots = append(s.Slots, pool.Endpoint{Ref: pool.Ref{ID: pool.ID(i), Incarnation: 1}, Namespace: namespace, Name: name, Addr: cand.Address})
		s.Members = append(s.Members, pool.ID(i))
	}
	c := p.NewCycle(reason.Discard{})
	c.Now, c.Request, c.Snapshot, c.seed, c.Want, c.Record = r.Now, r, s, seed, want, true
	c.initial = slices.Clone(s.Members)
	c.Candidates = c.initial
	for _, col := range c.columns {
		if col != nil {
			col.reset(len(s.Slots))
		}
	}
	for i := range runs {
		if err := c.restore(&runs[i]); err != nil {
			return nil, err
		}
	}
	no := c.guarded(func() {
		c.call(p.handler, pointHandle)
		p.handler.value.(ProfileHandler).Handle(c)
	})
	if no != nil {
		return nil, no
	}
	return c.Trace, nil
}

func (c *Cycle) restore(run *ProfileRecord) error {
	for slot := 1; slot < len(c.plan.built.facts); slot++ {
		f := &c.plan.built.facts[slot]
		var err error
		if f.perEndpoint {
			if v, ok := run.Facts[f.name]; ok {
				var raw json.RawMessage
				if raw, err = v.MarshalJSON(); err == nil {
					err = c.columns[slot].restore(raw, c.initial)
				}
			}
		} else if v, ok := run.RequestFacts[f.name]; ok {
			var raw json.RawMessage
			if raw, err = v.MarshalJSON(); err == nil {
				err = c.Request.values[slot].restoreOne(raw)
			}
		}
		if err != nil {
			return fmt.Errorf("record, profile %q, fact %q: %w", run.Profile, f.name, err)
		}
	}
	return nil
}
