package exchange

import (
	"net/netip"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Do says what the adapter does next.
type Do uint8

const (
	// Continue: go on reading, keep the bytes that came.
	Continue Do = iota
	// Hold: wait for Wake or the stream's end, then call Resume.
	Hold
	// Reply: answer the client with Action.Reply and end.
	Reply
	// Forward: send the request to Action.To: answer the headers, release the kept bytes, then each chunk as it comes,
	// edited by Action.Out.Edits. For calls after the first Forward: pass this message on.
	Forward
	// Ignore: drop this message; it says what was said already.
	Ignore
)

// String returns the name of d.
func (d Do) String() string { return [...]string{"continue", "hold", "reply", "forward", "ignore"}[d] }

// Action is what an entry point tells its adapter.
type Action struct {
	Do Do
	// To is where to forward: the primary, then fallbacks in order.
	To []netip.AddrPort
	// Out is what the request, or in the answer of Response the response, gets and loses on its way.
	Out plugins.Outgoing
	// Reply is the complete answer for Do Reply, shaped for the API kind.
	Reply *openai.Reply
	// Respond is what we must see of the answer.
	Respond plugins.Parts
	// Revocable says that a request that is forwarded may be taken back before its answer begins: the adapter is woken then.
	Revocable bool
}

// Via is what an adapter knows of its transport when the headers arrive.
type Via struct {
	// Adapter names the transport in the record.
	Adapter string
	// Fallbacks: a list of destinations can be walked. Without it one address is sent, unless the configuration asks a picker
	// for more.
	Fallbacks bool
	// Walks: it is the other side that turns to the next destination when one cannot be reached, so that what Failed says is
	// final. Without it Failed says where to go next.
	Walks bool
	// Subset are the entries of the subset hint, as sent; HasSubset tells an empty hint from an absent one.
	Subset    []string
	HasSubset bool
	// Sees are the parts of an answer that this transport can show. Chooses: it shows no more of them than Action.Respond
	// asks for; else it shows them always.
	Sees    plugins.Parts
	Chooses bool
	// StreamLasts: the transport's stream stays open until the answer is over, whatever we see of it.
	StreamLasts bool
	// TellsEnd: the transport knows how the exchange ended, and its Ending is taken as it is. Else the end of its stream says
	// no more than that something ended.
	TellsEnd bool
	// Logs: the other side says that it writes an access log to us, so that an entry is to come also while no log stream is
	// open yet.
	Logs bool
	// LogsUsage: entries of that log carry the token usage of answers, so that nothing of their bodies need be shown for it.
	LogsUsage bool
}

// Source says from where an end is known.
type Source uint8

// The sources.
const (
	FromStream Source = iota // the adapter's handler returned
	FromLog                  // an access-log entry
)

// Ending is how an exchange ended, as its source knows it. Neither clean nor by the client: the upstream broke.
type Ending struct {
	From            Source
	Clean, ByClient bool
	Usage           *openai.Usage
	// UsagePartial: some of what reports usage was lost before it was read.
	UsagePartial bool
	// Served is the endpoint that an access-log entry names; invalid when unknown.
	Served netip.AddrPort
}

// Waker has the adapter call Resume. It never blocks.
type Waker interface{ Wake() }

// Alarm tells the edge of a deadline before the one that Tick returned. It never blocks.
type Alarm interface{ At(pool.Instant) }
