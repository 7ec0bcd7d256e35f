package producers

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The figures of one H100 SXM with Llama-3.1-8B in bf16, with which everything begins (simulator/engine has their sources).
const (
	priorPrefillMS   = 0.031
	priorStepMS      = 6.63
	priorPerSequence = 0.0052
	priorPerKToken   = 0.056

	// A prompt's token attends to all before it: at so many that is as much work as all else together, for models of 8 to 70
	// billion parameters 30,000 to 54,000.
	attentionTokens = 32768.0

	// What a request of unknown size holds of the cache.
	usualTokens = 1000.0

	// How many tokens an answer has until one was seen to its end.
	usualOutput = 256.0
)

// Time constants: of what is believed of an engine, of its class and of the pool, and of the traffic.
const (
	tickEvery    = pool.Instant(250 * time.Millisecond)
	engineForget = 15.0 // seconds
	classForget  = 60.0
	poolForget   = 300.0
	busyOver     = 20.0
	trafficOver  = 10.0
	longOver     = 30.0

	mostBusy = 0.9

	// How strongly an engine is drawn to its class, and that to the pool: what is known from there weighs as much as so many
	// milliseconds of prompts, and as many of steps.
	drawMS = 100.0

	// What an engine has shown is held to be chance up to so many times what observations scatter: of engines that are alike one in
	// twenty shows more (chi-squared with two degrees of freedom).
	chance = 6.0

	// How many times dearer or cheaper than that an engine may be, and than what is believed an observation.
	mostApart = 10.0
	mostOnce  = 3.0

	// Until its first token a request waits for the end of a step and for one of its own, besides prompts.
	stepsToFirstToken = 1.5
)

// evidence is a sum of what was observed and of what it stands against: what was expected, or of how many it was. Old evidence fades.
type evidence struct{ observed, expected float64 }

func (e *evidence) add(observed, expected float64) {
	e.observed += observed
	e.expected += expected
}

func (e *evidence) fade(by float64) {
	e.observed *= by
	e.expected *= by
}

// ratios are how much dearer than its prior an engine's prompts and decode steps are.
type ratios struct{ prefill, step float64 }

// learned is what prompts and steps were seen to take: the normal equations of
//
//	took = prefill · milliseconds of prompts + step · milliseconds of steps
//
// by the prior, each observation weighed by one over its length, so that sums are milliseconds. Both are learned at once: where
// prompts take half of the time, what is held to be too much of the one is too little of the other. The last two, the squares of what
// was observed and its weight, tell how far observations scatter.
type learned struct{ pp, ps, ss, pt, st, tt, weight float64 }

func (l *learned) add(prompts, steps, took, weight float64) {
	if prompts+steps <= 0 {
		return
	}
	k := weight / (prompts + steps)
	l.pp += float64(k * prompts * prompts)
	l.ps += float64(k * prompts * steps)
	l.ss += float64(k * steps * steps)
	l.pt += float64(k * prompts * took)
	l.st += float64(k * steps * took)
	l.tt += float64(k * took * took)
	l.weight += weight
}

func (l *learned) fade(by float64) {
	l.pp *= by
	l.ps *= by
	l.ss *= by
	l.pt *= by
	l.st *= by
	l.tt *= by
	l.weight *= by
}

// ratios solves the equations, drawn to what is known from elsewhere.
func (l *learned) ratios(elsewhere ratios) ratios {
	pp, ss := l.pp+drawMS, l.ss+drawMS
	pt, st := l.pt+float64(elsewhere.prefill*drawMS), l.st+float64(elsewhere.step*drawMS)
	det := float64(pp*ss) - float64(l.ps*l.ps)
	near := func(ratio, elsewhere float64) float64 {
		return min(max(ratio, elsewhere/mostApart), elsewhere*mostApart)
	}
	return ratios{
		prefill: near((float64(pt*ss)-float64(st*l.ps))/det, elsewhere.prefill),
		step:    near((float64(st*pp)-float64(pt*l.ps))/det, elsewhere.step),
	}
}

// square is what the time that so much dearer prompts and steps take adds to squares, over the length of all observations.
func (l *learned) square(r ratios) float64 {
	return float64(r.prefill*r.prefill*l.pp) + float64(2*r.prefill*r.step*l.ps) + float64(r.step*r.step*l.ss)
}

// scatter is the sum of the squares of what was observed less what these ratios say, each over its length.
func (l *learned) scatter(r ratios) float64 {
	return max(l.tt-2*(float64(r.prefill*l.pt)+float64(r.step*l.st))+l.square(r), 0)
}

// ratio solves them as if prompts and steps were dearer alike.
func (l *learned) ratio(elsewhere float64) float64 {
	return (l.pt + l.st + float64(elsewhere*2*drawMS)) / (l.pp + 2*l.ps + l.ss + 2*drawMS)
}

// enough reports whether what was observed, of prompts or of steps, weighs more than what is known from elsewhere.
func (l *learned) enough() bool { return max(l.pp, l.ss) > drawMS }

// costs are what a kind of engine costs before anything was measured.
type costs struct{ prefillMS, stepMS, perSequence, perKToken float64 }

func priorOf(class plugins.CapacityClass) costs {
	prefill, decode := 1.0, 1.0
	if class.Prefill > 0 {
		prefill = class.Prefill
	}
	if class.Decode > 0 {
		decode = class.Decode
	}
	return costs{priorPrefillMS / prefill, priorStepMS / decode, priorPerSequence / prefill, priorPerKToken / decode}
}

// classLoad is what is known of one class of hardware.
type classLoad struct {
	name string
	learned

	// How far observations are from what their own engines were seen to take, and of how many, as of the last tick.
	scattered evidence
}

// scatter is the variance of an observation of one millisecond, in milliseconds.
func (c *classLoad) scatter() float64 {
	if c.scattered.expected <= 0 {
		return 0
	}
	return c.scattered.observed / c.scattered.expected
}

// engineLoad is what is known of one engine.
type engineLoad struct {
	// What each decision reads comes first.
	told    plugins.EngineLoad // as of the last tick, or of what was learned since, without what the books say
	sampled pool.Instant       // of the sample that was reconciled
	foreign float64            // requests in the engine that are not our own, on average; may be below 0

	ref   pool.Ref
	class int // index into the pool's classes
	prior costs
	now   ratios // as told
	learned

	seen   pool.Tally // what of the books was learned
	worked int64      // Tally.BookedWork at the last tick
	busy   float64
	counts engineCounts
}

// foreigners returns how many requests of others are in the engine. What is less than one is noise of samples that are taken a
// little earlier than the books are read.
func (e *engineLoad) foreigners() float64 {
	if e.foreign < 1 {
		return 0
	}
	return e.foreign
}

// reconcile compares what an engine counted with the own requests that the sample can have seen.
func (e *engineLoad) reconcile(counted, own int32) {
	e.foreign += 0.3 * (float64(counted-own) - e.foreign)
}

// fleetLoad is what is known of one pool.
type fleetLoad struct {
	engines []engineLoad
	classes []classLoad
	all     learned

	snapshot *pool.Snapshot // of which was learned last
	touches  uint64         // of the books that were learned from
	touched  []pool.ID      // scratch

	anew      bool // an engine came, whose class is to be looked at
	ticked    pool.Instant
	began     pool.Instant
	arrived   int64 // since the last tick
	perSecond float64
	prompts   evidence // prefill milliseconds of requests (observed) over their number (expected)
	outputs   evidence // tokens of answers over their number
	reuse     evidence // cached tokens of prompts over all

	first    firstBytes
	others   others
	longMS   float64 // prefill of such prompts, since the last tick
	longPods float64
}

func newFleetLoad() *fleetLoad { return &fleetLoad{classes: []classLoad{{name: ""}}} }

func (f *fleetLoad) meanPrefill() float64 {
	if f.prompts.expected == 0 {
		return plugins.Unknown
	}
	return f.prompts.observed / f.prompts.expected
}

// output returns how many tokens an answer has on average, or how many a request may have if that is less.
func (f *fleetLoad) output(r *plugins.Request) float64 {
	tokens := usualOutput
	if f.outputs.expected > 0 {
		tokens = f.outputs.observed / f.outputs.expected
	}
	if body := r.Body; body != nil && body.MaxTokens >= 0 {
		tokens = min(tokens, float64(body.MaxTokens))
	}
	return tokens
}

func (f *fleetLoad) reused() float64 {
	if f.reuse.expected == 0 {
		return 0
	}
	return f.reuse.observed / f.reuse.expected
}

// ratios are how much dearer than its prior an engine is. Where nothing tells of prompts, those are as dear as steps are. Engines of a
// class are taken to be alike until one shows more than chance does, and to differ by that.
func (f *fleetLoad) ratios(e *engineLoad) ratios {
	if f.first.headers && !e.counts.byEngine() {
		r := e.ratio(f.classes[e.class].ratio(f.all.ratio(1)))
		return ratios{r, r}
	}
	class := f.ofClass(e)
	own := e.ratios(class)
	apart := ratios{own.prefill - class.prefill, own.step - class.step}
	shown, byChance := e.square(apart), chance*f.classes[e.class].scatter()
	if shown <= byChance {
		return class
	}
	kept := 1 - byChance/shown
	return ratios{class.prefill + float64(kept*apart.prefill), class.step + float64(kept*apart.step)}
}

func (f *fleetLoad) ofClass(e *engineLoad) ratios {
	return f.classes[e.class].ratios(f.all.ratios(ratios{1, 1}))
}

// scatter finds out how far observations of each class scatter.
func (f *fleetLoad) scatter(members []pool.ID) {
	for i := range f.classes {
		f.classes[i].scattered = evidence{}
	}
	for _, id := range members {
		e := &f.engines[id]
		f.classes[e.class].scattered.add(e.scatter(e.ratios(f.ofClass(e))), e.weight)
	}
}

// degree says where what is believed of an engine comes from.
func (f *fleetLoad) degree(e *engineLoad) plugins.Learned {
	switch {
	case e.enough():
		return plugins.Measured
	case f.all.enough():
		return plugins.OfClass
	}
	return plugins.Prior
}

// learn takes from the books what they tell that they did not before. Only engines that were written since are looked at, by
// number.
func (f *fleetLoad) learn(c *plugins.Cycle, books *pool.Books) {
	touches := books.Touches()
	if f.snapshot != c.Snapshot || touches-f.touches > pool.TouchesKept {
		f.snapshot, f.touches = c.Snapshot, touches
		for len(f.engines) < len(c.Snapshot.Slots) {
			f.engines = append(f.engines, engineLoad{})
		}
		for _, id := range c.Snapshot.Members {
			f.learnOf(c, id, books)
		}
		return
	}
	f.touched = f.touched[:0]
	for ; f.touches < touches; f.touches++ {
		// The cycle may have begun with a snapshot that is older than the books.
		if id := books.Touched(f.touches); int(id) < len(c.Snapshot.Slots) && c.Snapshot.Slots[id].Incarnation != 0 {
			f.touched = append(f.touched, id)
		}
	}
	slices.Sort(f.touched)
	for _, id := range slices.Compact(f.touched) {
		f.learnOf(c, id, books)
	}
}

func (f *fleetLoad) learnOf(c *plugins.Cycle, id pool.ID, books *pool.Books) {
	e, t := &f.engines[id], &books.Tallies[id]
	if ref := c.Snapshot.Slots[id].Ref; e.ref != ref {
		*e = engineLoad{ref: ref, seen: *t, worked: t.BookedWork, sampled: books.Samples[id].At, prior: priorOf(plugins.CapacityClass{})}
		f.tells(e)
		f.anew = true
	}
	if t.Booked != e.seen.Booked {
		f.booked(e, t)
	}
	begun, ended := t.Begun != e.seen.Begun, t.Ended != e.seen.Ended
	if begun {
		f.begun(e, t, &books.Samples[id])
	}
	if ended {
		f.ended(e, t)
	}
	if begun || ended {
		f.tells(e)
	}
}

// tells says what is believed of an engine's costs.
func (f *fleetLoad) tells(e *engineLoad) {
	e.now = f.ratios(e)
	e.told = plugins.EngineLoad{
		PrefillMSPerToken: e.now.prefill * e.prior.prefillMS,
		AttentionTokens:   attentionTokens,
		StepMS:            e.now.step * e.prior.stepMS,
		StepMSPerSequence: e.now.step * e.prior.perSequence,
		StepMSPerKToken:   e.now.step * e.prior.perKToken,
		Busy:              e.busy,
		CapacityTokens:    plugins.Unknown,
		PromisedTokens:    plugins.Unknown,
		Learned:           f.degree(e),
	}
}

// booked learns the traffic.
func (f *fleetLoad) booked(e *engineLoad, t *pool.Tally) {
	n, work, long := t.Booked-e.seen.Booked, t.BookedWork-e.seen.BookedWork, t.LongWork-e.seen.LongWork
	e.seen.Booked, e.seen.BookedWork, e.seen.LongWork = t.Booked, t.BookedWork, t.LongWork
	f.arrived += n
	ms := float64(work) * e.prior.prefillMS * e.now.prefill
	f.prompts.fade(1 - float64(n)/(float64(n)+256))
	f.prompts.add(ms, float64(n))
	f.reuse.fade(1 - float64(n)/(float64(n)+256))
	f.reuse.add(float64(t.Cached-e.seen.Cached), float64(t.Prompts-e.seen.Prompts))
	e.seen.Cached, e.seen.Prompts = t.Cached, t.Prompts
	f.longMS += float64(long) * e.prior.prefillMS * e.now.prefill
}

// begun learns from the times to first tokens. An engine out of memory, or of places for adapters, keeps prompts waiting for other
// reasons.
func (f *fleetLoad) begun(e *engineLoad, t *pool.Tally, s *pool.Sample) {
	n, waited, ahead, work := t.Begun-e.seen.Begun, t.Waited-e.seen.Waited, t.Ahead-e.seen.Ahead, t.BegunWork-e.seen.BegunWork
	beside, kiloTokens := t.BegunBeside-e.seen.BegunBeside, t.BegunKTokens-e.seen.BegunKTokens
	e.seen.Begun, e.seen.Waited, e.seen.Ahead, e.seen.BegunWork = t.Begun, t.Waited, t.Ahead, t.BegunWork
	e.seen.BegunBeside, e.seen.BegunKTokens = t.BegunBeside, t.BegunKTokens
	if short(s) {
		return
	}
	steps := stepsToFirstToken * (float64(n)*e.prior.stepMS + float64(beside*e.prior.perSequence) + float64(kiloTokens*e.prior.perKToken))
	took := waited.Seconds() * 1000
	f.first.prompts.add(took-float64(e.now.step*steps), float64(work)*e.prior.prefillMS)
	if f.first.headers || e.counts.byEngine() {
		return
	}
	f.observed(e, float64(ahead)*e.prior.prefillMS, steps, took, 1)
}

// ended learns from the times between first and last tokens.
func (f *fleetLoad) ended(e *engineLoad, t *pool.Tally) {
	was := e.seen
	s := &e.seen
	s.Ended, s.Steps, s.Decoding, s.Sequences, s.KTokens, s.Work = t.Ended, t.Steps, t.Decoding, t.Sequences, t.KTokens, t.Work
	n, steps, sequences := float64(t.Ended-was.Ended), float64(t.Steps-was.Steps), t.Sequences-was.Sequences
	f.outputs.fade(1 - n/(n+256))
	f.outputs.add(steps+n, n)
	if e.counts.gapsByEngine() {
		return
	}
	work := float64(steps*e.prior.stepMS) + float64(sequences*e.prior.perSequence) + float64((t.KTokens-was.KTokens)*e.prior.perKToken)
	f.observed(e, float64(t.Work-was.Work)*e.prior.prefillMS, work, (t.Decoding-was.Decoding).Seconds()*1000, sequences/steps)
}

// observed learns from a stretch of time in which an engine computed these prompts and steps, in milliseconds by its prior. Of so many
// sequences that saw the same time go by, each counts for its part. One that took long for another reason says little: what is
// believed moves by its clip, again and again if it is true.
func (f *fleetLoad) observed(e *engineLoad, prompts, steps, took, together float64) {
	believed := float64(e.now.prefill*prompts) + float64(e.now.step*steps)
	took = min(max(took, believed/mostOnce), believed*mostOnce)
	weight := 1 / max(together, 1)
	e.add(prompts, steps, took, weight)
	f.classes[e.class].add(prompts, steps, took, weight)
	f.all.add(prompts, steps, took, weight)
}

// isDue reports whether it is time for tick.
func (f *fleetLoad) isDue(now pool.Instant) bool { return f.anew || now-f.ticked >= tickEvery }

// classify gives engines their classes.
func (f *fleetLoad) classify(c *plugins.Cycle, classes []plugins.CapacityClass) {
	for _, id := range c.Candidates {
		e, class := &f.engines[id], classes[id]
		if f.classes[e.class].name == class.Class {
			continue
		}
		e.class = -1
		for i := range f.classes {
			if f.classes[i].name == class.Class {
				e.class = i
			}
		}
		if e.class < 0 {
			if len(f.classes) == mostClasses {
				e.class = 0
				continue
			}
			e.class = len(f.classes)
			f.classes = append(f.classes, classLoad{name: class.Class})
		}
		e.prior, e.learned = priorOf(class), learned{}
		f.tells(e)
	}
}

// mostClasses bounds the classes of one pool; beyond it they count as one that is not known.
const mostClasses = 64

// tick lets old evidence fade, and measures rates.
func (f *fleetLoad) tick(c *plugins.Cycle, books *pool.Books) {
	f.anew = false
	if f.began == 0 {
		f.began = c.Now
	}
	d := time.Duration(c.Now - max(f.ticked, f.began)).Seconds()
	f.ticked = c.Now
	age := time.Duration(c.Now - f.began).Seconds()
	over := func(constant float64) float64 { return d / (min(constant, age) + d) }
	if d > 0 {
		f.perSecond += over(trafficOver) * (float64(f.arrived)/d - f.perSecond)
		f.longPods += over(longOver) * (f.longMS/1000/d - f.longPods)
		f.arrived, f.longMS = 0, 0
	}
	kept := func(constant float64) float64 { return constant / (constant + d) }
	for _, id := range c.Snapshot.Members {
		e := &f.engines[id]
		e.fade(kept(engineForget))
		e.counts.fade(kept(classForget))
		if work := books.Tallies[id].BookedWork; d > 0 {
			share := float64(work-e.worked) * e.prior.prefillMS * e.now.prefill / 1000 / d
			e.worked = work
			e.busy = min(max(e.busy+d/(busyOver+d)*(share-e.busy), 0), mostBusy)
		}
	}
	for i := range f.classes {
		f.classes[i].fade(kept(classForget))
	}
	f.all.fade(kept(poolForget))
	f.scatter(c.Snapshot.Members)
	f.first.fade(kept(classForget))
	f.judgeFirstBytes(c, books)
	f.others.answers.fade(kept(classForget))
	if f.others.judge() {
		c.Note(reason.OthersUnheard, "")
	}
	for _, id := range c.Snapshot.Members {
		e := &f.engines[id]
		f.tells(e)
		books.Expect(id, time.Duration(e.told.PrefillMSPerToken*float64(time.Millisecond)))
	}
}
