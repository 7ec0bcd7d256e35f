package exchange

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// step is where an exchange stands.
type step uint8

const (
	stepHeaders   step = iota // stages at headers
	stepBody                  // reading until enough is known
	stepResolve               // stages at resolve
	stepDescribe              // facts, stages at describe
	stepAdmit                 // stages at admit
	stepSchedule              // choose and book
	stepTold                  // booked, and held for a second look
	stepForwarded             // on its way to an endpoint
	stepRefused               // answered by us
)

// Exchange is one request and its answer. All entry points may be called from any goroutine; calls after the end do
// nothing.
type Exchange struct {
	// ID names the decision: ours, never a client's header. It travels as dynamic metadata.
	ID string

	s  *Scheduler
	mu sync.Mutex
	r  plugins.Request

	// Begin.
	began pool.Instant
	via   Via
	step  step
	stage int // the next stage of the step

	// Headers.
	expected                  int64 // content-length, Unknown without one
	newFairness, newObjective bool  // said by a header of the newer name

	// Body.
	body    body
	bodyEnd bool

	// Schedule and commit.
	want    int
	legs    []leg
	prompt  int64 // tokens, as booked
	decided pool.Instant
	foresaw plugins.Foreseen
	to      []netip.AddrPort
	out     plugins.Outgoing
	respond plugins.Parts
	refusal *reason.Refusal
	may     func(*pool.Endpoint) bool // who may take it, by hints; nil: all
	lookAt  pool.Instant              // when it is looked at a second time
	looks   int
	second  *SecondLook
	freed   atomic.Bool // it has given back what others may wait for
	pending *Action     // decided by the dispatcher, to be fetched by Resume
	revoked *Action     // the reply of a request that was taken back

	// Respond.
	tried       int          // index into legs[0] of the endpoint that is being tried
	sent        pool.Instant // when the request went to that one; where the other side walks the list, to the first
	firstByte   pool.Instant
	answered    bool
	answerBytes int64 // of the body, as far as it comes by us
	status      string
	usage       *openai.UsageReader

	// End.
	booksDown  bool
	settled    bool
	logCame    bool
	streamOver bool        // the adapter's stream ended, and that was not the end of the answer
	over       atomic.Bool // settled or refused, readable without the lock
	ending     Ending
	outcome    *plugins.Outcome

	// Records.
	trace     []plugins.ProfileRecord
	reasons   []string
	transport map[string]string

	due      pool.Instant // guarded by the run's lock
	dueIndex int
}

// leg is one booked leg, copied out of the cycle.
type leg struct {
	profile string
	refs    []pool.Ref
	addrs   []netip.AddrPort
	names   []string
	load    pool.Load
	booking pool.Booking
}

// Headers brings the client's headers, pseudo-headers among them; end says that no body follows.
func (x *Exchange) Headers(now pool.Instant, h openai.Headers, via Via, end bool) Action {
	return x.held(now, x.headersCame(now, h, via, end))
}

func (x *Exchange) headersCame(now pool.Instant, h openai.Headers, via Via, end bool) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.step != stepHeaders {
		return Action{Do: Ignore}
	}
	x.r.Now, x.via, x.bodyEnd = now, via, end
	if refusal := x.readHeaders(h); refusal != nil {
		return x.refuse(now, refusal)
	}
	if end && x.body.strict {
		return x.refuse(now, reason.Refuse(reason.MalformedJSON, "the body is empty"))
	}
	return x.advance(now)
}

// Body brings the next chunk of the request's body, which stays valid and unchanged until Forward or Reply; end says that
// it is the last. A second end is counted and ignored. A body whose length nobody declared may turn out too long when its
// request is on its way: until the answer begins, Reply then says so, and the adapter breaks off what it sends.
func (x *Exchange) Body(now pool.Instant, chunk []byte, end bool) Action {
	return x.held(now, x.bodyCame(now, chunk, end))
}

func (x *Exchange) bodyCame(now pool.Instant, chunk []byte, end bool) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bodyEnd {
		if end || len(chunk) > 0 {
			x.note(reason.SecondEndOfStream, "")
		}
		return Action{Do: Ignore}
	}
	x.bodyEnd = end
	if refusal := x.readBody(chunk, end); refusal != nil {
		return x.refuse(now, refusal)
	}
	switch x.step {
	case stepForwarded:
		if x.body.bytes > x.s.o.MaxBodyBytes && !x.answered && !x.settled {
			return x.refuseTooLarge(now)
		}
		return Action{Do: Forward}
	case stepRefused:
		return Action{Do: Ignore}
	case stepBody:
		x.r.Now = now
		return x.advance(now)
	}
	return Action{Do: Hold} // a stage holds; the chunk is kept
}

// Unseen says that the transport shows nothing more of the request's body before the request is on its way: what came must
// do. Called after Continue; else it does nothing.
func (x *Exchange) Unseen(now pool.Instant) Action { return x.held(now, x.unseen(now)) }

func (x *Exchange) unseen(now pool.Instant) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.step != stepBody || x.bodyEnd {
		return Action{Do: Ignore}
	}
	x.r.Now, x.bodyEnd = now, true
	x.passesUnread()
	return x.advance(now)
}

// Said is what a client's headers would have said, and what would have been resolved from them, in virtual time.
type Said struct {
	FairnessID, Objective string
	Priority              int32

	// Headers are those of which stages and producers make something themselves, such as the latencies that the client wants.
	// They must not change while the request runs.
	Headers openai.Headers
}

// Described takes the place of headers and body in virtual time: a trace has no bytes, its hashes come with the summary.
func (x *Exchange) Described(now pool.Instant, s *openai.Summary, by Said) Action {
	return x.held(now, x.described(now, s, by))
}

func (x *Exchange) described(now pool.Instant, s *openai.Summary, by Said) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.r.Now, x.r.API, x.r.Body, x.bodyEnd = now, openai.ChatCompletions, s, true
	x.r.Headers, x.r.FairnessID, x.r.Objective, x.r.Target.Priority = by.Headers, by.FairnessID, by.Objective, by.Priority
	x.via = Via{Adapter: "virtual", Fallbacks: true, Sees: plugins.FirstByte | plugins.Usage, StreamLasts: true, TellsEnd: true}
	x.body.done = true
	return x.advance(now)
}

// Resume is called after Wake: it fetches what was decided meanwhile, or enters the holding stage again. Without cause it
// returns Hold again, and Ignore for a request that is on its way. Where its Action said Revocable, such a request may be
// woken, too: Reply then says that it was taken back.
func (x *Exchange) Resume(now pool.Instant) Action { return x.held(now, x.resumed(now)) }

func (x *Exchange) resumed(now pool.Instant) Action {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.pending != nil:
		a := *x.pending
		x.pending = nil
		return a
	case x.step == stepForwarded || x.step == stepRefused || x.settled:
		return x.takenBack()
	case x.s.draining.Load() && x.step != stepTold: // what is booked goes
		return x.refuse(now, &reason.Refusal{ID: reason.ShuttingDown})
	}
	x.r.Now = now
	return x.advance(now)
}

// advance is the page to read: the phases one beneath the other, each entered again where it held.
func (x *Exchange) advance(now pool.Instant) Action {
	if x.step == stepHeaders {
		if x.s.draining.Load() {
			return x.refuse(now, &reason.Refusal{ID: reason.ShuttingDown})
		}
		if a, passed := x.stages(now, plugins.AtHeaders); !passed {
			return a
		}
		x.step = stepBody
	}
	if x.step == stepBody {
		if !x.readEnough() {
			return Action{Do: Continue}
		}
		x.step = stepResolve
	}
	if x.step == stepResolve {
		if a, passed := x.stages(now, plugins.AtResolve); !passed {
			return a
		}
		if refusal := x.resolve(); refusal != nil {
			return x.refuse(now, refusal)
		}
		x.step = stepDescribe
	}
	if x.step == stepDescribe {
		if a, passed := x.stages(now, plugins.AtDescribe); !passed {
			return a
		}
		refusal := x.plan().Describe(x.s.o.Sink, &x.r)
		x.takeNotes()
		if refusal != nil {
			return x.refuse(now, refusal)
		}
		x.step = stepAdmit
	}
	if x.step == stepTold {
		return x.look(now)
	}
	for {
		if x.step == stepAdmit {
			if a, passed := x.stages(now, plugins.AtAdmit); !passed {
				return a
			}
			x.step = stepSchedule
		}
		a, full := x.schedule(now)
		if !full {
			return a
		}
		x.step, x.stage = stepAdmit, x.s.o.Built.QueueStage() // it did not fit any more: enter the queue again
		if a, passed := x.stages(now, plugins.AtAdmit); !passed {
			return a
		}
		x.step = stepSchedule
	}
}

// stages runs the stages of a phase from where the exchange stands. passed false: a is what to do meanwhile.
func (x *Exchange) stages(now pool.Instant, p plugins.Phase) (a Action, passed bool) {
	b := x.s.o.Built
	for ; x.stage < b.Stages(p); x.stage++ {
		v := b.Enter(x.s.o.Sink, p, x.stage, &x.r)
		x.takeNotes()
		switch {
		case v.Refusal != nil:
			return x.refuse(now, v.Refusal), false
		case v.Reply != nil:
			x.step, x.settled = stepRefused, true
			x.isOver()
			x.s.meter().Decided(Metered{API: x.r.API, Model: x.r.Model(), Request: openai.Unknown, Answer: openai.Unknown, Prompt: openai.Unknown, Matched: openai.Unknown, Foreseen: unforeseen}, 0, now-x.began)
			x.letGoOfRequest()
			return Action{Do: Reply, Reply: v.Reply}, false
		case v.Until == plugins.Forever:
			return Action{Do: Hold}, false
		case v.Until != 0 && v.Until <= now:
			return x.refuse(now, &reason.Refusal{ID: v.Late}), false
		case v.Until != 0:
			x.s.expect(x, v.Until)
			return Action{Do: Hold}, false
		}
	}
	x.stage = 0
	return Action{}, true
}

// resolve gives a request that no stage has resolved to the only pool.
func (x *Exchange) resolve() *reason.Refusal {
	b := x.s.o.Built
	if x.r.Target.Pool == "" {
		if len(b.Plans) > 1 {
			return reason.Refuse(reason.ModelRequired, "the request names no model, and %d pools serve here", len(b.Plans))
		}
		x.r.Target.Pool = b.Plans[0].Pool.Name
	}
	if x.r.Target.Model == "" {
		x.r.Target.Model = x.r.Model()
	}
	if x.r.Target.Subscription != "" { // what was proved counts before what was claimed
		x.r.FairnessID = x.r.Target.Subscription
	}
	x.r.PoolIndex = b.PoolIndex(x.r.Target.Pool)
	if x.r.PoolIndex < 0 {
		return reason.Refuse(reason.Internal, "pool %q is not in the configuration", x.r.Target.Pool)
	}
	return nil
}

func (x *Exchange) plan() *plugins.Plan { return x.s.o.Built.Plans[x.r.PoolIndex] }
func (x *Exchange) pool() *pool.Pool    { return x.s.o.Pools[x.r.PoolIndex] }

// refuse ends the exchange with an error, shaped for the API.
func (x *Exchange) refuse(now pool.Instant, no *reason.Refusal) Action {
	forwarded := x.step == stepForwarded // its decision was counted then
	x.goesNowhere(now, no.ID)
	x.step, x.refusal, x.settled = stepRefused, no, true
	x.isOver()
	if no.Noted {
		x.reasons = append(x.reasons, no.ID.String())
	} else {
		x.note(no.ID, no.Detail)
	}
	row := no.ID.Row()
	x.r.Refused = no.ID
	x.s.o.Built.Leave(x.s.o.Sink, &x.r)
	x.s.forget(x)
	x.s.ring.put(x.record(), x.s.o.ConfigText)
	if !forwarded {
		x.s.meter().Decided(x.metered(), no.ID, now-x.began)
	}
	message := row.Means
	if no.Detail != "" {
		message += ": " + no.Detail
	}
	retryAfter := no.RetryAfter
	if retryAfter == 0 {
		retryAfter = row.RetryAfter
	}
	reply := openai.ErrorReply(x.r.API, row.Status, row.Code, message, retryAfter, row.Dropped)
	reply.Headers = reply.Headers.Set(HeaderDecisionID, x.ID)
	reply.Details = row.Code
	x.letGoOfRequest()
	return Action{Do: Reply, Reply: reply}
}

// letGoOfRequest gives back what only a running request needs. The exchange is refused or settled: nothing reads it again.
func (x *Exchange) letGoOfRequest() {
	x.body.release()
	if x.usage != nil {
		x.usage.Close()
	}
	x.r.Release(x.s.o.Built)
}

// isOver says that the exchange is settled or refused.
func (x *Exchange) isOver() {
	if !x.over.Swap(true) {
		x.letGoOfBytes()
		x.s.running.Add(-1)
		x.s.live.Add(-1)
	}
}

// note counts an occurrence of a reason and keeps it for the record.
func (x *Exchange) note(id reason.ID, detail string) {
	x.s.o.Sink.Note(id, detail)
	x.reasons = append(x.reasons, id.String())
}

// takeNotes notes what stages and describers told of.
func (x *Exchange) takeNotes() {
	for _, n := range x.r.TakeNotes() {
		x.note(n.ID, n.Detail)
	}
}

// Transport adds a line to the transport section of the record.
func (x *Exchange) Transport(key, value string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := make(map[string]string, len(x.transport)+1) // records that were handed out share the old map
	for k, v := range x.transport {
		next[k] = v
	}
	next[key] = value
	x.transport = next
	x.s.ring.update(x.ID, func(r *Record) { r.Transport = next })
}

// expire is called when the exchange's deadline has come: a hold is entered again and refused by its stage's bound, a
// booking ends, a log entry is waited for no longer.
func (x *Exchange) expire(now pool.Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.s.expected(x): // it went on meanwhile, and has another
	case x.step < stepForwarded:
		x.r.Wake() // the adapter resumes, and the stage sees its instant passed
	case x.step == stepForwarded && !x.settled:
		if !x.booksDown {
			x.note(reason.BookingExpired, "")
		}
		x.settle(now)
		x.s.forget(x)
	default:
		x.s.forget(x)
	}
}
