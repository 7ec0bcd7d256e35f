package telemetry

import (
	"slices"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/pkg/pool/engines"
)

// The ranges outside of which a value is rejected. They are far beyond what an engine can hold.
const (
	maxRequests    = 1_000_000   // of one engine
	maxBlocks      = 100_000_000 // of one engine
	maxBlockTokens = 65_536
	maxTokens      = 1e18 // that one process ever took in; likewise of all that it counts
	maxLabelSets   = 256  // of one series, more than any number of ranks and models behind one page
	maxAdapters    = 1_024
)

// custom is the signal of what a configuration has read besides.
const custom = engines.NumSignals

// series is one place of a page that is read.
type series struct {
	signal engines.Signal // or custom
	text   string         // as rejections call it
	most   float64        // the largest value; 0: none is too large
	whole  bool           // the value is a whole number
	any    bool           // the value may be negative
}

// use is what one line is read for.
type use struct {
	series   int
	label    int // index into the wanted labels, -1 for the line's value
	matchers []rawMatcher
}

// rawMatcher demands a value of a wanted label, as it stands between the quotes.
type rawMatcher struct {
	label int
	value string
}

// kind is how lines of one name are read.
type kind struct {
	want  []string // labels
	uses  []use
	lora  bool
	every bool // a series that every program has: it does not make a page an engine's
}

// The labels that are wanted first of every line, and first of those of adapters.
var (
	modelLabels = []string{"model_name", "model"}
	loraLabels  = []string{"running_lora_adapters", "waiting_lora_adapters", "max_lora"}
)

// rankLabels are labels of ranks that work on the same requests: what they report counts once.
var rankLabels = []string{"tp_rank", "pp_rank", "moe_ep_rank"}

// ratios are the endings of names whose values are shares or levels: of several label sets the highest counts, while
// others are summed.
var ratios = []string{"_perc", "_percent", "_ratio", "_usage", "_utilization", "_fraction"}

// table is how pages of one engine are read. It is immutable.
type table struct {
	engine  engines.Engine
	series  []series
	places  [engines.NumSignals][]int // by signal, the first that a page has counts
	customs []customPlace             // sorted by key
	lines   map[string]*kind
	first   [256]*prefix
}

// customPlace is where an attribute stands: under the name asked for, else under the other spelling of a counter.
type customPlace struct {
	key    string
	places []int
	sum    bool
}

// prefix tells from two bytes of a line that none of the names with its first byte can follow, as is the case of almost
// all: of those names it has the length of what they all begin with, and the bytes that come next.
type prefix struct {
	at   int
	next [256]bool
}

// vllm is the table of a Scanner that nobody gave one.
var vllm = sync.OnceValue(func() *table { return newTable(engines.Builtin()[0]) })

func newTable(e engines.Engine) *table {
	t := &table{engine: e, lines: map[string]*kind{}}
	for signal := range engines.NumSignals {
		for _, source := range e.Reads[signal] {
			names := []string{source.Name}
			if signal == engines.PromptTokens || signal == engines.Preemptions {
				names = spellings(source.Name)
			}
			for _, name := range names {
				source.Name = name
				t.places[signal] = append(t.places[signal], t.add(signal, source))
			}
		}
	}
	for _, c := range e.Custom {
		place := customPlace{key: c.Key, sum: !slices.ContainsFunc(ratios, func(end string) bool { return strings.HasSuffix(c.Name, end) })}
		for _, name := range spellings(c.Name) {
			place.places = append(place.places, t.add(custom, engines.Source{Spec: engines.Spec{Name: name, Matchers: c.Matchers}}))
		}
		t.customs = append(t.customs, place)
	}
	slices.SortFunc(t.customs, func(a, b customPlace) int { return strings.Compare(a.key, b.key) })
	names := map[byte][]string{}
	for name := range t.lines {
		names[name[0]] = append(names[name[0]], name)
	}
	for first, of := range names {
		p := &prefix{at: len(of[0])}
		for _, name := range of[1:] {
			n := 0
			for n < min(p.at, len(name)) && name[n] == of[0][n] {
				n++
			}
			p.at = n
		}
		for _, name := range of {
			if p.at < len(name) {
				p.next[name[p.at]] = true
				continue
			}
			for _, c := range "{ \t\r" { // the name itself is the whole of what they all begin with
				p.next[c] = true
			}
		}
		t.first[first] = p
	}
	return t
}

// spellings returns the name of a series and its other one, if it is a counter: text ends it in _total, which older and
// newer libraries leave out.
func spellings(name string) []string {
	if base, ok := strings.CutSuffix(name, "_total"); ok {
		return []string{name, base}
	}
	return []string{name, name + "_total"}
}

// add has a source read, and returns the index of its series.
func (t *table) add(signal engines.Signal, source engines.Source) int {
	index := len(t.series)
	s := series{signal: signal, text: source.String()}
	switch signal {
	case engines.Waiting, engines.Running:
		s.most, s.whole = maxRequests, true
	case engines.Blocks:
		s.most, s.whole = maxBlocks, true
	case engines.BlockTokens:
		s.most, s.whole = maxBlockTokens, true
	case engines.KVUsage:
		s.most = 1
	case engines.PromptTokens, engines.FirstTokens, engines.FirstTokenSeconds, engines.Gaps, engines.GapSeconds, engines.Preemptions:
		s.most = maxTokens
	case custom:
		s.any = true
	}
	t.series = append(t.series, s)
	k := t.lines[source.Name]
	if k == nil {
		k = &kind{want: slices.Clone(modelLabels), every: true}
		t.lines[source.Name] = k
	}
	k.every = k.every && signal == engines.ProcessStart
	u := use{series: index, label: -1}
	if source.Label != "" {
		u.label = k.wants(source.Label)
	}
	for _, m := range source.Matchers {
		u.matchers = append(u.matchers, rawMatcher{k.wants(m.Label), engines.Escaped(m.Value)})
	}
	if signal == engines.Adapters {
		k.lora = true
		for _, label := range loraLabels {
			k.wants(label)
		}
	}
	k.uses = append(k.uses, u)
	return index
}

// wants returns the index of a wanted label.
func (k *kind) wants(label string) int {
	if i := slices.Index(k.want, label); i >= 0 {
		return i
	}
	k.want = append(k.want, label)
	return len(k.want) - 1
}

// mayMatter reports whether a line may be of a series that is read. Blanks at its start and quoted names are left to a
// closer look.
func (t *table) mayMatter(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	switch line[0] {
	case ' ', '\t', '{', '"':
		return true
	}
	p := t.first[line[0]]
	if p == nil {
		return false
	}
	return len(line) <= p.at || p.next[line[p.at]]
}

// fault says why a value was rejected.
type fault uint8

const (
	sound fault = iota
	unreadable
	notFinite
	negative
	beyond
	notWhole
	differs
	tooMany
)

func (f fault) String() string {
	return [...]string{
		sound: "sound", unreadable: "cannot be read", notFinite: "is not finite", negative: "is negative",
		beyond: "is larger than any engine's", notWhole: "is not a whole number", differs: "differs between ranks",
		tooMany: "has too many label sets",
	}[f]
}

// judge returns whether v may be a value of s.
func (s *series) judge(v float64) fault {
	switch {
	case v-v != 0: // NaN and the infinities
		return notFinite
	case v < 0 && !s.any:
		return negative
	case s.most != 0 && v > s.most:
		return beyond
	case s.whole && v != float64(int64(v)):
		return notWhole
	}
	return sound
}
