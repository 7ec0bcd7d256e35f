// Package telemetry asks the endpoints of all pools for their metrics pages and keeps what the engines say as samples.
// It knows the dialect of vLLM, and reads of a page only the few series that scheduling needs.
package telemetry

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Reading is what one page says.
type Reading struct {
	// Sample has no At and no Custom. What the page does not have, or has with a value that was rejected, is unknown.
	Sample pool.Sample

	// Series counts the lines of the series that we read. 0: this is no page of a vLLM.
	Series int

	// Rejected lists the series whose value was rejected. It is valid until the next Scan.
	Rejected []Rejection
}

// Rejection says which series was taken as unknown although the page has it.
type Rejection struct {
	Series string
	Why    string // the fault, and the value as it stands on the page
}

// Scanner reads pages of one engine. The zero value is ready. It is not safe for concurrent use. Between pages it keeps
// its memory and the list of adapters, so that a page like the last one allocates nothing.
type Scanner struct {
	points   [allSeries][]point
	over     [allSeries]bool // more than maxLabelSets
	count    int
	rejected []Rejection

	lora     point
	hasLora  bool
	lists    [2]adapterList // of those that run and wait
	maxLoras []byte         // raw label value of the latest line of lora_requests_info, part of the page
}

// adapterList is one list of adapters in lora_requests_info.
type adapterList struct {
	raw     []byte // label value of the latest line, part of the page
	lastRaw []byte // of the page before
	last    []string
}

// point is the value of one label set.
type point struct {
	identity uint64
	at       int64
	timed    bool
	fault    fault
	value    float64
	text     []byte // as it stands on the page
}

// Scan reads a page. Lines that it does not need are skipped unread, whatever they hold. It takes O(len(page)).
func (s *Scanner) Scan(page []byte) Reading {
	s.begin()
	for len(page) > 0 {
		line := page
		if end := bytes.IndexByte(page, '\n'); end >= 0 {
			line, page = page[:end], page[end+1:]
		} else {
			page = nil
		}
		// Almost all lines are comments, histogram buckets and counters, which this skips at the price of a look.
		if len(line) < len(nameUsage) || !mayMatter(line[0], line[len("vllm:")]) {
			continue
		}
		s.line(line)
	}
	return s.end()
}

// mayMatter looks at the first letter of a line and of what follows "vllm:". A line may begin with blanks.
func mayMatter(first, sixth byte) bool {
	switch first {
	case 'v':
		switch sixth {
		case 'n', 'k', 'g', 'c', 'l', 'p': // num_, kv_, gpu_, cache_, lora_, prompt_
			return true
		}
		return false
	case 'p', ' ', '\t':
		return true
	}
	return false
}

func (s *Scanner) begin() {
	for i := range s.points {
		s.points[i] = s.points[i][:0]
	}
	s.over = [allSeries]bool{}
	s.count, s.rejected, s.hasLora = 0, s.rejected[:0], false
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
	rest := line[end:]
	switch string(line[:end]) {
	case nameWaiting:
		s.gauge(waiting, rest)
	case nameRunning:
		s.gauge(running, rest)
	case nameUsage:
		s.gauge(usage, rest)
	case nameUsageLegacy:
		s.gauge(usageLegacy, rest)
	case nameProcessStart:
		s.gauge(processStart, rest)
		return // every program has it
	case namePromptTokens:
		s.gauge(promptTokens, rest)
	case nameCacheConfig:
		s.config(rest)
	case nameAdapters:
		s.adapters(rest)
	default:
		return
	}
	s.count++
}

func (s *Scanner) gauge(of series, rest []byte) {
	set, rest, ok := labels(rest, &[wantedLabels]string{})
	p := point{identity: set.identity, fault: unreadable, text: rest}
	if ok {
		p.value, p.text, p.at, p.timed, ok = value(rest)
	}
	if ok {
		p.fault = judge(of, p.value)
	}
	s.put(of, p)
}

// config reads the size of the cache, which stands in labels. vLLM writes None for what it does not know yet.
func (s *Scanner) config(rest []byte) {
	set, _, ok := labels(rest, &[wantedLabels]string{"num_gpu_blocks", "block_size"})
	if !ok {
		s.put(blocks, point{fault: unreadable, text: rest})
		return
	}
	for i, of := range [2]series{blocks, blockTokens} {
		text := set.wanted[i]
		if text == nil || string(text) == "None" {
			continue
		}
		p := point{identity: set.identity, fault: unreadable, text: text}
		if p.value, ok = number(text); ok {
			p.fault = judge(of, p.value)
		}
		s.put(of, p)
	}
}

// adapters reads which adapters have requests, which stands in labels; the value is the time of the change, and every
// combination that ever was stays on the page, so that the latest counts.
func (s *Scanner) adapters(rest []byte) {
	set, rest, ok := labels(rest, &[wantedLabels]string{"running_lora_adapters", "waiting_lora_adapters", "max_lora"})
	p := point{fault: unreadable, text: rest}
	if ok {
		p.value, p.text, _, _, ok = value(rest)
	}
	if ok {
		p.fault = judge(adapters, p.value)
	}
	if p.fault != sound {
		s.reject(adapters, p.fault, p.text)
		return
	}
	if !s.hasLora || p.value >= s.lora.value {
		s.hasLora, s.lora = true, p
		s.lists[0].raw, s.lists[1].raw, s.maxLoras = set.wanted[0], set.wanted[1], set.wanted[2]
	}
}

// put adds a point. A label set that a page has twice counts once: the newer timestamp, else the later line.
func (s *Scanner) put(of series, p point) {
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

func (s *Scanner) reject(of series, why fault, text []byte) {
	const show = 40
	r := Rejection{Series: of.String(), Why: why.String()}
	if len(text) > 0 {
		r.Why += ": " + strings.ToValidUTF8(string(text[:min(len(text), show)]), "?")
	}
	s.rejected = append(s.rejected, r)
}

// fold joins the label sets of a series, by sum or by maximum. ok is false if there are none, or if one was rejected: the
// rest of a sum is no sum.
func (s *Scanner) fold(of series, sum bool) (total float64, ok bool) {
	if s.over[of] {
		s.reject(of, tooMany, nil)
		return 0, false
	}
	for i := range s.points[of] {
		p := &s.points[of][i]
		if p.fault != sound {
			s.reject(of, p.fault, p.text)
			return 0, false
		}
		if sum {
			total += p.value
		} else {
			total = max(total, p.value)
		}
	}
	return total, len(s.points[of]) > 0
}

func (s *Scanner) end() Reading {
	r := Reading{Sample: pool.NoSample(), Series: s.count}
	r.Sample.Waiting = s.sum(waiting)
	r.Sample.Running = s.sum(running)
	r.Sample.Blocks = s.sum(blocks)
	if v, ok := s.fold(blockTokens, false); ok {
		r.Sample.BlockTokens = int32(v)
		for _, p := range s.points[blockTokens] {
			if p.value != v {
				s.reject(blockTokens, differs, p.text)
				r.Sample.BlockTokens = -1
				break
			}
		}
	}
	level := usage
	if len(s.points[usage]) == 0 {
		level = usageLegacy
	}
	if v, ok := s.fold(level, false); ok {
		r.Sample.KVUsage = v
	}
	if v, ok := s.fold(processStart, false); ok && v > 0 {
		r.Sample.ProcessStart = v
	}
	// Where several processes serve one port, the page does not say when they started. The sum of what they took in falls
	// when one of them begins anew.
	if v, ok := s.fold(promptTokens, true); ok {
		r.Sample.PromptTokens = v
	}
	if s.hasLora {
		r.Sample.Adapters, r.Sample.AdaptersWaiting = s.list(&s.lists[0]), s.list(&s.lists[1])
		r.Sample.AdaptersMax = s.mostAdapters()
	}
	r.Rejected = s.rejected
	return r
}

func (s *Scanner) sum(of series) int32 {
	v, ok := s.fold(of, true)
	switch {
	case !ok:
		return -1
	case v > math.MaxInt32:
		s.reject(of, beyond, nil)
		return -1
	}
	return int32(v)
}

// mostAdapters reads how many different adapters may run at a time; -1 if the line does not say.
func (s *Scanner) mostAdapters() int32 {
	if s.maxLoras == nil {
		return -1
	}
	v, ok := number(s.maxLoras)
	why := unreadable
	if ok {
		if why = judge(adapters, v); why == sound {
			why = whole(v, maxAdapters)
		}
	}
	if why != sound {
		s.reject(adapters, why, s.maxLoras)
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
		s.reject(adapters, tooMany, nil)
		l.last = nil
		return nil
	}
	l.last = slices.Clip(names)
	return l.last
}
