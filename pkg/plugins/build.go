package plugins

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Entry is one line of the catalogue.
type Entry struct {
	Type string
	// New constructs the plugin with its defaults; parameters are decoded into what it returns.
	New func() any
	// Renamed are deprecated names of the type that existing configurations use.
	Renamed []string
	// MakesByDefault names the facts for which a plugin of this type is added when somebody needs one that nobody provides.
	MakesByDefault []string
}

// Plugin makes an entry of the catalogue. construct holds the defaults of the parameters.
func Plugin[P any](typ string, construct func() P) Entry {
	return Entry{Type: typ, New: func() any { return construct() }}
}

// As returns e with further, deprecated type names.
func (e Entry) As(renamed ...string) Entry { e.Renamed = renamed; return e }

// Default returns e as the default producer of the facts with these names.
func (e Entry) Default(facts ...string) Entry { e.MakesByDefault = facts; return e }

// Spec is a configuration as data, decoded and checked in form.
type Spec struct {
	Plugins  []PluginSpec
	Profiles []ProfileSpec
	Pools    []PoolSpec // at least one
	Stages   []string   // names of plugins, in order; nil: all plugins that are stages, in the order of Plugins

	Objectives []Objective
}

// Objective gives the requests that name it a priority.
type Objective struct {
	Name string
	// Priority orders requests: larger goes first, and below 0 may be dropped.
	Priority int32
	// Pool is the only pool where the name has this meaning; empty for every pool.
	Pool string
}

// PluginSpec is one named instance. Construct returns a fresh plugin with its parameters decoded; it may be called
// several times.
type PluginSpec struct {
	Name, Type string
	Construct  func() (any, error)
}

// ProfileSpec names what takes part in a profile.
type ProfileSpec struct {
	Name    string
	Plugins []RefSpec
}

// RefSpec refers to a plugin by name. Weight counts for scorers.
type RefSpec struct {
	Ref    string
	Weight float64
}

// PoolSpec is one pool: the models it serves, the profiles that decide for it and the handler that runs them.
type PoolSpec struct {
	Name     string
	Models   []Model
	Profiles []string
	Handler  string
}

// Model is a name that a pool serves, with further names by which it may be asked for.
type Model struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
}

// Builder is what Provision may ask of. An unmet need is a load error that names both sides.
type Builder struct {
	// Name is the instance's name.
	Name string
	// Pools are the configuration's pools, in order; a plugin that keeps state per endpoint keeps it per pool, by this index.
	Pools []PoolSpec
	// Objectives are those of the configuration, in order.
	Objectives []Objective

	built *Built
	it    *instance
}

// Needs returns the handle of a fact that the plugin cannot do without.
func Needs[H handle[H]](b *Builder, f Fact[H]) H {
	slot := declare(b, f)
	b.it.needs = append(b.it.needs, slot)
	return f.handleAt(slot)
}

// Uses returns the handle of a fact, and whether anybody provides it. Without a provider its values stay unset.
func Uses[H handle[H]](b *Builder, f Fact[H]) (h H, provided bool) {
	slot := declare(b, f)
	b.it.uses = append(b.it.uses, slot)
	if b.built.facts[slot].provided() || b.built.factsGiven() {
		b.it.needs = append(b.it.needs, slot)
		return f.handleAt(slot), true
	}
	return f.handleAt(slot), false
}

// Provides returns the handle of a fact that the plugin fills.
func Provides[H handle[H]](b *Builder, f Fact[H]) H {
	slot := declare(b, f)
	fact := &b.built.facts[slot]
	if fact.provider != nil && fact.provider != b.it {
		b.it.clash = errors.Join(b.it.clash, fmt.Errorf("fact %q is provided by %q as well; keep one of the two", f.Name, fact.provider.name))
	}
	fact.provider = b.it
	b.it.provides = append(b.it.provides, slot)
	return f.handleAt(slot)
}

// Port returns the edge's half of a plugin: a key store, a tokenizer, a ledger. Its calls return at once; answers come by
// Wake. The load fails if the process offers none.
func Port[T any](b *Builder) T {
	for _, p := range b.built.ports {
		if t, ok := p.(T); ok {
			return t
		}
	}
	var none T
	b.it.clash = errors.Join(b.it.clash, fmt.Errorf("this process offers no %T", &none))
	return none
}

// Refer returns the plugin of this configuration with this name, for a plugin whose parameters name others. It is an error if
// there is none, or if it is no T. What it returns may not have been provisioned yet.
func Refer[T any](b *Builder, name string) (T, error) {
	var none T
	it := b.built.find(name)
	if it == nil {
		return none, fmt.Errorf("no plugin is named %q; declare it under plugins", name)
	}
	if t, ok := it.value.(T); ok {
		b.it.refers = append(b.it.refers, it)
		return t, nil
	}
	if p, ok := it.value.(Policy); ok {
		return none, fmt.Errorf("plugin %q (%s) serves as %s; name one that can serve here", name, it.typ, p.Serves())
	}
	return none, fmt.Errorf("plugin %q is of type %s, which cannot serve here", name, it.typ)
}

// Provider returns the name and type of the plugin that provides a fact; ok is false where nobody of the configuration
// does so far.
func Provider[H handle[H]](b *Builder, f Fact[H]) (name, typ string, ok bool) {
	if it := b.built.facts[declare(b, f)].provider; it != nil {
		return it.name, it.typ, true
	}
	return "", "", false
}

func (f Fact[H]) handleAt(slot int32) H {
	var h H
	return h.at(slot)
}

// declare finds or makes the slot of a fact. Slot 0 stays empty, so that a forgotten handle fails at its first use.
func declare[H handle[H]](b *Builder, f Fact[H]) int32 {
	for i := 1; i < len(b.built.facts); i++ {
		if b.built.facts[i].name == f.Name {
			return int32(i)
		}
	}
	slot := int32(len(b.built.facts))
	h := f.handleAt(slot)
	info := factInfo{name: f.Name, unit: f.Unit, source: f.Source, perEndpoint: h.perEndpoint(), newCell: h.cell, reads: f.reads}
	if f.pool != nil {
		info.fill = func(c *Cycle) { f.pool(c, h) }
	}
	if f.request != nil {
		info.describe = func(r *Request) { f.request(r, h) }
	}
	b.built.facts = append(b.built.facts, info)
	return slot
}

type factInfo struct {
	name        string
	unit        string
	source      string
	perEndpoint bool
	newCell     func() cell
	fill        func(*Cycle)
	describe    func(*Request)
	reads       Reads // what of a request describe is made of
	provider    *instance
}

func (f *factInfo) provided() bool { return f.provider != nil || f.fill != nil || f.describe != nil }

type instance struct {
	name, typ string
	value     any
	needs     []int32 // what it reads: what it needs, and what it uses where somebody provides it
	uses      []int32 // what it reads only where somebody provides it
	provides  []int32
	refers    []*instance // those that its parameters name
	clash     error
	warnings  []Warning
	added     bool // by default, not by the configuration
	index     int
}

// Built is a configuration ready to run. It is immutable; plugins inside have their own state.
type Built struct {
	Spec  Spec
	Plans []*Plan // one per pool, in order of Spec.Pools

	// Reads says how much of a request must have come before it can be decided.
	Reads Reads
	// Wants is the union of what the response hooks must see.
	Wants Parts

	instances []*instance
	facts     []factInfo
	ports     []any
	stages    [phases][]*instance
	queue     Queue
	settlers  []*instance
	tickers   []*instance

	promptTokens   RequestValue[int64]
	expectedOutput RequestValue[int64]
	traffic        RequestValue[Traffic]
	cachedTokens   EndpointValues[int64]
	predictedTTFT  EndpointValues[float64]
	predictedITL   EndpointValues[float64]
	ttftTarget     RequestValue[float64]
	itlTarget      RequestValue[float64]

	released sync.Pool // of []cell, the storage of requests that are over
}

// BuildError names the plugin that could not be built.
type BuildError struct {
	Plugin string
	Err    error
}

// Error returns the message: where, what, and what to do.
func (e *BuildError) Error() string { return fmt.Sprintf("plugin %q: %v", e.Plugin, e.Err) }

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// Build makes a configuration run: it constructs the plugins, adds default producers for facts that nobody provides,
// gives every plugin its handles, and lays out the plan of each pool. All problems are returned together, as
// *BuildError where they concern one plugin.
func Build(spec Spec, entries []Entry, ports ...any) (*Built, error) {
	specs := slices.Clone(spec.Plugins)
	given := len(specs)
	for {
		b, missing, err := assemble(spec, specs, given, ports)
		if err != nil {
			return nil, err
		}
		added := false
		for _, m := range missing {
			entry, ok := defaultProducer(entries, m.fact)
			if !ok {
				return nil, &BuildError{m.by, fmt.Errorf("needs the fact %q, which no plugin of this configuration provides", m.fact)}
			}
			if slices.ContainsFunc(specs, func(p PluginSpec) bool { return p.Type == entry.Type }) {
				continue // added in this round for another fact, or one that does not provide it after all
			}
			specs = append(specs, PluginSpec{Name: entry.Type, Type: entry.Type, Construct: func() (any, error) { return entry.New(), nil }})
			added = true
		}
		if len(missing) == 0 {
			if err := b.circle(); err != nil {
				return nil, err
			}
			return b, b.plan()
		}
		if !added {
			return nil, &BuildError{missing[0].by, fmt.Errorf("needs the fact %q; its default producer does not provide it", missing[0].fact)}
		}
	}
}

// FactsGiven is a port that tells Build that facts are put in place from outside, as [Plan.Replay] does: a need that
// no plugin meets is then no error.
type FactsGiven struct{}

func (b *Built) factsGiven() bool {
	return slices.ContainsFunc(b.ports, func(p any) bool { _, given := p.(FactsGiven); return given })
}

type unmet struct{ fact, by string }

// assemble constructs and provisions all plugins once: those that provide facts first, so that Uses tells the truth.
func assemble(spec Spec, specs []PluginSpec, given int, ports []any) (*Built, []unmet, error) {
	b := &Built{Spec: spec, ports: ports, facts: make([]factInfo, 1)}
	var errs []error
	for i, p := range specs {
		v, err := p.Construct()
		if err != nil {
			errs = append(errs, &BuildError{p.Name, err})
			continue
		}
		b.instances = append(b.instances, &instance{name: p.Name, typ: p.Type, value: v, added: i >= given, index: i + 1})
	}
	provision := func(it *instance, told bool) {
		it.needs, it.uses, it.provides, it.refers, it.clash, it.warnings = nil, nil, nil, nil, nil, nil
		if p, ok := it.value.(Provisioner); ok {
			if err := errors.Join(p.Provision(&Builder{Name: it.name, Pools: spec.Pools, Objectives: spec.Objectives, built: b, it: it}), it.clash); err != nil && told {
				errs = append(errs, &BuildError{it.name, err})
			}
		}
	}
	for _, told := range [2]bool{false, true} { // twice, so that who makes facts knows of those that follow
		for _, it := range b.instances {
			if it.makesFacts() {
				provision(it, told)
			}
		}
	}
	for _, it := range b.instances {
		if !it.makesFacts() {
			provision(it, true)
		}
	}
	own := &instance{name: "framework"}
	fb := &Builder{built: b, it: own}
	b.promptTokens = Needs(fb, PromptTokens)
	b.expectedOutput, _ = Uses(fb, ExpectedOutput)
	b.traffic, _ = Uses(fb, Traffics)
	b.cachedTokens, _ = Uses(fb, CachedTokens)
	b.predictedTTFT, _ = Uses(fb, PredictedTTFT)
	b.predictedITL, _ = Uses(fb, PredictedITL)
	b.ttftTarget, b.itlTarget = Needs(fb, TTFTTarget), Needs(fb, ITLTarget)
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	if b.factsGiven() {
		return b, nil, nil
	}
	var missing []unmet
	for _, it := range b.instances {
		for _, slot := range it.needs {
			if f := &b.facts[slot]; !f.provided() {
				missing = append(missing, unmet{f.name, it.name})
			}
		}
	}
	return b, missing, nil
}

func (it *instance) makesFacts() bool {
	switch it.value.(type) {
	case Producer, Describer, Observer:
		return true
	}
	return false
}

func defaultProducer(entries []Entry, fact string) (Entry, bool) {
	for _, e := range entries {
		if slices.Contains(e.MakesByDefault, fact) {
			return e, true
		}
	}
	return Entry{}, false
}

func (b *Built) find(name string) *instance {
	for _, it := range b.instances {
		if it.name == name {
			return it
		}
	}
	return nil
}

// plan lays out stages, hooks and one Plan per pool.
func (b *Built) plan() error {
	var errs []error
	stages := b.Spec.Stages
	if stages == nil {
		for _, it := range b.instances {
			if _, ok := it.value.(Stage); ok {
				stages = append(stages, it.name)
			}
		}
	}
	for _, name := range stages {
		it := b.find(name)
		s, ok := Stage(nil), false
		if it != nil {
			s, ok = it.value.(Stage)
		}
		if !ok {
			errs = append(errs, fmt.Errorf("stages: %q is no plugin that runs before scheduling", name))
			continue
		}
		b.stages[s.Phase()] = append(b.stages[s.Phase()], it)
		b.Reads = max(b.Reads, stageReads(s))
		if q, ok := s.(Queue); ok {
			if b.queue != nil {
				errs = append(errs, fmt.Errorf("stages: %q is a second queue; only one may wait for capacity", name))
			}
			b.queue = q
		}
	}
	for i := range b.Spec.Pools {
		p, err := b.planPool(i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.Plans = append(b.Plans, p)
		b.Reads = max(b.Reads, p.reads)
	}
	for _, it := range b.instances {
		if h, ok := it.value.(ResponseHook); ok {
			b.Wants |= h.Wants()
		}
		if _, ok := it.value.(Settler); ok {
			b.settlers = append(b.settlers, it)
		}
		if _, ok := it.value.(Ticker); ok {
			b.tickers = append(b.tickers, it)
		}
	}
	return errors.Join(errs...)
}

func stageReads(s Stage) Reads {
	if r, ok := s.(BodyReader); ok {
		return r.Reads()
	}
	switch s.Phase() {
	case AtHeaders:
		return ReadsHeaders
	case AtResolve:
		return ReadsModel
	default:
		return ReadsBody
	}
}

// newCells makes storage for all facts of one kind; the slots of the other kind stay nil.
func (b *Built) newCells(perEndpoint bool) []cell {
	cells := make([]cell, len(b.facts))
	for i := 1; i < len(b.facts); i++ {
		if b.facts[i].perEndpoint == perEndpoint {
			cells[i] = b.facts[i].newCell()
		}
	}
	return cells
}

// Queue returns the configuration's queue, or nil.
func (b *Built) Queue() Queue { return b.queue }

// QueueStage returns the index of the queue among the stages at admit.
func (b *Built) QueueStage() int {
	return slices.IndexFunc(b.stages[AtAdmit], func(it *instance) bool { return it.value == any(b.queue) })
}

// Tickers calls yield for each plugin that acts by deadline.
func (b *Built) Tickers(yield func(Ticker) bool) {
	for _, it := range b.tickers {
		if !yield(it.value.(Ticker)) {
			return
		}
	}
}

// Attach gives their pools to the plugins that look at them.
func (b *Built) Attach(pools []*pool.Pool, sink reason.Sink) {
	for _, it := range b.instances {
		if a, ok := it.value.(Attacher); ok {
			a.Attach(pools, sink)
		}
	}
}

// Hear tells of a request that another replica decided; see [Hearer].
func (b *Built) Hear(poolIndex int, now pool.Instant, to pool.Ref, chain []uint64, blockTokens int) {
	for _, it := range b.instances {
		if h, ok := it.value.(Hearer); ok {
			h.Hear(poolIndex, now, to, chain, blockTokens)
		}
	}
}

// PoolIndex returns the index of the pool with this name, or -1.
func (b *Built) PoolIndex(name string) int {
	return slices.IndexFunc(b.Spec.Pools, func(p PoolSpec) bool { return p.Name == name })
}

// PromptTokens returns the request's prompt length as the configuration knows it.
func (b *Built) PromptTokens(r *Request) int64 { return b.promptTokens.Of(r) }

// ExpectedOutput returns how many tokens the request is expected to generate, over all its completions: as a plugin foretells it,
// else what the answers of its pool have on average, where a load model knows. ok is false where nobody says.
func (b *Built) ExpectedOutput(r *Request) (tokens int64, ok bool) {
	if tokens = b.expectedOutput.Of(r); tokens != Unknown {
		return tokens, true
	}
	mean := b.traffic.Of(r).OutputTokens
	if mean <= 0 {
		return 0, false
	}
	completions := int64(1)
	if r.Body != nil {
		completions = max(r.Body.N, 1)
	}
	return int64(math.Ceil(mean)) * completions, true
}

// CachedTokens returns what the last cycle c believes cached of the request's prompt on an endpoint; 0 where nobody says.
func (b *Built) CachedTokens(c *Cycle, id pool.ID) int64 {
	col := b.cachedTokens.Of(c)
	if int(id) >= len(col) {
		return 0
	}
	return max(col[id], 0)
}

// Foreseen is what was expected of a request's latency where it went, in milliseconds, and what its client will wait; Unknown
// where nobody says.
type Foreseen struct{ TTFT, ITL, TTFTTarget, ITLTarget float64 }

// Foreseen returns what the last cycle c expected of the request on an endpoint.
func (b *Built) Foreseen(c *Cycle, r *Request, id pool.ID) Foreseen {
	f := Foreseen{TTFT: Unknown, ITL: Unknown, TTFTTarget: b.ttftTarget.Of(r), ITLTarget: b.itlTarget.Of(r)}
	if col := b.predictedTTFT.Of(c); int(id) < len(col) {
		f.TTFT = col[id]
	}
	if col := b.predictedITL.Of(c); int(id) < len(col) {
		f.ITL = col[id]
	}
	return f
}

// Instance is a plugin of a configuration.
type Instance struct {
	Name, Type string
	Plugin     any
}

// Plugins yields each plugin, in the order of the configuration, those added by default last.
func (b *Built) Plugins(yield func(Instance) bool) {
	for _, it := range b.instances {
		if !yield(Instance{it.name, it.typ, it.value}) {
			return
		}
	}
}

// Instances lists the plugins as "name (type)", those added by default marked, for configuration output.
func (b *Built) Instances() []string {
	var out []string
	for _, it := range b.instances {
		s := it.name
		if it.name != it.typ {
			s += " (" + it.typ + ")"
		}
		if it.added {
			s += " [added: " + strings.Join(b.factNames(it.provides), ", ") + "]"
		}
		out = append(out, s)
	}
	return out
}

func (b *Built) factNames(slots []int32) []string {
	var names []string
	for _, s := range slots {
		names = append(names, b.facts[s].name)
	}
	return names
}
