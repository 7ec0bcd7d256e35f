// Package telemetry asks the endpoints of all pools for their metrics pages and keeps what the engines say as samples.
// It reads of a page only the few series that scheduling needs, under the names of the endpoint's engine.
package telemetry

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/engines"
)

// Reading is what one page says. Its lists are valid until the next Scan, but for those of the Sample.
type Reading struct {
	// Sample has no At. What the page does not have, or has with a value that was rejected, is unknown.
	Sample pool.Sample

	// Series counts the lines of the series that we read. 0: this is no page of the engine.
	Series int

	// Rejected lists the series whose value was rejected.
	Rejected []Rejection

	// Missing lists the series of requests, KV usage and custom attributes that the page should have and has not.
	Missing []string

	// Whole: a line was written in a way that only a parser of whole pages knows, and that one read the page.
	Whole bool
}

// Rejection says which series was taken as unknown although the page has it.
type Rejection struct {
	Series string
	Why    string // the fault, and the value as it stands on the page
}

// Scanner reads pages of one engine. The zero value is ready, for vLLM. It is not safe for concurrent use. Between pages it
// keeps its memory and lists, so that a page like the last one allocates nothing.
type Scanner struct {
	table  *table
	models map[string]bool // see NewScanner

	points   [][]point // by series
	over     []bool    // more than maxLabelSets
	wants    [][]byte  // memory for want
	want     [][]byte  // raw values of the wanted labels of a line, parts of the page; nil where absent
	count    int
	rejected []Rejection
	missing  []string
	strange  bool // a line is in a form that is not known here
	listed   bool // a line is of one of models

	lora       point
	hasLora    bool
	loraSeries int
	lists      [2]adapterList // of those that run and wait
	maxLoras   []byte         // raw label value of the latest line of adapters, part of the page

	customs     []pool.Attribute
	lastCustoms []pool.Attribute // of the page before; handed out, never modified
}

// adapterList is one list of adapters.
type adapterList struct {
	raw     []byte // label value of the latest line, part of the page
	lastRaw []byte // of the page before
	last    []string
}

// point is the value of one label set.
type point struct {
	identity uint64
	ranks    uint64 // the identity without labels of ranks that work on the same requests
	whose    owner
	at       int64
	timed    bool
	fault    fault
	value    float64
	text     []byte // as it stands on the page
}

// owner is the model whose a label set is.
type owner uint8

const (
	unnamed owner = iota // it names no model
	listed
	other
)

// NewScanner returns a Scanner of an engine's pages. Where a page has series of several models, and one of them is among
// models, the series of all others are left out: they are another pool's load. Without such a one everything counts.
func NewScanner(e engines.Engine, models []string) *Scanner { return scannerOf(newTable(e), models) }

func scannerOf(t *table, models []string) *Scanner {
	s := &Scanner{table: t, models: map[string]bool{}}
	for _, m := range models {
		s.models[engines.Escaped(m)] = true
	}
	return s
}

// Scan reads a page. Lines that it does not need are skipped unread, whatever they hold. It takes O(len(page)).
func (s *Scanner) Scan(page []byte) Reading {
	s.lines(page)
	whole := false
	if s.strange {
		if canonical, ok := s.table.canonical(page); ok {
			s.lines(canonical)
			whole = true
		}
	}
	r := s.end()
	r.Whole = whole
	return r
}

func (s *Scanner) lines(page []byte) {
	s.begin()
	for len(page) > 0 {
		line := page
		if end := bytes.IndexByte(page, '\n'); end >= 0 {
			line, page = page[:end], page[end+1:]
		} else {
			page = nil
		}
		// Almost all lines are comments, histogram buckets and counters, which this skips at the price of a look.
		if s.table.mayMatter(line) {
			s.line(line)
		}
	}
}

func (s *Scanner) begin() {
	if s.table == nil {
		s.table = vllm()
	}
	if s.points == nil {
		s.points, s.over = make([][]point, len(s.table.series)), make([]bool, len(s.table.series))
		for _, k := range s.table.lines {
			if len(k.want) > len(s.wants) {
				s.wants = make([][]byte, len(k.want))
			}
		}
	}
	for i := range s.points {
		s.points[i], s.over[i] = s.points[i][:0], false
	}
	s.count, s.rejected, s.missing, s.hasLora, s.strange, s.listed = 0, s.rejected[:0], s.missing[:0], false, false, false
	s.lists[0].raw, s.lists[1].raw, s.maxLoras = nil, nil, nil
}

// line reads a line if it is of a series that we want.
func (s *Scanner) line(line []byte) {
	line = skipBlanks(line)
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	end := 0
	for end < len(line) && line[end] != '{' && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	k := s.table.lines[string(line[:end])]
	if k == nil {
		// A quoted name stands within the braces, and a name may be quoted for no reason.
		s.strange = s.strange || len(line) > 0 && (line[0] == '{' || line[0] == '"')
		return
	}
	if !k.every {
		s.count++
	}
	s.want = s.wants[:len(k.want)]
	clear(s.want)
	set, rest, ok := labels(line[end:], k.want, s.want)
	read := point{identity: set.identity, ranks: set.ranks, fault: unreadable, text: rest}
	if ok {
		read.whose = s.ownerOf(s.want)
		s.listed = s.listed || read.whose == listed
		read.value, read.text, read.at, read.timed, ok = value(rest)
	}
	s.strange = s.strange || !ok
	for i := range k.uses {
		s.use(&k.uses[i], k, read, ok)
	}
}

// ownerOf tells from the first two wanted labels whose a line is.
func (s *Scanner) ownerOf(want [][]byte) owner {
	if len(s.models) == 0 {
		return unnamed
	}
	for _, name := range want[:len(modelLabels)] {
		switch {
		case name == nil:
		case s.models[string(name)]:
			return listed
		default:
			return other
		}
	}
	return unnamed
}

// use takes a line for one of the series that stand in it.
func (s *Scanner) use(u *use, k *kind, p point, ok bool) {
	if ok {
		for _, m := range u.matchers {
			if got := s.want[m.label]; string(got) != m.value || got == nil {
				return
			}
		}
	}
	of := &s.table.series[u.series]
	switch {
	case of.signal == engines.Adapters:
		s.adapters(u, k, p, ok)
		return
	case u.label >= 0 && ok && s.want[u.label] == nil:
		return // it does not say
	case u.label >= 0 && ok:
		if p.text = s.want[u.label]; string(p.text) == "None" { // vLLM's word for what it does not know yet
			return
		}
		p.at, p.timed = 0, false // the label is the value
		p.value, ok = number(p.text)
	}
	if ok {
		p.fault = of.judge(p.value)
	}
	s.put(u.series, p)
}

// adapters reads which adapters have requests, which stands in labels; the value is the time of the change, and every
// combination that ever was stays on the page, so that the latest counts.
func (s *Scanner) adapters(u *use, k *kind, p point, ok bool) {
	if ok {
		p.fault = s.table.series[u.series].judge(p.value)
	}
	if p.fault != sound {
		s.reject(u.series, p.fault, p.text)
		return
	}
	if !s.hasLora || p.value >= s.lora.value {
		s.hasLora, s.lora, s.loraSeries = true, p, u.series
		s.lists[0].raw, s.lists[1].raw, s.maxLoras = s.want[k.wants(loraLabels[0])], s.want[k.wants(loraLabels[1])], s.want[k.wants(loraLabels[2])]
	}
}

// put adds a point. A label set that a page has twice counts once: the newer timestamp, else the later line.
func (s *Scanner) put(of int, p point) {
	have := s.points[of]
	for i := range have {
		if o := &have[i]; o.identity == p.identity {
			if !o.timed || !p.timed || p.at >= o.at {
				*o = p
			}
			return
		}
	}
	if len(have) == maxLabelSets {
		s.over[of] = true
		return
	}
	s.points[of] = append(have, p)
}

func (s *Scanner) reject(of int, why fault, text []byte) {
	const show = 40
	r := Rejection{Series: s.table.series[of].text, Why: why.String()}
	if len(text) > 0 {
		r.Why += ": " + strings.ToValidUTF8(string(text[:min(len(text), show)]), "?")
	}
	s.rejected = append(s.rejected, r)
}

// fold joins the label sets of a series, by sum or by maximum. ok is false if there are none, or if one was rejected: the
// rest of a sum is no sum.
func (s *Scanner) fold(of int, sum bool) (total float64, ok bool) {
	if s.over[of] {
		s.reject(of, tooMany, nil)
		return 0, false
	}
	points := s.ours(of)
	for i := range points {
		p := &points[i]
		switch {
		case p.fault != sound:
			s.reject(of, p.fault, p.text)
			return 0, false
		case sum && covered(points, i):
		case sum:
			total += p.value
		case i == 0:
			total = p.value
		default:
			total = max(total, p.value)
		}
	}
	return total, len(points) > 0
}

// ours returns the label sets of a series, those of foreign models left out.
func (s *Scanner) ours(of int) []point {
	if s.listed {
		s.points[of] = slices.DeleteFunc(s.points[of], func(p point) bool { return p.whose == other })
	}
	return s.points[of]
}

// covered reports whether another rank that works on the same requests reports at least as many of them as the i-th.
func covered(points []point, i int) bool {
	p := &points[i]
	if p.ranks == p.identity {
		return false
	}
	for j := range points {
		if o := &points[j]; o.ranks == p.ranks && j != i && (o.value > p.value || o.value == p.value && j < i) {
			return true
		}
	}
	return false
}

// place returns the first series of a list that the page has, else -1.
func (s *Scanner) place(of []int) int {
	for _, i := range of {
		if len(s.points[i]) > 0 {
			return i
		}
	}
	return -1
}

// signal folds a signal where the page has it.
func (s *Scanner) signal(of engines.Signal, sum bool) (v float64, ok bool) {
	if i := s.place(s.table.places[of]); i >= 0 {
		return s.fold(i, sum)
	}
	return 0, false
}

func (s *Scanner) end() Reading {
	r := Reading{Sample: pool.NoSample(), Series: s.count}
	r.Sample.Waiting = s.sum(engines.Waiting)
	r.Sample.Running = s.sum(engines.Running)
	r.Sample.Blocks = s.sum(engines.Blocks)
	if i := s.place(s.table.places[engines.BlockTokens]); i >= 0 {
		if v, ok := s.fold(i, false); ok {
			r.Sample.BlockTokens = int32(v)
			for _, p := range s.points[i] {
				if p.value != v {
					s.reject(i, differs, p.text)
					r.Sample.BlockTokens = -1
					break
				}
			}
		}
	}
	if v, ok := s.signal(engines.KVUsage, false); ok {
		r.Sample.KVUsage = v
	}
	if v, ok := s.signal(engines.ProcessStart, false); ok && v > 0 {
		r.Sample.ProcessStart = v
	}
	// Where several processes serve one port, the page does not say when they started. The sum of what they took in falls
	// when one of them begins anew.
	if v, ok := s.signal(engines.PromptTokens, true); ok {
		r.Sample.PromptTokens = v
	}
	r.Sample.FirstTokens = s.timed(engines.FirstTokens, engines.FirstTokenSeconds)
	r.Sample.Gaps = s.timed(engines.Gaps, engines.GapSeconds)
	if v, ok := s.signal(engines.Preemptions, true); ok {
		r.Sample.Preemptions = v
	}
	if s.hasLora {
		r.Sample.Adapters, r.Sample.AdaptersWaiting = s.list(&s.lists[0]), s.list(&s.lists[1])
		r.Sample.AdaptersMax = s.mostAdapters()
	}
	r.Sample.Custom = s.attributes()
	s.lookForMissing()
	r.Rejected, r.Missing = s.rejected, s.missing
	return r
}

func (s *Scanner) sum(of engines.Signal) int32 {
	v, ok := s.signal(of, true)
	switch {
	case !ok:
		return -1
	case v > math.MaxInt32:
		s.reject(s.place(s.table.places[of]), beyond, nil)
		return -1
	}
	return int32(v)
}

// timed reads a histogram's count and sum; without either it is unknown.
func (s *Scanner) timed(count, seconds engines.Signal) pool.Timed {
	n, ok := s.signal(count, true)
	sum, known := s.signal(seconds, true)
	if !ok || !known {
		return pool.Timed{Count: -1}
	}
	return pool.Timed{Count: n, Seconds: sum}
}

// lookForMissing notes what a page of the engine should have. Adapters, sizes and counters may be absent by right.
func (s *Scanner) lookForMissing() {
	for _, of := range [...]engines.Signal{engines.Waiting, engines.Running, engines.KVUsage} {
		if places := s.table.places[of]; len(places) > 0 && s.place(places) < 0 {
			s.missing = append(s.missing, s.table.series[places[0]].text)
		}
	}
	for _, c := range s.table.customs {
		if s.place(c.places) < 0 {
			s.missing = append(s.missing, s.table.series[c.places[0]].text)
		}
	}
}

// attributes returns what the configuration has read besides. The list of the page before is returned again if it says
// the same.
func (s *Scanner) attributes() []pool.Attribute {
	if len(s.table.customs) == 0 {
		return nil
	}
	s.customs = s.customs[:0]
	for _, c := range s.table.customs {
		if i := s.place(c.places); i >= 0 {
			if v, ok := s.fold(i, c.sum); ok {
				s.customs = append(s.customs, pool.Attribute{Name: c.key, Value: v})
			}
		}
	}
	if !slices.Equal(s.customs, s.lastCustoms) {
		s.lastCustoms = slices.Clone(s.customs)
	}
	return s.lastCustoms
}

// mostAdapters reads how many different adapters may run at a time; -1 if the line does not say.
func (s *Scanner) mostAdapters() int32 {
	if s.maxLoras == nil {
		return -1
	}
	v, ok := number(s.maxLoras)
	why := unreadable
	if ok {
		most := series{most: maxAdapters, whole: true}
		why = most.judge(v)
	}
	if why != sound {
		s.reject(s.loraSeries, why, s.maxLoras)
		return -1
	}
	return int32(v)
}

// list returns the adapters of one label of the latest line, sorted and each once. The list of the page before is returned
// again if the label is the same.
func (s *Scanner) list(l *adapterList) []string {
	if l.last != nil && bytes.Equal(l.lastRaw, l.raw) {
		return l.last
	}
	l.lastRaw = append(l.lastRaw[:0], l.raw...)
	names := []string{}
	for name := range strings.SplitSeq(string(unquoted(nil, l.raw)), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxAdapters {
		s.reject(s.loraSeries, tooMany, nil)
		l.last = nil
		return nil
	}
	l.last = slices.Clip(names)
	return l.last
}
