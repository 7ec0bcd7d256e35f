package plugins

import (
	"fmt"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// guard calls f and turns a panic into a refusal that names the plugin. It is the one place where panics of plugins end.
func guard(sink reason.Sink, id reason.ID, name func() string, f func()) (no *reason.Refusal) {
	defer func() {
		if p := recover(); p != nil {
			sink.Note(id, fmt.Sprintf("%s: %v", name(), p))
			no = &reason.Refusal{ID: id, Detail: fmt.Sprintf("plugin %q failed", name()), Noted: true}
		}
	}()
	f()
	return nil
}

// Enter runs one stage on r. A panic refuses the request.
func (b *Built) Enter(sink reason.Sink, p Phase, i int, r *Request) (v Verdict) {
	it := b.stages[p][i]
	if no := guard(sink, reason.PluginPanic, func() string { return it.name }, func() { v = it.value.(Stage).Enter(r) }); no != nil {
		return Verdict{Refusal: no}
	}
	return v
}

// Stages returns how many stages run at phase p.
func (b *Built) Stages(p Phase) int { return len(b.stages[p]) }

// StageNames returns the names of the stages at phase p, in order.
func (b *Built) StageNames(p Phase) []string {
	var names []string
	for _, it := range b.stages[p] {
		names = append(names, it.name)
	}
	return names
}

// Describe makes the facts of the request that somebody of the pool reads.
func (p *Plan) Describe(sink reason.Sink, r *Request) *reason.Refusal {
	for _, f := range p.describes {
		f(r)
	}
	for _, it := range p.describers {
		if no := guard(sink, reason.PluginPanic, func() string { return it.name }, func() { it.value.(Describer).Describe(r) }); no != nil {
			return no
		}
	}
	return nil
}

// Claim tells the pool's claimers of legs that were just booked, inside the pool's lock. One that panics is left out, with a reason:
// the booking stands.
func (p *Plan) Claim(sink reason.Sink, r *Request, legs []Leg, books *pool.Books) {
	for _, it := range p.claimers {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(Claimer).Claim(r, legs, books) })
	}
}

// Unclaim tells them that what was booked was given back, inside the pool's lock.
func (p *Plan) Unclaim(sink reason.Sink, r *Request) {
	for _, it := range p.claimers {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(Claimer).Unclaim(r) })
	}
}

// Booked tells the pool's bookers of legs whose booking stands, inside the pool's lock. One that panics is left out, with a reason.
func (p *Plan) Booked(sink reason.Sink, r *Request, legs []Leg, books *pool.Books) {
	for _, it := range p.bookers {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(Booker).Booked(r, legs, books) })
	}
}

// Commit runs the pool's request hooks. A hook that panics is left out, with a reason: the decision is booked and stands.
func (p *Plan) Commit(sink reason.Sink, r *Request, legs []Leg, out *Outgoing) {
	for _, it := range p.commits {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(RequestHook).Commit(r, legs, out) })
	}
}

// Health returns how an endpoint is, as the plugin says that watches over it; ok is false where none does.
func (b *Built) Health(poolIndex int, now pool.Instant, of pool.Ref) (h Health, ok bool) {
	for _, it := range b.instances {
		if t, tells := it.value.(HealthTeller); tells {
			if h, ok = t.Health(poolIndex, now, of); ok {
				return h, true
			}
		}
	}
	return h, false
}

// Attempt tells the pool's attempt hooks.
func (p *Plan) Attempt(sink reason.Sink, r *Request, a Attempt) {
	for _, it := range p.attempts {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(AttemptHook).Attempted(r, a) })
	}
}

// Respond runs the pool's response hooks that want part.
func (p *Plan) Respond(sink reason.Sink, r *Request, part Parts, chunk []byte) {
	for _, it := range p.responds {
		if h := it.value.(ResponseHook); h.Wants()&part != 0 {
			_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { h.Respond(r, part, chunk) })
		}
	}
}

// Answer runs the pool's answer hooks. What a hook that panics had set is left out.
func (p *Plan) Answer(sink reason.Sink, r *Request, set openai.Headers) openai.Headers {
	for _, it := range p.answers {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { set = it.value.(AnswerHook).Answer(r, set) })
	}
	return set
}

// Settle tells every settler how the request ended.
func (b *Built) Settle(sink reason.Sink, r *Request, o Outcome) {
	for _, it := range b.settlers {
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { it.value.(Settler).Settle(r, o) })
	}
}

// Tick calls each ticker and returns the earliest next deadline, 0 for none. A ticker that panics is called again a second
// later.
func (b *Built) Tick(sink reason.Sink, now pool.Instant) (next pool.Instant) {
	for _, it := range b.tickers {
		n := now + pool.Instant(time.Second)
		_ = guard(sink, reason.HookPanic, func() string { return it.name }, func() { n = it.value.(Ticker).Tick(now) })
		if n > 0 && (next == 0 || n < next) {
			next = n
		}
	}
	return next
}

// Fits asks the queue whether the request of c may be decided and booked; without a queue everything fits. It is called
// inside the pool's lock, after Prepare. A panic refuses the request.
func (b *Built) Fits(sink reason.Sink, c *Cycle, books *pool.Books) (fits bool, no *reason.Refusal) {
	if b.queue == nil {
		return true, nil
	}
	if panicked := guard(sink, reason.PluginPanic, b.queueName, func() { fits, no = b.queue.Fits(c, books) }); panicked != nil {
		return false, panicked
	}
	return fits, no
}

// Suits asks the queue whether the request of c may go where its decision has it go. A panic lets it go.
func (b *Built) Suits(sink reason.Sink, c *Cycle, legs []Leg) (suits bool) {
	if b.queue == nil {
		return true
	}
	return guard(sink, reason.HookPanic, b.queueName, func() { suits = b.queue.Suits(c, legs) }) != nil || suits
}

// Admitted tells the queue that r was booked.
func (b *Built) Admitted(sink reason.Sink, r *Request, to pool.Ref, load pool.Load) {
	if b.queue != nil {
		_ = guard(sink, reason.HookPanic, b.queueName, func() { b.queue.Admitted(r, to, load) })
	}
}

// Readmit asks the queue whether a request that it admitted may be decided again. On a panic it may not.
func (b *Built) Readmit(sink reason.Sink, c *Cycle, books *pool.Books) (may bool) {
	again, ok := b.queue.(Readmitter)
	if !ok {
		return true
	}
	_ = guard(sink, reason.HookPanic, b.queueName, func() { may = again.Readmit(c, books) })
	return may
}

// Nobody tells the queue that the decision of r left nobody, and reports whether r waits.
func (b *Built) Nobody(sink reason.Sink, r *Request, why *reason.Refusal) (waits bool) {
	if b.queue == nil {
		return false
	}
	return guard(sink, reason.PluginPanic, b.queueName, func() { waits = b.queue.Nobody(r, why) }) == nil && waits
}

// Leave tells the queue that r waits no longer.
func (b *Built) Leave(sink reason.Sink, r *Request) {
	if b.queue != nil {
		_ = guard(sink, reason.HookPanic, b.queueName, func() { b.queue.Leave(r) })
	}
}

// Next asks the queue who may go, or is refused. A panic lets nobody go.
func (b *Built) Next(sink reason.Sink, now pool.Instant) (r *Request, no *reason.Refusal, ok bool) {
	if guard(sink, reason.PluginPanic, b.queueName, func() { r, no, ok = b.queue.Next(now) }) != nil {
		return nil, nil, false
	}
	return r, no, ok
}

// Evicts reports whether the queue takes running requests back.
func (b *Built) Evicts() bool {
	e, ok := b.queue.(Evictor)
	return ok && e.Evicts()
}

// Evict asks the queue for a request that is to be taken back. A panic takes nobody back.
func (b *Built) Evict(sink reason.Sink, now pool.Instant) (r *Request, no *reason.Refusal, ok bool) {
	e, is := b.queue.(Evictor)
	if !is || !e.Evicts() {
		return nil, nil, false
	}
	if guard(sink, reason.PluginPanic, b.queueName, func() { r, no, ok = e.Evict(now) }) != nil {
		return nil, nil, false
	}
	return r, no, ok
}

// Evicted tells the queue what became of a request that it named.
func (b *Built) Evicted(sink reason.Sink, now pool.Instant, r *Request, taken bool) {
	if e, is := b.queue.(Evictor); is {
		_ = guard(sink, reason.PluginPanic, b.queueName, func() { e.Evicted(now, r, taken) })
	}
}

func (b *Built) queueName() string {
	if i := b.QueueStage(); i >= 0 {
		return b.stages[AtAdmit][i].name
	}
	return "queue"
}
