package pool

import "time"

// Tally is what own requests have shown of an engine since its slot was filled, in sums that only grow: whoever learns
// takes differences.
//
// Work is counted in prompt tokens without attention: a prompt of u uncached tokens behind c cached ones is
// u + u·(c + u/2)/AttentionTokens, since each of them attends to all before it.
type Tally struct {
	// Booked are bookings, BookedWork the work of their prompts, and BookedAhead the work that was to be done before their first
	// tokens as the books knew it: what stood before each, and its own.
	Booked, BookedWork, BookedAhead int64
	// LongWork is the part of BookedWork that prompts are which were long for the traffic.
	LongWork int64
	// Prompts are the tokens of their prompts, and Cached those that were not to be computed.
	Prompts, Cached int64

	// Answered are answers that began, of whatever kind.
	Answered int64

	// HeardAt is when an answer last began, or its number of tokens was told, that another picker asked for; 0: never. It is a sign of
	// life that the own requests do not give.
	HeardAt Instant

	// Begun are event streams that began, Waited is the time from each booking to its first byte, Ahead their part of BookedAhead,
	// to which the work of later prompts is added that ended in the same step, and BegunWork is their part of BookedWork. BegunBeside
	// and BegunKTokens are the sequences, and the thousands of tokens of their contexts, that decoded at those instants. Where engines send
	// headers first, none of that tells of the prompts.
	Begun                     int64
	Waited                    time.Duration
	Ahead, BegunWork          int64
	BegunBeside, BegunKTokens float64

	// Ended are answers that came to their end and of which the number of tokens was told; Steps is how many steps that took, one
	// for each token after the first, and Decoding how long: from the first byte, or where that tells nothing from the instant at
	// which the prompt was expected to be computed. Sequences and KTokens are the mean numbers of sequences and of thousands of
	// context tokens that decoded beside and with them, times Steps; Work is what prompts were computed meanwhile.
	Ended, Steps       int64
	Decoding           time.Duration
	Sequences, KTokens float64
	Work               int64
}

// meter measures what decodes on an endpoint.
type meter struct {
	at                 Instant
	sequences, tokens  int64   // now
	seconds, kiloToken float64 // sequences and thousands of tokens, integrated over seconds
	waiting            int64   // work of prompts whose first byte will tell of them
	silent             int32   // open bookings whose first byte will not
	together           together
}

// together are the answers that began with the last one. First bytes come at the ends of steps, those of one step at once.
type together struct {
	at Instant // when the first of them did
	n  int64
}

// oneStep is how long after the first of them answers still began in one step; the shortest steps take several times as long.
// stepTokens is how much of the prompts a step computes: engines are set to 2,048 to 8,192.
const (
	oneStep    = Instant(2 * time.Millisecond)
	stepTokens = 4096
)

// Of prompts of many steps one part in leftOneIn is left until they answer: they take longer than was expected by what decodes
// beside them, and nothing tells how far they are.
const leftOneIn = 8

// StillToDo returns the least work that is left at an endpoint whatever its clock says. Prompts whose first byte would tell, and has
// not, are still computed: of one step's work half is left on average, of more an eighth at least. A clock that runs by prompts alone is early
// by the decode steps between them.
func (b *Books) StillToDo(id ID) int64 {
	waiting := b.meters[id].waiting
	return max(min(waiting, stepTokens)/2, waiting/leftOneIn)
}

// measure brings the integrals of an endpoint to the present.
func (b *Books) measure(id ID) *meter {
	m := &b.meters[id]
	if d := time.Duration(b.clock - m.at).Seconds(); d > 0 {
		m.seconds += float64(float64(m.sequences) * d)
		m.kiloToken += float64(float64(m.tokens) / 1000 * d)
		m.at = b.clock
	}
	return m
}

// enqueue puts the prefill of a booking behind what is booked at its endpoint.
func (b *Books) enqueue(e *entry, l Load) {
	id := e.to.ID
	t, m := &b.Tallies[id], b.measure(id)
	e.work = l.UncachedPrefill
	if b.AttentionTokens > 0 {
		e.work += int64(float64(e.work) * (float64(l.Cached) + float64(e.work)/2) / b.AttentionTokens)
	}
	from := max(b.BacklogEnds[id], b.clock)
	e.ahead = e.work
	if per := b.PrefillPerToken[id]; per > 0 {
		e.ahead += max(int64(from-b.clock)/int64(per), b.StillToDo(id))
	}
	b.BacklogEnds[id] = after(from, e.work, b.PrefillPerToken[id])
	t.Booked++
	t.BookedWork += e.work
	if e.long {
		t.LongWork += e.work
	}
	t.BookedAhead += e.ahead
	t.Prompts += e.prompt
	t.Cached += l.Cached
	e.mark = t.BookedWork
	if e.silent {
		m.silent++
		b.decodes(e, m)
		e.began, e.then = after(b.clock, e.ahead, b.PrefillPerToken[id]), b.reading(id)
		return
	}
	m.waiting += e.work
}

// decodes counts a booking among the sequences that decode. Half of what it is expected to generate stands for its growth.
func (b *Books) decodes(e *entry, m *meter) {
	m.sequences++
	e.tokens = e.prompt + e.decode/2
	m.tokens += e.tokens
	e.decoding = true
}

// reading is what an endpoint's meter stood at.
type reading struct {
	at                 Instant
	seconds, kiloToken float64
	work               int64 // of prompts that were computed
}

func (b *Books) reading(id ID) reading {
	m := b.measure(id)
	return reading{b.clock, m.seconds, m.kiloToken, b.Tallies[id].BookedWork - m.waiting}
}

// Decoded returns the integrals over time, in seconds, of how many own sequences decode at an endpoint, and of the thousands of
// tokens of their contexts.
func (b *Books) Decoded(id ID) (sequences, kiloTokens float64) {
	m := b.measure(id)
	return m.seconds, m.kiloToken
}

// tally notes what an answer that ends has shown.
func (b *Books) tally(e *entry) {
	if !e.begun || e.began == 0 || !e.told || e.decode < 2 || b.clock <= e.began {
		return
	}
	t, now, took := &b.Tallies[e.to.ID], b.reading(e.to.ID), time.Duration(b.clock-e.began)
	steps, measured := float64(e.decode-1), time.Duration(b.clock-e.then.at).Seconds()
	t.Ended++
	t.Steps += e.decode - 1
	t.Decoding += took
	t.Sequences += float64(steps * (now.seconds - e.then.seconds) / measured)
	t.KTokens += float64(steps * (now.kiloToken - e.then.kiloToken) / measured)
	// Where the clock alone tells when it began, what was booked meanwhile was measured from the booking on.
	t.Work += int64(float64(now.work-e.then.work) * min(took.Seconds()/measured, 1))
}

// dequeue is called when a prompt was computed, as a first byte told, or will not be any more.
func (b *Books) dequeue(e *entry, firstByte bool) {
	id := e.to.ID
	m, per := b.measure(id), b.PrefillPerToken[id]
	if firstByte && e.streams {
		t := &b.Tallies[id]
		t.Begun++
		t.Waited += time.Duration(b.clock - e.at)
		// Of prompts that end in one step each waits for all: the earlier ones for this one too.
		if b.clock-m.together.at > oneStep {
			m.together = together{at: b.clock}
		}
		t.Ahead += e.ahead + m.together.n*e.work
		m.together.n++
		t.BegunWork += e.work
		t.BegunBeside += float64(m.sequences)
		t.BegunKTokens += float64(m.tokens) / 1000
	}
	switch {
	case e.silent && firstByte:
		return // the prompt is where it was: the clock alone tells
	case e.silent:
		if b.BacklogEnds[id] > b.clock && after(e.at, e.ahead, per) > b.clock {
			b.BacklogEnds[id] = max(b.clock, b.BacklogEnds[id]-after(0, e.work, per))
		}
		return
	}
	m.waiting -= e.work
	left := m.waiting
	if firstByte {
		// An engine takes prompts in order: what is left was booked later.
		if rest := b.Tallies[id].BookedWork - e.mark; m.silent > 0 || rest < left {
			left = rest
		}
		b.decodes(e, m)
		e.began, e.then = b.clock, b.reading(id)
	}
	// What is left starts now at the earliest. An end that was expected before that stays: it knows of the part that the
	// engine has already done. One that has passed without the rest being done was too hopeful.
	ends := after(b.clock, left, per)
	if b.BacklogEnds[id] <= b.clock || ends < b.BacklogEnds[id] {
		b.BacklogEnds[id] = ends
	}
}

// stop takes a booking out of what decodes.
func (b *Books) stop(e *entry) {
	m := b.measure(e.to.ID)
	if e.silent {
		m.silent--
		e.silent = false
	}
	if e.decoding {
		m.sequences--
		m.tokens -= e.tokens
		e.decoding = false
	}
}

// Expect replaces what one uncached prompt token is expected to cost an endpoint, from the next booking on. Zero or less does
// nothing.
func (b *Books) Expect(id ID, perToken time.Duration) {
	if perToken > 0 {
		b.PrefillPerToken[id] = perToken
	}
}
