package pool

import (
	"math"
	"time"
)

// Load is what one leg costs an endpoint, in tokens. Negative counts as 0, and more than MaxTokens as that.
type Load struct {
	UncachedPrefill, Decode int64

	// Cached is the part of the prompt that the endpoint need not compute, but that the rest attends to.
	Cached int64

	// Silent says that the answer's first byte does not tell when the prompt is computed, since the whole answer comes at once, or
	// nobody will see it.
	Silent bool

	// Long says that the prompt was long for the traffic, as Books.LongPrompt has it.
	Long bool
}

// MaxTokens bounds each part of one Load, so that no sum can overflow.
const MaxTokens = 1 << 31

func (l Load) bounded() Load {
	within := func(tokens int64) int64 { return min(max(tokens, 0), MaxTokens) }
	l.UncachedPrefill, l.Decode, l.Cached = within(l.UncachedPrefill), within(l.Decode), within(l.Cached)
	return l
}

// Books are the columns of own load by ID, and of what other pickers tell of theirs (Pool.Hear), never negative, valid only inside Decide. They are read directly and written
// through Book alone.
type Books struct {
	Requests      []int32 // booked and not ended
	Heard         []int32 // of these, bookings of other pickers
	NoFirstByte   []int32 // of these, still without first byte
	AfterSample   []int32 // of these again, booked at or after the instant of the last sample, which cannot contain them
	PrefillTokens []int64 // uncached prefill of those without first byte
	DecodeTokens  []int64 // expected or, after Progress, known decode of all
	ContextTokens []int64 // the prompts of all, cached parts included

	// SinceSample is how many tokens more stand in the engine's memory than when its last sample was taken: the uncached prompts and
	// half of the expected answers of bookings since, less those of bookings that ended; it may be negative. The other half is
	// that of DecodeTokens, of which on the mean half is still to come.
	SinceSample []int64

	// BacklogEnds is when the booked prefill is expected to be done, at PrefillPerToken; before now: nothing is booked, or
	// the engine is late.
	BacklogEnds     []Instant
	PrefillPerToken []time.Duration

	// Ceilings are how many own requests each endpoint has room for, as far as somebody has found out; see Limit.
	Ceilings []Ceiling

	// AttentionTokens is the context at which attention doubles the cost of a prompt's token, over all endpoints; 0: never.
	// HeadersFirst says that engines send an answer's headers before its first token, so that first bytes tell nothing of
	// prompts. An Observer may set both, for the bookings to come.
	AttentionTokens float64
	HeadersFirst    bool

	// LongPrompt says that the prompt of the decision at hand is long for the traffic. An Observer may set it.
	LongPrompt bool

	// Doubts are since when each engine's gauge of its memory has not been borne out by what waits there.
	Doubts []Doubt

	Tallies []Tally  // what own requests have shown of each engine
	Samples []Sample // the last ones, written under the same lock

	snapshot *Snapshot
	journal  func(Event) // who follows, or nil
	clock    Instant     // the latest instant heard of

	epochMicros int64 // of the wall at Instant 0
	turn        int64 // the greatest that was given or heard of
	met         met
	gaveBack    bool // in this Decide

	touched touches
	entries []entry
	free    int32   // first of the free entries, linked by next; none if there is none
	due     []int32 // a heap of the live entries by deadline
	after   []chain // by ID: those that AfterSample counts, in order of booking
	meters  []meter // by ID
}

// Booking is a handle with a generation: a call on one that has ended does nothing and reports false. It ends by itself
// at its deadline, and when its endpoint leaves the pool. The zero Booking is one that has ended.
type Booking struct{ Slot, Generation uint32 }

// Ceiling is how many own requests an endpoint has room for until an instant, so that one who stops telling, as after a reload, leaves
// nothing behind. The zero Ceiling is none.
type Ceiling struct {
	Most  int32
	Until Instant
}

// Holds reports whether the ceiling is in force and no higher than so many requests.
func (c *Ceiling) Holds(now Instant, requests int32) bool {
	return c.Most > 0 && now < c.Until && requests >= c.Most
}

// Limit sets the ceiling of an endpoint, until an instant; most below 1 is none.
func (b *Books) Limit(id ID, most int32, until Instant) {
	c := &b.Ceilings[id]
	if most < 1 {
		most, until = 0, 0
	}
	if *c != (Ceiling{most, until}) {
		*c = Ceiling{most, until}
		b.touched.add(id)
	}
}

// entry is one booking.
type entry struct {
	to              Ref
	prefill, decode int64   // what stands in the columns for it
	prompt          int64   // likewise
	uncached        int64   // of the prompt, as it was booked
	work, mark      int64   // its prefill as Tally counts work, and what was ever booked at its endpoint, with it
	ahead           int64   // work that was to be done before its first token, its own included
	at, deadline    Instant // at: when it was booked, or moved
	began           Instant // when the first byte came
	then            reading // of its endpoint's meter at that instant
	tokens          int64   // what it adds to the contexts that decode
	held            int64   // what it adds to SinceSample
	generation      uint32
	place           int32 // in due; none when the entry is free
	prev, next      int32 // in the chain of after, or of free entries
	begun           bool  // the first byte came
	counted         bool  // in AfterSample
	silent          bool  // the first byte tells nothing of the prompt
	streams         bool  // the answer is an event stream
	told            bool  // decode is what was generated
	decoding        bool  // counted among the sequences that decode
	heard           bool  // of another picker
	first           bool  // of one whose bookings come before the own ones of the same turn
	turn            int64
	met             uint64 // how many bookings of others had been heard of when it was made
	long            bool   // the prompt
}

// chain is a list of entries, linked through them.
type chain struct{ first, last int32 }

// none ends a chain.
const none = -1

// At tells the books the instant of the decision. Without it a booking counts as made at the latest instant that the pool
// heard of, which may be before the last sample was asked for. The clock never goes back.
func (b *Books) At(now Instant) { b.clock = max(b.clock, now) }

// Book adds an own leg to the books of an endpoint, until End or deadline. A stale Ref is refused: nothing is booked, and the
// zero Booking is returned. It allocates only while the number of open bookings grows beyond what it ever was.
func (b *Books) Book(to Ref, l Load, deadline Instant) Booking {
	l.Long = l.Long || b.LongPrompt
	return b.book(to, l, deadline, b.takeTurn(), false)
}

func (b *Books) book(to Ref, l Load, deadline Instant, turn int64, heard bool) Booking {
	if !b.snapshot.Alive(to) {
		return Booking{}
	}
	i := b.take()
	e := &b.entries[i]
	e.deadline, e.begun, e.silent, e.decoding, e.heard = deadline, false, false, false, heard
	e.turn, e.first, e.met = turn, false, b.met.count
	b.push(i)
	b.add(i, to, l)
	b.tell(i, Event{Kind: Booked, To: b.snapshot.Slots[to.ID].Addr, Load: l, Left: b.left(deadline), Turn: turn})
	return Booking{Slot: uint32(i), Generation: e.generation}
}

// find returns the live entry that h stands for, or none.
func (b *Books) find(h Booking) int32 {
	if uint64(h.Slot) >= uint64(len(b.entries)) {
		return none
	}
	if e := &b.entries[h.Slot]; e.generation != h.Generation || e.place == none {
		return none
	}
	return int32(h.Slot)
}

// add writes entry i into the columns of to.
func (b *Books) add(i int32, to Ref, l Load) {
	e := &b.entries[i]
	l = l.bounded()
	e.to, e.at, e.prefill, e.decode, e.prompt = to, b.clock, l.UncachedPrefill, l.Decode, l.UncachedPrefill+l.Cached
	e.told, e.began, e.work, e.uncached, e.long = false, 0, 0, l.UncachedPrefill, l.Long
	b.touched.add(to.ID)
	b.Requests[to.ID]++
	if e.heard {
		b.Heard[to.ID]++
	}
	b.DecodeTokens[to.ID] += e.decode
	b.ContextTokens[to.ID] += e.prompt
	e.held = l.UncachedPrefill + l.Decode/2
	b.SinceSample[to.ID] += e.held
	if e.begun {
		e.prefill = 0 // an answer has begun: its prefill is done, wherever it was
		b.decodes(e, b.measure(to.ID))
		return
	}
	e.silent, e.streams = l.Silent || b.HeadersFirst, !l.Silent
	b.NoFirstByte[to.ID]++
	b.PrefillTokens[to.ID] += e.prefill
	b.enqueue(e, l)
	b.count(i)
}

// remove takes entry i out of the columns.
func (b *Books) remove(i int32) {
	b.prefilled(i, false)
	e := &b.entries[i]
	b.stop(e)
	b.touched.add(e.to.ID)
	b.Requests[e.to.ID]--
	if e.heard {
		b.Heard[e.to.ID]--
	}
	b.DecodeTokens[e.to.ID] -= e.decode
	b.ContextTokens[e.to.ID] -= e.prompt
	b.SinceSample[e.to.ID] -= e.held
	e.decode, e.prompt = 0, 0
}

// prefilled takes out of the columns what falls with the first byte, if it has not fallen yet.
func (b *Books) prefilled(i int32, firstByte bool) {
	e := &b.entries[i]
	if e.begun {
		return
	}
	id := e.to.ID
	b.uncount(i)
	b.NoFirstByte[id]--
	b.PrefillTokens[id] -= e.prefill
	e.prefill = 0
	b.dequeue(e, firstByte)
}

// after returns the end of a prefill that begins at from. It saturates.
func after(from Instant, tokens int64, perToken time.Duration) Instant {
	if tokens == 0 || perToken <= 0 {
		return from
	}
	if tokens > (math.MaxInt64-int64(max(from, 0)))/int64(perToken) {
		return math.MaxInt64
	}
	return from + Instant(tokens)*Instant(perToken)
}

func (b *Books) firstByte(h Booking) bool {
	i := b.find(h)
	if i == none {
		return false
	}
	b.prefilled(i, true)
	b.touched.add(b.entries[i].to.ID)
	if !b.entries[i].begun {
		b.entries[i].begun = true
		b.Tallies[b.entries[i].to.ID].Answered++
		b.lives(&b.entries[i])
		b.tell(i, Event{Kind: Begun})
	}
	return true
}

func (b *Books) progress(h Booking, decode int64) bool {
	i := b.find(h)
	if i == none {
		return false
	}
	e := &b.entries[i]
	decode = Load{Decode: decode}.bounded().Decode
	b.touched.add(e.to.ID)
	b.DecodeTokens[e.to.ID] += decode - e.decode
	e.decode, e.told = decode, true
	b.lives(e)
	b.tell(i, Event{Kind: Told, Tokens: decode})
	return true
}

// lives notes a sign of life that another picker was given.
func (b *Books) lives(e *entry) {
	if e.heard {
		b.Tallies[e.to.ID].HeardAt = b.clock
	}
}

func (b *Books) move(h Booking, to Ref, l Load) bool {
	i := b.find(h)
	if i == none || !b.snapshot.Alive(to) {
		return false
	}
	b.remove(i)
	l.Long = b.entries[i].long
	b.add(i, to, l)
	b.tell(i, Event{Kind: Moved, To: b.snapshot.Slots[to.ID].Addr, Load: l})
	return true
}

func (b *Books) end(h Booking) bool {
	i := b.find(h)
	if i == none {
		return false
	}
	b.tally(&b.entries[i])
	b.remove(i)
	b.release(i)
	return true
}
