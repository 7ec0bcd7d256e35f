package plugins

import (
	"math"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Phase says when a stage runs.
type Phase uint8

// The phases of a stage, in the order in which they run.
const (
	AtHeaders  Phase = iota // before the body: identity, forged headers
	AtResolve               // the model is known: which pool, adapter, provider
	AtDescribe              // facts of the request from outside, such as exact tokens
	AtAdmit                 // limits and the queue
	phases
)

// String returns the phase's name as configuration output prints it.
func (p Phase) String() string {
	return [...]string{"headers", "resolve", "describe", "admit"}[p]
}

// Reads says how much of a request somebody must have seen.
type Reads uint8

// The amounts, each including those before it.
const (
	ReadsHeaders Reads = iota
	ReadsModel         // the body up to its "model"
	ReadsBody          // the whole body
)

// BodyReader is implemented by a stage that needs less or more of the body than its phase suggests: without it a stage at
// headers reads headers, one at resolve the model, later ones the whole body. A describer without it reads the whole body.
type BodyReader interface{ Reads() Reads }

// Stage runs before scheduling, by phase and then in the order of the configuration. Enter is called again after each
// Wake until it passes or refuses; a wake without cause is normal. Calls for one request never overlap; calls for
// different requests do.
type Stage interface {
	Phase() Phase
	Enter(r *Request) Verdict
}

// Verdict is a stage's answer. The zero Verdict passes.
type Verdict struct {
	Refusal *reason.Refusal // ends the exchange with an error
	Reply   *openai.Reply   // ends the exchange with an answer of our own
	Until   pool.Instant    // hold until Wake, or until this instant, when Late becomes the refusal
	Late    reason.ID
}

// Passes reports whether the verdict lets the request go on.
func (v Verdict) Passes() bool { return v.Refusal == nil && v.Reply == nil && v.Until == 0 }

// Forever is the instant of a hold that has no deadline of its own: whoever holds ends it.
const Forever = pool.Instant(math.MaxInt64)

// Attacher is implemented by a plugin that looks at pools outside of a decision, such as a stage that asks how busy they are.
type Attacher interface {
	// Attach tells it the pools, aligned with those of the configuration, once and before the first request.
	Attach(pools []*pool.Pool, sink reason.Sink)
}

// Queue is the one stage that waits for capacity. Its Enter passes a request that need not wait, and holds others with
// Until Forever: it ends their waiting itself, by Next.
//
// Whoever runs the queue asks for Next, one call at a time, whenever something may have changed: a request was held, one began
// to be answered or ended, the membership or a sample changed, or Deadline has come. Fits, Suits, Admitted and Nobody are called
// inside the pool's critical section, and may not call the pool; all other methods may be called from any goroutine.
type Queue interface {
	Stage
	Attacher

	// Next hands out a request that may go now, or one whose waiting is over with a refusal; ok is false when there is none.
	Next(now pool.Instant) (r *Request, no *reason.Refusal, ok bool)

	// Fits is asked before the decision, for fresh requests and those that Next handed out alike, so that admission and
	// booking are one step. It may narrow the candidates by [Cycle.Restrict]. On false without a refusal nothing is booked and
	// the request is entered again: Enter must hold it then.
	Fits(c *Cycle, books *pool.Books) (fits bool, no *reason.Refusal)

	// Suits is asked about the legs that the decision of a request that fitted has chosen, before anything is booked. On false
	// nothing is, and the request is entered again, as after Fits.
	Suits(c *Cycle, legs []Leg) bool

	// Admitted says that a request that fitted was booked at an endpoint, for this load.
	Admitted(r *Request, to pool.Ref, load pool.Load)

	// Nobody says that the decision of a request that fitted left no endpoint, and why. It reports whether the request waits
	// in place of being refused; it is then entered again, as after Fits.
	Nobody(r *Request, why *reason.Refusal) bool

	// Leave says that a request waits no longer, though Next did not hand it out or it was not booked: its client has gone, or
	// it was refused. Calls for requests that are not known change nothing.
	Leave(r *Request)

	// Deadline returns when Next has something to do though nothing else happens: Forever if those who wait have no deadline,
	// and 0 while nobody waits.
	Deadline() pool.Instant

	// Drain has Next hand out everybody, whether there is room or not: they are refused, since the process ends.
	Drain()
}

// Readmitter is implemented by a queue that has something to say of a request that it admitted, and that is decided a second time
// before it goes, since other replicas chose the same endpoint. Readmit is called inside the pool's critical section in place of Fits
// and Suits, and may narrow the candidates by [Cycle.Restrict]; on false the first choice stands. Admitted is not called again.
type Readmitter interface {
	Readmit(c *Cycle, books *pool.Books) bool
}

// Evictor is implemented by a queue that takes running requests back, to make room for those that wait. Whoever runs the queue
// asks for Evict whenever Next has nobody left, and calls neither for two threads at a time.
type Evictor interface {
	// Evicts reports whether it may ever take a request back; what adapters need for that costs something.
	Evicts() bool

	// Evict names a request that was booked, to be taken back before its answer begins, and the refusal that its client gets;
	// ok is false where there is none. Evicted is called for each that it names.
	Evict(now pool.Instant) (r *Request, no *reason.Refusal, ok bool)

	// Evicted says whether a request was taken back. If not, it will never be: its answer had begun, or its transport shows
	// nothing of it any more. One that was is settled as well, with the refusal's reason.
	Evicted(now pool.Instant, r *Request, taken bool)
}

// Describer makes facts of the request, once, after it was resolved and before it is admitted.
type Describer interface{ Describe(r *Request) }

// Producer makes facts per endpoint, in each cycle, before any filter and before the pool's lock. An endpoint of which
// it knows nothing keeps Unknown in the column.
type Producer interface{ Produce(c *Cycle) }

// Observer is implemented by a producer that learns from samples and books. Observe is called in each cycle, inside the
// pool's lock and before any profile runs; it is short, and keeps nothing of books.
type Observer interface {
	Observe(c *Cycle, books *pool.Books)
}

// Witness is implemented by a producer that learns what comes of what it foresaw. Chosen is called in the cycle, inside the
// pool's lock, when the handler has chosen and before anything is booked: facts and books are those of the decision. It is
// short, and keeps nothing of books and legs. A replay does not call it.
type Witness interface {
	Chosen(c *Cycle, books *pool.Books, legs []Leg)
}

// Admitter is implemented by a plugin that may refuse a request when all is known of it and of the endpoints that may take it. Admit
// is called in each cycle, inside the pool's lock, after observers and before any profile runs: what waited in a queue is judged
// when its turn comes. nil admits. It is pure, reads facts, and belongs to no profile; a replay does not call it.
type Admitter interface {
	Admit(c *Cycle) *reason.Refusal
}

// Filter clears in keep the bit of each candidate that it removes. keep arrives with all bits set and is aligned with
// c.Candidates. A filter is pure: same facts, parameters and stream, same answer.
type Filter interface{ Filter(c *Cycle, keep Bits) }

// Structural is implemented by a filter that removes endpoints which cannot serve the request whatever their load: by label,
// by role, by name. Where such filters alone have removed everybody there is no endpoint, and waiting does not help; where
// others took part, everybody is too busy.
type Structural interface{ Structural() }

// Scorer writes one score in [0,1] per candidate into out, which arrives zeroed and as long as c.Candidates. Scores
// outside are clamped by the framework; NaN counts as 0 with a reason. A scorer is pure.
type Scorer interface {
	Score(c *Cycle, out []float64)
}

// Explainer is implemented by a scorer whose score is made of parts that an operator wants to see. Explain says of what the one
// of c.Candidates[i] is made, in one line; it is called for decisions that are recorded, after Score, and is as pure.
type Explainer interface {
	Explain(c *Cycle, i int) string
}

// Picker appends to best the indexes into c.Candidates of the chosen ones, best first: at least one, at most want, unless
// its parameters say otherwise. totals is aligned with c.Candidates. A picker is pure.
type Picker interface {
	Pick(c *Cycle, totals []float64, want int, best []int) []int
}

// ProfileHandler is ordinary code over c.Run: it runs profiles and returns legs. legs[0] serves the client; prefill or
// encode legs are booked in the same step. No legs and no refusal means that a run left nobody; the framework then
// refuses with the reason of that run.
type ProfileHandler interface {
	Handle(c *Cycle) (legs []Leg, no *reason.Refusal)
}

// Result is what one run of a profile chose: the primary, then fallbacks. Empty when nobody was left.
type Result struct{ Endpoints []pool.ID }

// Leg is one endpoint's part in serving a request.
type Leg struct {
	Profile string
	Result
}

// Claimer is implemented by a plugin that has to know of a booking before the next decision is made. Claim is called inside the
// pool's lock, right after the legs were booked. A booking may be given back before its request goes anywhere, for it to be decided
// anew: Unclaim then takes back what Claim noted, inside the pool's lock too, and Claim follows with the other choice, unless the
// request is refused. Both are short, allocate nothing, and keep nothing of legs and books. A request that goes away after Claim is
// settled.
type Claimer interface {
	Claim(r *Request, legs []Leg, books *pool.Books)
	Unclaim(r *Request)
}

// Booker is implemented by a plugin that has something to tell of a booking once it stands. Booked is called once for each request
// that goes to an endpoint, inside the pool's lock, after Claim and before any RequestHook; it is short, allocates nothing, and keeps
// nothing of legs and books. The membership may be another by then than that of the decision.
type Booker interface {
	Booked(r *Request, legs []Leg, books *pool.Books)
}

// Hearer is implemented by a plugin that wants to know of requests that other replicas of the picker decided: Hear says that one
// with this chain of block hashes, of so many tokens each, was sent to an endpoint. It is called outside the pool's lock and from any
// goroutine, and keeps no chain.
type Hearer interface {
	Hear(poolIndex int, now pool.Instant, to pool.Ref, chain []uint64, blockTokens int)
}

// Policy is implemented by a plugin that another one names in its parameters, see [Refer], and that serves no point of the
// framework itself. Serves says as what.
type Policy interface{ Serves() string }

// RequestHook runs after booking; it may add headers and edits of the body.
type RequestHook interface {
	Commit(r *Request, legs []Leg, out *Outgoing)
}

// ResponseHook sees parts of the answer. Wants says the least that it must see; the response mode follows from the union
// over all hooks. part names what this call brings; chunk is set with Chunks alone and must not be kept.
type ResponseHook interface {
	Wants() Parts
	Respond(r *Request, part Parts, chunk []byte)
}

// AttemptHook hears how each endpoint of the client's leg takes the request, as soon as that is known and before any
// ResponseHook: of those that were tried in vain, and of the one whose answer begins. Calls for one request never overlap. Where
// nothing is seen of answers it hears nothing.
type AttemptHook interface {
	Attempted(r *Request, a Attempt)
}

// Attempt is how one endpoint took a request.
type Attempt struct {
	At     pool.Instant
	To     pool.Ref
	Failed reason.ID     // UpstreamUnreachable or UpstreamBroken; 0: its answer begins
	Status int           // of the answer; 0 without one, and where the transport does not show it
	Waited time.Duration // since the decision, or since the endpoint before failed; Unknown where the other side walks the list
}

// HealthTeller is implemented by a plugin that watches over endpoints, for metrics and debugging. Health is called inside the
// pool's lock; ok is false for an endpoint of which the plugin does not know.
type HealthTeller interface {
	Health(poolIndex int, now pool.Instant, of pool.Ref) (h Health, ok bool)
}

// AnswerHook adds headers to an answer when its own headers have come and every ResponseHook has seen its first byte. It
// appends to set, or changes what it set there before, and returns the outcome. Answers of our own have no hooks.
type AnswerHook interface {
	Answer(r *Request, set openai.Headers) openai.Headers
}

// Settler runs exactly once for each request that was committed, or that passed its stage.
type Settler interface{ Settle(r *Request, o Outcome) }

// Provisioner is called once per configuration, after strict decoding and bounds, before the first request. It takes
// handles of facts and ports, refuses parameters that are wrong only together, and warns of those that have no effect
// ([Builder.Warn]). It has no side effects: a configuration is provisioned again when producers are added, and when it is
// only checked. Plugins that make facts are provisioned twice in a row, the first time without knowing of those that follow.
type Provisioner interface{ Provision(b *Builder) error }

// Heir is implemented by a plugin whose state is worth keeping when the configuration is replaced, such as an index. Inherit
// is called after Provision and before the first request, with the plugin of the same name and type in the configuration that
// is replaced, if all its parameters are the same. That one goes on serving the requests that it has: what both share must be
// safe for both. pools gives, by the index of each pool here, the index of the same pool there, -1 for one that is new.
type Heir interface {
	Inherit(from any, pools []int)
}

// Ticker acts later: Tick is called at the instant it last asked for and returns its next deadline, 0 for none. It is
// called once at the start.
type Ticker interface {
	Tick(now pool.Instant) (next pool.Instant)
}

// Parts are parts of an answer.
type Parts uint8

// The parts.
const (
	FirstByte Parts = 1 << iota // the answer's headers came
	Usage                       // the token usage at the end
	Chunks                      // every chunk of the body
	Rewrite                     // every chunk, and the hook changes them
)

// Outgoing is what the decision adds to the request.
type Outgoing struct {
	Set    openai.Headers // set or replaced
	Remove []string       // removed, whatever the number of copies
	Edits  []openai.Edit  // of the client's body, ascending and disjoint
}

// Outcome is how a request ended.
type Outcome struct {
	At          pool.Instant  `json:"-"`                // when
	Ending      reason.ID     `json:"-"`                // 0: a clean end
	Served      pool.Ref      `json:"-"`                // who really answered; zero Incarnation when nobody did or nobody said
	TTFT        time.Duration `json:"ttftNanos"`        // from the request's first byte to the answer's; Unknown without one
	Held        time.Duration `json:"heldNanos"`        // from the request's first byte to the decision, the queue included
	Total       time.Duration `json:"totalNanos"`       // to the end
	Prompt      int64         `json:"promptTokens"`     // as reported; Unknown when nobody said
	Cached      int64         `json:"cachedTokens"`     // likewise
	Out         int64         `json:"completionTokens"` // likewise
	EndingCode  string        `json:"ending,omitempty"` // the code of Ending
	ServedNamed string        `json:"served,omitempty"` // the name of Served
}
