package fleet

import (
	"net/netip"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Request is one request of a workload.
type Request struct {
	// At is when it arrives.
	At pool.Instant

	// Prompt and Output are tokens, at least 1 each. Output is what the engine generates; nobody but the engine knows it.
	Prompt, Output int32

	// MaxTokens is the client's bound on generated tokens, 0 for none.
	MaxTokens int32

	// Hashes name the contents of the full blocks of prompt and output, in order, each for everything up to its end. Blocks
	// beyond its length are shared with nobody. It must not change while the request runs.
	Hashes []uint64

	// Model is the name that the client asks for. Adapter is its LoRA adapter in the engine, 0 for none.
	Model   string
	Adapter int32

	// TTFT and ITL are what the client says that it wants: the time to its first token, and between two; 0 where it says nothing.
	TTFT, ITL time.Duration

	// GivesUp is how long after its arrival the client goes away, whatever it got by then; 0: never.
	GivesUp pool.Instant

	// Session, Tenant and Class group requests in reports; Priority is what the client may claim. Session is what a client
	// that keeps its connection would keep it for.
	Session, Tenant, Class int32
	Priority               int32

	// Next is the source's own note about what follows.
	Next int32
}

// Source yields the requests of a run in order of arrival. It is used by one goroutine.
type Source interface {
	// BlockTokens is the size, in tokens, of the blocks that the requests' hashes name.
	BlockTokens() int32

	// Peek returns the arrival of the next request that is known; false when none is, before some running one ends or ever.
	Peek() (pool.Instant, bool)

	// Pop takes the request of which Peek told. It stays unchanged until Done.
	Pop() *Request

	// Done says that a request ended, well or not. What follows it, such as a conversation's next turn, is known afterwards,
	// and does not arrive before now.
	Done(now pool.Instant, r *Request, s Status)
}

// Decider is all that the fleet knows of a scheduler. Calls come from one goroutine in order of now. Members are numbered
// from 0 in the order in which they first joined, and known to it by [Addr]; a number is never given out twice.
type Decider interface {
	// Members tells the membership, at the start and when it changes.
	Members(now pool.Instant, m []pool.Endpoint)

	// Observe brings a reading of an engine, as late, lossy or wrong as the scenario says.
	Observe(now pool.Instant, member int32, s pool.Sample)

	// Arrive asks for a decision. The summary says what a scheduler may know; r is for policies that look at more, such as the
	// client's session.
	Arrive(now pool.Instant, number uint64, r *Request, s *openai.Summary) Answer

	// Unreachable says that nobody listened at the member that was chosen: nothing of the request reached an engine. The answer
	// names another, or refuses.
	Unreachable(now pool.Instant, number uint64, member int32) Answer

	// FirstToken and Finish say how the answer goes. A request that is not clean was broken off, by its engine or because its
	// client went away; the latter may come while it is held.
	FirstToken(now pool.Instant, number uint64)
	Finish(now pool.Instant, number uint64, u openai.Usage, clean bool)

	// Due is asked at the instant next of the call before, and after every event in which requests are held. It appends to
	// released those held ones that may go or are refused, and those that it takes back from their engine before their first
	// token, which are refused; of these it hears nothing more. next is 0 for never.
	Due(now pool.Instant, released []Answer) (_ []Answer, next pool.Instant)
}

// Answer is a decision.
type Answer struct {
	Number uint64

	// Held: not decided yet; Due releases it. Then the rest means nothing.
	Held bool

	// Refused is the code of the refusal, empty if it was not refused. To is the member that serves.
	Refused string
	To      int32

	// Split has another member, Prefill, compute the prompt first; To fetches its keys and values from there and generates.
	Split   bool
	Prefill int32
}

const port = 8000

// Addr returns the address of a member: 10.0.0.0 plus its number.
func Addr(member int32) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(member >> 16), byte(member >> 8), byte(member)}), port)
}

// Member is the inverse of Addr.
func Member(a netip.AddrPort) int32 {
	b := a.Addr().As4()
	return int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3])
}
