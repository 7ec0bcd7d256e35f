package exchange

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Failed says that the endpoint at did not answer, before its first byte. With UpstreamUnreachable nothing of the request
// reached an engine, and the next endpoint of the list gets it: the booking moves and Forward comes back with what is left
// of the list. Otherwise, or at the list's end, Reply: a request that may have begun to generate is never repeated. Where
// the other side walks the list, at is where it gave up, and Reply comes back.
func (x *Exchange) Failed(now pool.Instant, at netip.AddrPort, why reason.ID) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.step != stepForwarded || x.answered || x.settled {
		return x.takenBack()
	}
	first := &x.legs[0]
	if x.via.Walks {
		x.walked(at)
	}
	x.failedAt(now, at, why)
	if why != reason.UpstreamUnreachable || x.via.Walks || x.tried+1 >= len(first.refs) {
		x.booksFall(now)
		x.ending = Ending{}
		a := x.refuseForwarded(now, why)
		return a
	}
	x.tried++
	x.pool().Move(now, first.booking, first.refs[x.tried], first.load)
	x.to = first.addrs[x.tried:]
	return Action{Do: Forward, To: x.to, Out: x.out, Respond: x.respond, Revocable: x.s.o.Built.Evicts()}
}

// failedAt tells of the endpoint that gave no answer, and of those before it where the other side walked by them. A gateway
// that names none failed for reasons of its own, such as a bound on its connections.
func (x *Exchange) failedAt(now pool.Instant, at netip.AddrPort, why reason.ID) {
	refs := x.legs[0].refs
	switch {
	case !x.via.Walks:
		x.attempt(plugins.Attempt{At: now, To: refs[x.tried], Failed: why, Waited: time.Duration(now - x.sent)})
		x.sent = now
	case at.IsValid():
		for _, ref := range refs[:x.tried] {
			x.attempt(plugins.Attempt{At: now, To: ref, Failed: reason.UpstreamUnreachable, Waited: plugins.Unknown})
		}
		x.attempt(plugins.Attempt{At: now, To: refs[x.tried], Failed: why, Waited: plugins.Unknown})
	}
}

// answering tells of the endpoint whose answer begins, and of those before it where the other side walked by them.
func (x *Exchange) answering(now pool.Instant) {
	refs := x.legs[0].refs
	a := plugins.Attempt{At: now, To: x.r.Served, Status: x.r.Status, Waited: time.Duration(now - x.sent)}
	if i := slices.Index(refs, x.r.Served); x.via.Walks && i > x.tried {
		for _, ref := range refs[x.tried:i] {
			x.attempt(plugins.Attempt{At: now, To: ref, Failed: reason.UpstreamUnreachable, Waited: plugins.Unknown})
		}
		a.Waited = plugins.Unknown
	}
	if a.To.Incarnation != 0 {
		x.attempt(a)
	}
}

func (x *Exchange) attempt(a plugins.Attempt) { x.plan().Attempt(x.s.o.Sink, &x.r, a) }

// walked notes how far the other side has come in the list. An endpoint that is not on it is tried when all of it were.
func (x *Exchange) walked(at netip.AddrPort) {
	all := x.legs[0].addrs
	x.tried = len(all) - 1
	if i := slices.Index(all, at); i >= 0 {
		x.tried = i
	}
}

// refuseForwarded ends an exchange that was forwarded, though nobody answered, with an error.
func (x *Exchange) refuseForwarded(now pool.Instant, why reason.ID) Action {
	no := &reason.Refusal{ID: why}
	if why == reason.UpstreamUnreachable {
		no.Detail = strconv.Itoa(x.tried+1) + " of " + strconv.Itoa(len(x.legs[0].refs)) + " endpoints tried"
	}
	x.settleAs(now, why)
	return x.refuse(now, no)
}

// refuseTooLarge ends an exchange whose body outgrew the limit after it was forwarded.
func (x *Exchange) refuseTooLarge(now pool.Instant) Action {
	x.booksFall(now)
	x.settleAs(now, reason.BodyTooLarge)
	return x.refuse(now, x.outgrown())
}

// Malformed says that the request's body cannot be read to its end, since its framing is wrong; what says how. The client may
// still be there: until an answer begins, Reply tells it.
func (x *Exchange) Malformed(now pool.Instant, what string) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.step == stepRefused || x.answered || x.settled || x.bodyEnd {
		return Action{Do: Ignore}
	}
	if x.step == stepForwarded {
		x.booksFall(now)
		x.settleAs(now, reason.MalformedRequest)
	}
	return x.refuse(now, reason.Refuse(reason.MalformedRequest, "%s", what))
}

// Response brings the answer's headers and who served; served is invalid where the transport does not say. The action's
// Out holds what the response's headers get. Reply says that the request was taken back meanwhile: the client gets that answer.
func (x *Exchange) Response(now pool.Instant, h openai.Headers, served netip.AddrPort, end bool) Action {
	if !x.s.responses.Load() && !x.s.responses.Swap(true) {
		x.s.sweepAborted(now)
	}
	x.mu.Lock()
	if x.step != stepForwarded || x.answered || x.settled {
		a := x.takenBack()
		x.mu.Unlock()
		return a
	}
	x.answered, x.firstByte = true, now
	x.letGoOfBytes()
	x.status = h.Get(":status")
	x.r.Status, _ = strconv.Atoi(x.status)
	x.attribute(now, served)
	x.pool().FirstByte(now, x.legs[0].booking)
	for i := 1; i < len(x.legs); i++ { // a prefill leg has done its part when the client's leg answers
		x.pool().End(now, x.legs[i].booking)
	}
	x.answering(now)
	x.plan().Respond(x.s.o.Sink, &x.r, plugins.FirstByte, nil)
	if x.shows(plugins.Chunks) && x.asksForBody() {
		x.usage = openai.NewUsageReader(x.r.API, h.Get(headerContentType), h.Get(headerContentCoder))
	}
	a := Action{Do: Forward, Respond: x.respond}
	a.Out.Set = openai.Headers{{Name: HeaderDecisionID, Value: x.ID}}
	if x.s.o.Conformance {
		a.Out.Set = append(a.Out.Set, openai.Header{Name: HeaderTestServed, Value: x.servedAddress(served)})
	}
	a.Out.Set = x.plan().Answer(x.s.o.Sink, &x.r, a.Out.Set)
	if end {
		x.finish(now, Ending{Clean: true})
	}
	x.mu.Unlock()
	x.s.dispatch(now)
	return a
}

func (x *Exchange) servedAddress(served netip.AddrPort) string {
	if served.IsValid() {
		return served.String()
	}
	return "fail: missing " + HeaderServed
}

// attribute compares who served with the pick, and moves the booking to who really did.
func (x *Exchange) attribute(now pool.Instant, served netip.AddrPort) {
	first := &x.legs[0]
	x.r.Served, x.r.ServedAt = first.refs[x.tried], served
	if !served.IsValid() {
		x.note(reason.ServedUnknown, "")
		return
	}
	served = netip.AddrPortFrom(served.Addr().Unmap(), served.Port())
	if served == first.addrs[x.tried] {
		if x.tried > 0 {
			x.note(reason.FallbackServed, "")
		}
		return
	}
	for i, at := range first.addrs {
		if at == served {
			x.note(reason.FallbackServed, "")
			x.move(now, first.refs[i])
			return
		}
	}
	x.note(reason.PickNotServed, "")
	snapshot := x.pool().Snapshot()
	if id, ok := snapshot.Lookup(served); ok {
		x.move(now, snapshot.Slots[id].Ref)
		return
	}
	x.r.Served = pool.Ref{}
	x.note(reason.ServedUnknown, "")
}

func (x *Exchange) move(now pool.Instant, to pool.Ref) {
	first := &x.legs[0]
	x.pool().Move(now, first.booking, to, first.load)
	x.r.Served = to
}

// Chunk brings a chunk of the answer where the transport shows it; end says that it is the last, or that trailers came.
// The chunk is not kept.
func (x *Exchange) Chunk(now pool.Instant, chunk []byte, end bool) Action {
	x.mu.Lock()
	if x.step != stepForwarded || x.settled {
		x.mu.Unlock()
		return Action{Do: Forward}
	}
	x.answerBytes += int64(len(chunk))
	if x.usage != nil {
		x.usage.Feed(chunk)
	}
	if len(chunk) > 0 && x.s.o.Built.Wants&plugins.Chunks != 0 {
		x.plan().Respond(x.s.o.Sink, &x.r, plugins.Chunks, chunk)
	}
	if end {
		x.finish(now, Ending{Clean: true})
	}
	x.mu.Unlock()
	if end {
		x.s.dispatch(now)
	}
	return Action{Do: Forward}
}

// End says that the exchange is over, as its source knows it. It is idempotent, comes from every exit of the adapter's
// handler and from the access log, and the first end wins. The end of a stream is the end of the answer unless the
// transport closes streams early and an access log is there to tell.
func (x *Exchange) End(now pool.Instant, e Ending) {
	x.mu.Lock()
	if e.From == FromLog {
		x.logCame = true
	}
	switch {
	case x.step == stepRefused:
	case x.step < stepForwarded: // the client went away while we read or held
		x.abandon(now)
	case x.settled:
		if e.From == FromLog {
			x.s.forget(x)
		}
	case e.From == FromLog:
		x.finish(now, e)
	case x.via.TellsEnd:
		x.finish(now, e)
	case x.streamTells():
		x.endOfStream(now)
	default:
		x.streamOver = true
	}
	x.mu.Unlock()
	x.s.dispatch(now)
}

// logIsLost ends an exchange whose stream has ended and whose log entry will not come. How the answer ended is not known;
// most end well.
func (x *Exchange) logIsLost(now pool.Instant) {
	x.mu.Lock()
	if x.streamOver && !x.settled && x.step == stepForwarded {
		x.note(reason.BookingExpired, "")
		x.logCame = true // nothing is awaited any more
		x.finish(now, Ending{Clean: true})
	}
	x.mu.Unlock()
	x.s.dispatch(now)
}

// wasAborted ends an exchange whose stream has ended without an answer, where answers are shown.
func (x *Exchange) wasAborted(now pool.Instant) {
	x.mu.Lock()
	broken := x.streamOver && !x.answered && !x.settled && x.step == stepForwarded
	if broken {
		x.endOfStream(now)
	}
	x.mu.Unlock()
	if broken {
		x.s.dispatch(now)
	}
}

// streamTells reports whether the end of the adapter's stream is the end of the answer.
func (x *Exchange) streamTells() bool {
	switch {
	case x.via.StreamLasts, x.watches():
		return true
	case !x.answered && x.s.responses.Load(): // answers are shown here, and this one had none; see sweepAborted
		return true
	case x.logAwaited(): // the entry tells, within milliseconds
		return false
	case x.answered: // nothing else will come
		return true
	}
	x.note(reason.ModeBlind, "") // answers are not shown: the deadline ends the booking
	return false
}

func (x *Exchange) logAwaited() bool { return !x.logCame && (x.via.Logs || x.s.logs.Load() > 0) }

// endOfStream: the stream ended, without saying how. The books fall at once; with an access log the outcome of a request
// that was answered is settled when its entry comes, or after a grace. One that was not answered was broken off, and its
// entry may know nothing of us: a gateway that ends a request before it has read our answer logs it without our metadata.
func (x *Exchange) endOfStream(now pool.Instant) {
	x.booksFall(now)
	switch {
	case !x.answered:
		x.finish(now, Ending{ByClient: true})
	case x.logAwaited():
		x.s.expect(x, now+pool.Instant(x.s.o.LogGrace))
	case x.watches(): // we would have seen a clean end
		x.finish(now, Ending{ByClient: true})
	default:
		x.finish(now, Ending{Clean: true})
	}
}

// abandon ends an exchange that was neither forwarded nor refused.
func (x *Exchange) abandon(now pool.Instant) {
	x.goesNowhere(now, reason.ClientAborted)
	x.step, x.settled = stepRefused, true
	x.isOver()
	x.note(reason.ClientAborted, "")
	x.r.Now = now
	x.s.o.Built.Leave(x.s.o.Sink, &x.r)
	x.s.forget(x)
	x.s.ring.put(x.record(), x.s.o.ConfigText)
	x.s.meter().Decided(x.metered(), reason.ClientAborted, now-x.began)
	x.letGoOfRequest()
}

func (x *Exchange) booksFall(now pool.Instant) {
	if x.booksDown {
		return
	}
	x.booksDown = true
	if u := x.usageOf(); u.Out > 0 && x.answered {
		x.pool().Progress(now, x.legs[0].booking, u.Out)
	}
	for i := range x.legs {
		x.pool().End(now, x.legs[i].booking)
	}
}

// finish ends a forwarded exchange: books, settlement, record.
func (x *Exchange) finish(now pool.Instant, e Ending) {
	x.ending = e
	if e.From == FromLog && e.Served.IsValid() && !x.answered {
		x.attribute(now, e.Served)
	}
	x.booksFall(now)
	ending := reason.ID(0)
	switch {
	case e.Clean:
	case e.ByClient:
		ending = reason.ClientAborted
	default:
		ending = reason.UpstreamBroken
	}
	if ending != 0 {
		x.note(ending, "")
	}
	x.settleAs(now, ending)
	x.letGoOfRequest()
	if e.From != FromLog && x.logAwaited() {
		x.s.expect(x, now+pool.Instant(x.s.o.LogGrace)) // its entry is still to come, and is no stranger
		return
	}
	x.s.forget(x)
}

func (x *Exchange) settle(now pool.Instant) {
	x.booksFall(now)
	x.settleAs(now, 0)
	x.letGoOfRequest()
}

// settleAs runs the settlers, exactly once, and completes the record.
func (x *Exchange) settleAs(now pool.Instant, ending reason.ID) {
	if x.settled {
		return
	}
	x.settled = true
	x.isOver()
	u := x.usageOf()
	x.noteReading(ending)
	if x.ending.UsagePartial {
		x.note(reason.UsagePartial, "")
	}
	o := plugins.Outcome{
		At: now, Ending: ending, Served: x.r.Served, TTFT: openai.Unknown, Held: time.Duration(x.decided - x.began), Total: time.Duration(now - x.began),
		Prompt: u.Prompt, Cached: u.Cached, Out: u.Out,
	}
	if x.step == stepTold {
		o.Out = 0
	}
	if x.answered {
		o.TTFT = time.Duration(x.firstByte - x.began)
	}
	if ending != 0 {
		o.EndingCode = ending.String()
	}
	o.ServedNamed = x.nameOf(x.r.Served)
	if x.s.o.Built.Wants&plugins.Usage != 0 && u == openai.NoUsage && ending == 0 {
		x.note(reason.UsageMissing, "")
	}
	x.s.o.Built.Settle(x.s.o.Sink, &x.r, o)
	if x.step == stepForwarded {
		x.s.meter().Settled(x.metered(), o)
	}
	x.outcome = &o
	x.s.ring.update(x.ID, func(r *Record) {
		r.Outcome = &o
		r.Reasons = append(r.Reasons[:len(r.Reasons):len(r.Reasons)], x.reasons[min(len(r.Reasons), len(x.reasons)):]...)
	})
}

// noteReading notes what was odd about an answer whose events we read.
func (x *Exchange) noteReading(ending reason.ID) {
	if x.usage == nil {
		return
	}
	x.usage.Close()
	if x.usage.Rejected() > 0 {
		x.note(reason.UsageRejected, "")
	}
	if x.usage.Skipped() > 0 {
		x.note(reason.EventSkipped, "")
	}
	if ending == 0 && x.r.API.Generates() && x.usage.Unterminated() {
		x.note(reason.NoTerminator, "")
	}
}

func (x *Exchange) nameOf(ref pool.Ref) string {
	if ref.Incarnation == 0 {
		return ""
	}
	for i, known := range x.legs[0].refs {
		if known == ref {
			return x.legs[0].names[i]
		}
	}
	if s := x.pool().Snapshot(); int(ref.ID) < len(s.Slots) && s.Slots[ref.ID].Ref == ref {
		return plugins.EndpointName(&s.Slots[ref.ID])
	}
	return ""
}
