package plugins

import (
	"fmt"
	"slices"
	"strings"
)

// Layout is what a configuration became: who runs when, who makes which fact for whom, what is read of a request and seen of
// its answer, each with the plugins that ask for it. It is for output; nothing of it is alive.
type Layout struct {
	Plugins []PluginLayout `json:"plugins"`
	Stages  []StageLayout  `json:"stages"` // in the order in which they run
	Pools   []PoolLayout   `json:"pools"`
	// Reads is what of a request must have come before it is decided; Readers say who asks for how much, beyond the headers.
	Reads   string   `json:"readsOfRequest"`
	Readers []string `json:"readers,omitempty"`
	// Wants says which plugin wants to see what of answers.
	Wants []WantLayout `json:"wantsOfAnswers,omitempty"`
}

// PluginLayout is one plugin. One that no pool runs, and nobody who runs refers to, is idle.
type PluginLayout struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Added bool   `json:"added,omitempty"` // by default, for the facts it makes
	Idle  bool   `json:"idle,omitempty"`
}

// StageLayout is a plugin that runs before scheduling.
type StageLayout struct {
	Plugin string `json:"plugin"`
	Phase  string `json:"phase"`
	Reads  string `json:"readsOfRequest"`
}

// PoolLayout is how one pool decides. The lists are plugins in the order in which they run.
type PoolLayout struct {
	Name          string          `json:"name"`
	Models        []Model         `json:"models,omitempty"` // empty: any model
	Handler       string          `json:"handler"`
	Describers    []string        `json:"describers,omitempty"` // make facts of the request, after it was resolved
	Producers     []string        `json:"producers,omitempty"`  // make facts per endpoint, in each decision
	Observers     []string        `json:"observers,omitempty"`  // look at samples and books
	Admitters     []string        `json:"admitters,omitempty"`  // may refuse a request when its endpoints are known
	Profiles      []ProfileLayout `json:"profiles"`
	RequestHooks  []string        `json:"requestHooks,omitempty"`
	ResponseHooks []string        `json:"responseHooks,omitempty"`
	AttemptHooks  []string        `json:"attemptHooks,omitempty"`
	AnswerHooks   []string        `json:"answerHooks,omitempty"`
	Facts         []FactLayout    `json:"facts"`
}

// ProfileLayout is what runs in a profile: filters one after the other, scorers, the picker.
type ProfileLayout struct {
	Name    string         `json:"name"`
	Filters []string       `json:"filters,omitempty"`
	Scorers []ScorerLayout `json:"scorers,omitempty"`
	Picker  string         `json:"picker"`
}

// ScorerLayout is a scorer with its weight, and the share of all weights that it is.
type ScorerLayout struct {
	Plugin string  `json:"plugin"`
	Weight float64 `json:"weight"`
	Share  float64 `json:"share"`
}

// FactLayout is a fact that somebody of a pool reads.
type FactLayout struct {
	FactUse
	MadeBy string   `json:"madeBy"` // a plugin, or the framework where the source is the pool's or the request's own
	For    []string `json:"for"`
}

// WantLayout is what one plugin wants to see of answers.
type WantLayout struct {
	Plugin string `json:"plugin"`
	Parts  Parts  `json:"-"`
	What   string `json:"what"`
}

// String returns how much of a request it is, for configuration output.
func (r Reads) String() string {
	return [...]string{"headers", "the body up to its model", "the whole body"}[r]
}

// framework is who makes facts that no plugin provides.
const framework = "framework"

// Layout describes the configuration.
func (b *Built) Layout() Layout {
	l := Layout{Reads: b.Reads.String()}
	ran := map[*instance]bool{}
	for phase := range b.stages {
		for _, it := range b.stages[phase] {
			it.runs(ran)
			s := it.value.(Stage)
			reads := stageReads(s)
			l.Stages = append(l.Stages, StageLayout{it.name, s.Phase().String(), reads.String()})
			l.reader(it.name, reads, "a stage at "+s.Phase().String())
		}
	}
	for _, p := range b.Plans {
		l.Pools = append(l.Pools, p.layout(&l, ran))
	}
	for _, it := range b.instances {
		if h, ok := it.value.(ResponseHook); ok && ran[it] && h.Wants() != 0 {
			l.Wants = append(l.Wants, WantLayout{it.name, h.Wants(), h.Wants().String()})
		}
		l.Plugins = append(l.Plugins, PluginLayout{Name: it.name, Type: it.typ, Added: it.added, Idle: !ran[it] && !acts(it)})
	}
	return l
}

// runs marks in ran an instance, and those that it refers to.
func (it *instance) runs(ran map[*instance]bool) {
	if ran[it] {
		return
	}
	ran[it] = true
	for _, other := range it.refers {
		other.runs(ran)
	}
}

// acts reports whether a plugin runs whatever pools there are. A policy runs where another plugin refers to it.
func acts(it *instance) bool {
	switch it.value.(type) {
	case Policy:
		return false
	case Settler, Ticker:
		return !it.makesFacts()
	}
	return false
}

// reader enters who asks for more of a request than its headers, with the first reason of each.
func (l *Layout) reader(name string, reads Reads, why string) {
	text := fmt.Sprintf("%s reads %s: ", name, reads)
	if reads > ReadsHeaders && !slices.ContainsFunc(l.Readers, func(r string) bool { return strings.HasPrefix(r, text) }) {
		l.Readers = append(l.Readers, text+why)
	}
}

// layout describes a pool, enters the readers of bodies, and marks in ran who runs.
func (p *Plan) layout(l *Layout, ran map[*instance]bool) PoolLayout {
	named := func(list []*instance) (out []string) {
		for _, it := range list {
			it.runs(ran)
			out = append(out, it.name)
		}
		return out
	}
	out := PoolLayout{Name: p.Pool.Name, Models: p.Pool.Models, Handler: p.handler.name, Describers: named(p.describers),
		Producers: named(p.producers), Observers: named(p.observers), Admitters: named(p.admitters), RequestHooks: named(p.commits), ResponseHooks: named(p.responds),
		AttemptHooks: named(p.attempts), AnswerHooks: named(p.answers)}
	p.handler.runs(ran)
	for _, prof := range p.profiles {
		pl := ProfileLayout{Name: prof.name, Filters: named(prof.filters), Picker: prof.picker.name}
		prof.picker.runs(ran)
		sum := 0.0
		for _, s := range prof.scorers {
			sum += s.weight
		}
		for _, s := range prof.scorers {
			s.instance.runs(ran)
			share := 0.0
			if sum > 0 {
				share = s.weight / sum
			}
			pl.Scorers = append(pl.Scorers, ScorerLayout{s.name, s.weight, share})
		}
		out.Profiles = append(out.Profiles, pl)
	}
	for _, it := range p.describers {
		l.reader(it.name, ReadsBody, "it makes facts of the prompt")
	}
	out.Facts = p.factLayouts(l, ran)
	return out
}

// factLayouts lists the facts that plugins which run read.
func (p *Plan) factLayouts(l *Layout, ran map[*instance]bool) []FactLayout {
	var out []FactLayout
	for slot := int32(1); slot < int32(len(p.built.facts)); slot++ {
		f := &p.built.facts[slot]
		fl := FactLayout{FactUse: f.use(), MadeBy: framework}
		if f.provider != nil {
			fl.MadeBy = f.provider.name
		}
		for _, it := range p.built.instances {
			if !ran[it] || !slices.Contains(it.needs, slot) || it == f.provider {
				continue
			}
			fl.For = append(fl.For, it.name)
			if f.provider == nil && f.describe != nil {
				l.reader(it.name, f.reads, "it needs "+f.name)
			}
		}
		if len(fl.For) > 0 {
			out = append(out, fl)
		}
	}
	slices.SortFunc(out, func(a, b FactLayout) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// String names the parts, for configuration output.
func (p Parts) String() string {
	s := ""
	for _, part := range [...]struct {
		is   Parts
		name string
	}{{FirstByte, "the first byte"}, {Usage, "the usage"}, {Chunks, "every chunk"}, {Rewrite, "every chunk, to change it"}} {
		if p&part.is == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += part.name
	}
	return s
}
