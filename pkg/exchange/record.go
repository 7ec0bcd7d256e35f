package exchange

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// Record is a decision as data. Two adapters given the same exchange, seed and clock differ in Transport alone. A Record
// that was handed out is never modified.
type Record struct {
	ID     string    `json:"id"`
	Config string    `json:"config"` // digest of the effective configuration, which the ring keeps once
	Number uint64    `json:"number"`
	Seed   uint64    `json:"seed"`
	At     time.Time `json:"at"`

	API          string         `json:"api"`
	Target       plugins.Target `json:"target"`
	FairnessID   string         `json:"fairnessID,omitempty"`
	Objective    string         `json:"objective,omitempty"`
	PromptTokens int64          `json:"promptTokens"`
	Want         int            `json:"want"`

	Queue    *plugins.Stay           `json:"queue,omitempty"`      // nil if it did not wait
	Second   *SecondLook             `json:"secondLook,omitempty"` // nil if it was decided at one look
	Profiles []plugins.ProfileRecord `json:"profiles,omitempty"`   // empty when the decision was not sampled
	Legs     []LegRecord             `json:"legs,omitempty"`

	Refused *RefusalRecord   `json:"refused,omitempty"`
	Outcome *plugins.Outcome `json:"outcome,omitempty"` // nil while the request runs

	Reasons   []string          `json:"reasons,omitempty"`
	Transport map[string]string `json:"transport,omitempty"`
}

// LegRecord is one leg by names: its primary, then fallbacks.
type LegRecord struct {
	Profile         string              `json:"profile"`
	Endpoints       []plugins.Candidate `json:"endpoints"`
	UncachedPrefill int64               `json:"uncachedPrefillTokens"` // as booked
}

// RefusalRecord is the reason of a refusal as the client saw it.
type RefusalRecord struct {
	Code   string `json:"code"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Document is what /debug/decisions/ID serves and `explain` reads: a record with the configuration that it refers to.
type Document struct {
	Record        Record `json:"record"`
	Configuration string `json:"configuration"`
}

// ring keeps the last records by ID, and each configuration text that one of them refers to.
type ring struct {
	mu      sync.Mutex
	size    int
	order   []string // IDs, oldest at next
	next    int
	byID    map[string]*Record
	configs map[string]string
}

func newRing(size int) *ring {
	return &ring{size: size, byID: map[string]*Record{}, configs: map[string]string{}}
}

// configsKept is how many texts of configurations are kept without a look at which of them a record refers to still.
const configsKept = 8

// put stores rec in place of an older record of its ID, or of the oldest; config is the text that it refers to.
func (g *ring) put(rec *Record, config string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.size == 0 {
		return
	}
	switch _, known := g.byID[rec.ID]; {
	case known:
	case len(g.order) < g.size:
		g.order = append(g.order, rec.ID)
	default:
		delete(g.byID, g.order[g.next])
		g.order[g.next] = rec.ID
		g.next = (g.next + 1) % g.size
	}
	g.byID[rec.ID] = rec
	if _, known := g.configs[rec.Config]; !known {
		g.configs[rec.Config] = config
		g.prune()
	}
}

// prune drops texts of configurations that no record refers to.
func (g *ring) prune() {
	if len(g.configs) <= configsKept {
		return
	}
	used := map[string]bool{}
	for _, rec := range g.byID {
		used[rec.Config] = true
	}
	maps.DeleteFunc(g.configs, func(digest, _ string) bool { return !used[digest] })
}

// update replaces the record of an ID, if the ring still keeps it, by what f makes of a copy.
func (g *ring) update(id string, f func(*Record)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old, ok := g.byID[id]; ok {
		rec := *old
		f(&rec)
		g.byID[id] = &rec
	}
}

// Decision returns the record of an ID with its configuration, if the ring still keeps it.
func (s *Scheduler) Decision(id string) (Document, bool) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	rec, ok := s.ring.byID[id]
	if !ok {
		return Document{}, false
	}
	return Document{Record: *rec, Configuration: s.ring.configs[rec.Config]}, true
}

// Decisions returns the IDs that the ring keeps, newest first.
func (s *Scheduler) Decisions() []string {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	n := len(s.ring.order)
	ids := make([]string, 0, n)
	for i := range n {
		ids = append(ids, s.ring.order[(s.ring.next+n-1-i)%n])
	}
	return ids
}

// sampled reports whether the columns of this decision are kept.
func (s *Scheduler) sampled(number uint64) bool {
	return s.o.RecordEvery > 0 && number%uint64(s.o.RecordEvery) == 0
}

// record makes the exchange's record as far as it is known.
func (x *Exchange) record() *Record {
	r := &x.r
	rec := &Record{
		ID: x.ID, Config: x.s.o.ConfigDigest, Number: r.Number, Seed: x.s.o.Seed,
		At:  x.s.o.Epoch.Add(time.Duration(x.began)).UTC(),
		API: r.API.String(), Target: r.Target, FairnessID: strings.Clone(r.FairnessID), Objective: strings.Clone(r.Objective), PromptTokens: openai.Unknown, Want: x.want,
		Queue: r.Stay, Second: x.second, Profiles: x.trace, Outcome: x.outcome, Reasons: slices.Clone(x.reasons), Transport: x.transport,
	}
	if r.PoolIndex >= 0 {
		rec.PromptTokens = x.s.o.Built.PromptTokens(r)
	}
	for _, leg := range x.legs {
		l := LegRecord{Profile: leg.profile, UncachedPrefill: leg.load.UncachedPrefill}
		for j := range leg.refs {
			l.Endpoints = append(l.Endpoints, plugins.Candidate{Name: leg.names[j], Address: leg.addrs[j]})
		}
		rec.Legs = append(rec.Legs, l)
	}
	if x.refusal != nil {
		row := x.refusal.ID.Row()
		rec.Refused = &RefusalRecord{Code: row.Code, Status: row.Status, Detail: x.refusal.Detail}
	}
	return rec
}
