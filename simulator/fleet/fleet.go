package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

// Options are a run.
type Options struct {
	// Seed is that of readings and cache events: phases, jitter, loss. The source and the decider have their own.
	Seed uint64

	// Pods are the members from the start, at least one. Their KV memory is cut into the blocks of the source.
	Pods []Pod

	Signals Signals
	Events  []Event

	Decider Decider
	Source  Source

	// Transfer is the way of keys and values from a member that computed a prompt to the one that generates.
	Transfer Transfer

	// Until ends the run; what has not ended by then is Unfinished. 0: the run ends with its last request.
	Until pool.Instant
}

// Fleet is a run in progress.
type Fleet struct {
	now       pool.Instant
	decider   Decider
	listener  Listener // the decider, if it listens to cache events
	watched   bool     // the decider is an Onlooker
	seed      uint64
	source    Source
	until     pool.Instant
	pods      []*pod
	steps     steps
	telemetry telemetry

	events     []Event // those to come, by instant
	unlistNext pool.Instant
	scrapeNext pool.Instant // the earliest of the pods', 0 for never
	due        pool.Instant // of the decider, 0 for never

	requests  []*Request  // by number
	ids       []engine.ID // in the engine that serves them, by number
	patience  Heap[timed] // when clients give up; those of requests that have ended are dropped when they come
	transfer  Transfer
	splits    map[int64]*split
	transfers Heap[timed]
	holding   int // requests that the decider holds
	open      int // requests that have not ended
	released  []Answer
	result    Result
}

// New prepares a run. The error names the option that makes no sense.
func New(o Options) (*Fleet, error) {
	switch {
	case len(o.Pods) == 0:
		return nil, errors.New("fleet: no pods; at least one")
	case o.Decider == nil || o.Source == nil:
		return nil, errors.New("fleet: a decider and a source of requests are needed")
	case o.Signals.Every < 0 || o.Signals.Age < 0 || o.Signals.Jitter < 0:
		return nil, fmt.Errorf("fleet: readings every %v, aged %v + %v; none may be negative", o.Signals.Every, o.Signals.Age, o.Signals.Jitter)
	case !(o.Signals.Loss >= 0 && o.Signals.Loss <= 1):
		return nil, fmt.Errorf("fleet: the share of lost readings is %v; 0 to 1", o.Signals.Loss)
	case o.Transfer.Setup < 0 || o.Transfer.BytesPerSecond < 0:
		return nil, fmt.Errorf("fleet: transfers with a setup of %v at %v bytes/s; neither may be negative", o.Transfer.Setup, o.Transfer.BytesPerSecond)
	case o.Signals.EventDelay < 0 || o.Signals.EventJitter < 0:
		return nil, fmt.Errorf("fleet: cache events take %v + %v; neither may be negative", o.Signals.EventDelay, o.Signals.EventJitter)
	case !(o.Signals.EventLoss >= 0 && o.Signals.EventLoss <= 1):
		return nil, fmt.Errorf("fleet: the share of lost cache events is %v; 0 to 1", o.Signals.EventLoss)
	case !(o.Signals.TokenError > -1):
		return nil, fmt.Errorf("fleet: the error of token counts is %v; above -1", o.Signals.TokenError)
	}
	f := &Fleet{now: 1, seed: o.Seed, decider: o.Decider, source: o.Source, until: o.Until, events: slices.Clone(o.Events)}
	f.listener, _ = o.Decider.(Listener)
	f.transfer, f.splits = o.Transfer, map[int64]*split{}
	f.telemetry = telemetry{Signals: o.Signals, random: rand.New(rand.NewPCG(o.Seed, 'r')), tokens: rand.New(rand.NewPCG(o.Seed, 't'))}
	slices.SortStableFunc(f.events, func(a, b Event) int { return int(min(max(a.At-b.At, -1), 1)) })
	pods := int32(len(o.Pods))
	for i := range f.events {
		if err := f.events[i].check(pods); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
		if f.events[i].Kind == Add {
			pods++
		}
	}
	for _, spec := range o.Pods {
		if b := o.Source.BlockTokens(); b > 0 {
			spec.Profile = cutInto(spec.Profile, b)
		}
		if err := f.join(spec); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	f.planScrape()
	return f, nil
}

// cutInto returns p with its KV memory in blocks of so many tokens.
func cutInto(p engine.Profile, blockTokens int32) engine.Profile {
	p.Blocks = int32(int64(p.Blocks-1)*int64(p.BlockTokens)/int64(blockTokens)) + 1
	p.BlockTokens = blockTokens
	return p
}

// asElapsed turns an instant into what an engine takes: both are elapsed time since the run began.
func (f *Fleet) asElapsed(t pool.Instant) time.Duration { return time.Duration(t) }

// Run runs to the end. It is called once.
func (f *Fleet) Run() (*Result, error) {
	if d, ok := f.decider.(Onlooker); ok {
		f.watched = true
		d.Look(f.look)
	}
	f.announce()
	f.askDue()
	for {
		at, what := f.next()
		if what == nothing {
			break
		}
		if f.until > 0 && at > f.until {
			f.now = f.until
			break
		}
		f.now = max(f.now, at)
		switch what {
		case stepEnds:
			f.runSteps()
		case planned:
			e := f.events[0]
			f.events = f.events[1:]
			if err := f.happen(&e); err != nil {
				return nil, err
			}
		case noticed:
			f.unlist()
		case transferred:
			f.loaded(f.transfers.Pop())
		case givesUp:
			f.giveUp(uint64(f.patience.Pop().number))
		case scraped:
			for _, p := range f.pods {
				if p.scrapeAt != 0 && p.scrapeAt <= f.now {
					f.scrape(p)
				}
			}
			f.planScrape()
		case read:
			r := f.telemetry.inbox.Pop()
			f.decider.Observe(f.now, r.member, r.sample)
		case decides:
			f.askDue()
		case arrives:
			f.arrive(f.source.Pop())
		}
		if f.holding > 0 && what != decides {
			f.askDue()
		}
	}
	return f.close(), nil
}

// event is what comes next, in the order in which events of one instant happen.
type event uint8

const (
	nothing event = iota
	stepEnds
	planned
	noticed
	transferred
	givesUp
	scraped
	read
	decides
	arrives
)

func (f *Fleet) next() (at pool.Instant, what event) {
	at = never
	earlier := func(t pool.Instant, e event) {
		if t < at {
			at, what = t, e
		}
	}
	_, step := f.steps.first()
	earlier(pool.Instant(step), stepEnds)
	arrival, coming := f.source.Peek()
	if f.open == 0 && !coming {
		return at, what // what is planned or read changes nothing any more
	}
	if len(f.events) > 0 {
		earlier(f.events[0].At, planned)
	}
	if f.unlistNext != 0 {
		earlier(f.unlistNext, noticed)
	}
	if len(f.transfers) > 0 {
		earlier(f.transfers[0].at, transferred)
	}
	if len(f.patience) > 0 {
		earlier(f.patience[0].at, givesUp)
	}
	if f.scrapeNext != 0 {
		earlier(f.scrapeNext, scraped)
	}
	if len(f.telemetry.inbox) > 0 {
		earlier(f.telemetry.inbox[0].due, read)
	}
	if f.due != 0 {
		earlier(f.due, decides)
	}
	if coming {
		earlier(arrival, arrives)
	}
	if what != stepEnds && f.stuck(coming) {
		return never, nothing
	}
	return at, what
}

// stuck reports whether nothing but readings would ever happen: requests are held or hang, and no event will free them.
func (f *Fleet) stuck(coming bool) bool {
	_, step := f.steps.first()
	return !coming && step == never && len(f.events) == 0 && f.unlistNext == 0 && f.due == 0 && len(f.transfers) == 0 && len(f.patience) == 0
}

// runSteps brings pods forward, one after the other, for as long as nothing else can come between: until something else is
// due, or a step brought what the decider or the source hears of.
func (f *Fleet) runSteps() {
	limit := f.otherwise()
	for {
		n, at := f.steps.first()
		if at > int64(limit) {
			return
		}
		f.now = pool.Instant(at)
		if f.bring(f.pods[n]) {
			return
		}
	}
}

// otherwise returns the instant until which only steps happen.
func (f *Fleet) otherwise() pool.Instant {
	limit := pool.Instant(never - 1)
	if len(f.events) > 0 {
		limit = min(limit, f.events[0].At)
	}
	if f.until > 0 {
		limit = min(limit, f.until)
	}
	for _, t := range [...]pool.Instant{f.unlistNext, f.scrapeNext, f.due} {
		if t != 0 {
			limit = min(limit, t)
		}
	}
	if len(f.telemetry.inbox) > 0 {
		limit = min(limit, f.telemetry.inbox[0].due)
	}
	if len(f.transfers) > 0 {
		limit = min(limit, f.transfers[0].at)
	}
	if len(f.patience) > 0 {
		limit = min(limit, f.patience[0].at)
	}
	if t, ok := f.source.Peek(); ok {
		limit = min(limit, t)
	}
	return limit
}

// bring makes the steps of a pod that end until now. An engine's steps concern nobody but itself until one brings a first or
// a last token, and engine.Quiet tells before when that cannot be: so pods are looked at then, and when something is done to
// them, and their steps are made in rows. It reports whether somebody else heard of what they brought.
func (f *Fleet) bring(p *pod) (told bool) {
	if p.hung || !p.up {
		return false
	}
	now := f.asElapsed(f.now)
	for {
		next, busy := p.engine.Next()
		if !busy || next > now {
			break
		}
		if skipped := p.engine.Skip(now); len(skipped.Steps) > 0 {
			f.skipped(p, &skipped)
		} else if f.step(p, next) {
			told = true
		}
	}
	f.plan(p)
	return told
}

// skipped takes note of a row of steps.
func (f *Fleet) skipped(p *pod, row *engine.Skipped) {
	first, last := &row.Steps[0], &row.Steps[len(row.Steps)-1]
	f.result.Steps += int64(len(row.Steps))
	p.busy += last.End - first.Start
	p.gaps.add(len(row.Steps)*len(row.IDs), (last.End-first.Start)*time.Duration(len(row.IDs)))
	f.publish(p, row.Blocks)
	// Each decoded in the step before, too; contexts grow, so the last is the longest but for a stall in the first.
	gap := max(first.End-first.Start, last.End-last.Start)
	for _, id := range row.IDs {
		o := &f.result.Outcomes[p.live[id.Slot]]
		o.LongestGap = max(o.LongestGap, gap)
	}
}

// step ends the running step of a pod, if at is its end, and begins the next. It reports whether somebody else heard of what
// it brought.
func (f *Fleet) step(p *pod, at time.Duration) (told bool) {
	r := p.engine.Step(at)
	for _, l := range r.Loading {
		f.fetch(p, l)
		told = true
	}
	if r.Ended == nil {
		return told
	}
	f.result.Steps++
	p.busy += r.Ended.End - r.Ended.Start
	f.publish(p, r.Blocks)
	for i := range r.Tokens {
		t := &r.Tokens[i]
		o := &f.result.Outcomes[p.live[t.ID.Slot]]
		if t.Count > 1 {
			o.LongestGap = max(o.LongestGap, t.Gap)
			p.gaps.add(1, t.Gap)
			continue
		}
		p.firstTokens.add(1, t.Gap)
		if f.prefills(p, t.ID) {
			continue // it is the decoding engine's first token that the client sees
		}
		o.FirstToken = f.now
		f.decider.FirstToken(f.now, uint64(p.live[t.ID.Slot]))
		told = true
	}
	for i := range r.Finished {
		f.finish(p, &r.Finished[i])
		told = true
	}
	return told
}

// plan notes when the pod is to be looked at next.
func (f *Fleet) plan(p *pod) {
	at := int64(never)
	if _, busy := p.engine.Next(); busy && !p.hung && p.up {
		at = int64(p.engine.Quiet())
	}
	f.steps.set(p.number, at)
}

// finish ends a request that generated all its tokens.
func (f *Fleet) finish(p *pod, done *engine.Finished) {
	number := p.live[done.ID.Slot]
	p.live[done.ID.Slot] = nobody
	p.running--
	s := f.splits[number]
	if s != nil && !s.prefilled {
		f.prefilled(p, s, done, number)
		return
	}
	o := &f.result.Outcomes[number]
	o.Generated, o.Preemptions = done.Output, done.Preemptions
	if s == nil {
		o.Cached, o.Admitted = done.Cached, pool.Instant(done.Admitted)
	} else {
		delete(f.splits, number)
	}
	f.end(uint64(number), Completed, "")
	f.decider.Finish(f.now, uint64(number), openai.Usage{Prompt: int64(o.Prompt), Cached: int64(o.Cached), Out: int64(o.Generated)}, true)
	if p.draining {
		f.leaveIfIdle(p)
	}
}

// end closes a request's outcome, before the decider hears of it.
func (f *Fleet) end(number uint64, s Status, why string) {
	o := &f.result.Outcomes[number]
	o.End, o.Status, o.Reason = f.now, s, why
	f.open--
	r := f.requests[number]
	f.requests[number] = nil
	f.source.Done(f.now, r, s)
}

// arrive brings a request to the decider.
func (f *Fleet) arrive(r *Request) {
	number := uint64(len(f.result.Outcomes))
	f.result.Outcomes = append(f.result.Outcomes, Outcome{
		Arrived: f.now, Prompt: r.Prompt, Output: r.Output, Pod: nobody,
		Session: r.Session, Tenant: r.Tenant, Class: r.Class, Priority: r.Priority,
	})
	f.requests, f.ids = append(f.requests, r), append(f.ids, engine.ID{})
	f.open++
	if r.GivesUp > 0 {
		f.patience.Push(timed{f.now + r.GivesUp, int64(number)})
	}
	f.hear()
	a := f.decider.Arrive(f.now, number, r, f.describe(r))
	a.Number = number
	if a.Held {
		f.holding++
		f.askDue()
		return
	}
	f.follow(a)
	if f.due == 0 {
		f.askDue() // the decision may have made a deadline
	}
}

// describe says of a request what a scheduler may know.
func (f *Fleet) describe(r *Request) *openai.Summary {
	t := &f.telemetry
	s := openai.NewSummary()
	s.Complete, s.Stream, s.IncludeUsage = true, true, true
	s.Model = r.Model
	if r.MaxTokens > 0 {
		s.MaxTokens = int64(r.MaxTokens)
	}
	s.PromptTokens = int64(r.Prompt)
	s.BlockTokens = f.source.BlockTokens()
	full := min(int(r.Prompt/s.BlockTokens), len(r.Hashes))
	s.BlockHashes = r.Hashes[:full:full]
	if s.BlockHashes == nil {
		s.BlockHashes = []uint64{}
	}
	if e := t.TokenError; e != 0 {
		s.PromptTokens = max(int64(float64(s.PromptTokens)*(1+e)), 1)
		if t.tokens.Float64() < max(e, -e) {
			s.BlockHashes = []uint64{}
		}
	}
	return s
}

// follow does what a decision says, asking again while nobody listens where it leads.
func (f *Fleet) follow(a Answer) {
	o := &f.result.Outcomes[a.Number]
	for a.Refused == "" {
		o.Tries = min(o.Tries, 254) + 1
		number := a.Number
		switch {
		case a.Split && !f.pods[a.Prefill].up:
			a = f.decider.Unreachable(f.now, number, a.Prefill)
		case !f.pods[a.To].up:
			a = f.decider.Unreachable(f.now, number, a.To)
		case a.Split:
			f.prefill(f.pods[a.Prefill], f.pods[a.To], number)
			return
		default:
			f.send(f.pods[a.To], number)
			return
		}
		a.Number = number
	}
	f.end(a.Number, Refused, a.Refused)
}

// send puts a request into an engine.
func (f *Fleet) send(p *pod, number uint64) {
	r := f.requests[number]
	o := &f.result.Outcomes[number]
	o.Pod, o.Sent = p.number, f.now
	f.add(p, number, engine.Request{Prompt: r.Prompt, Output: r.Output, Hashes: r.Hashes, Adapter: r.Adapter})
}

// add has an engine take a request, or ends it; it reports whether it took it, and as what.
func (f *Fleet) add(p *pod, number uint64, r engine.Request) (engine.ID, bool) {
	p.requests++
	f.bring(p)
	id, err := p.engine.Add(f.asElapsed(f.now), r)
	if err != nil {
		why := "invalid"
		if errors.Is(err, engine.ErrQueueFull) {
			why = "engine_queue_full"
		}
		f.end(number, Failed, why)
		f.decider.Finish(f.now, number, openai.NoUsage, false)
		return id, false
	}
	for int(id.Slot) >= len(p.live) {
		p.live = append(p.live, nobody)
	}
	p.live[id.Slot], f.ids[number] = int64(number), id
	p.running++
	if _, busy := p.engine.Next(); !busy && !p.hung {
		f.step(p, f.asElapsed(f.now))
	}
	f.plan(p)
	return id, true
}

// askDue has the decider act on its deadlines and release whom it holds.
func (f *Fleet) askDue() {
	if f.holding > 0 {
		f.hear()
	}
	for {
		f.released, f.due = f.decider.Due(f.now, f.released[:0])
		if f.due != 0 && f.due <= f.now { // it asks to be asked again; time must go on meanwhile
			f.due = f.now + pool.Instant(time.Millisecond)
		}
		if len(f.released) == 0 {
			return
		}
		for _, a := range f.released {
			if f.result.Outcomes[a.Number].Pod != nobody {
				f.takeBack(a)
				continue
			}
			f.holding--
			f.follow(a)
		}
	}
}

func (f *Fleet) planScrape() {
	f.scrapeNext = 0
	for _, p := range f.pods {
		if p.scrapeAt != 0 && (f.scrapeNext == 0 || p.scrapeAt < f.scrapeNext) {
			f.scrapeNext = p.scrapeAt
		}
	}
}

// close completes the result.
func (f *Fleet) close() *Result {
	f.result.End = f.now
	for _, p := range f.pods {
		c := p.earlier
		f.bring(p)
		if p.up {
			c = sum(c, p.engine.Counters())
		}
		f.result.Pods = append(f.result.Pods, PodResult{Name: p.name, Hardware: p.spec.Profile.Hardware, Requests: p.requests, Busy: p.busy, Counters: c})
	}
	return &f.result
}
