package extproc

import (
	"net/netip"

	"google.golang.org/grpc/codes"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/h2"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
)

// typedUsage is the typed metadata in which Envoy's ai_protocol_manager publishes the token usage of an answer.
const typedUsage = "envoy.ai.token_usage"

// logStream takes a gateway's access log: each entry that names a decision of ours is its end.
type logStream struct {
	s         *Server
	io        *h2.Stream
	scheduler *exchange.Scheduler // the one that was told
}

func (s *Server) openLog(io *h2.Stream) *logStream {
	l := &logStream{s, io, s.o.Scheduler()}
	l.scheduler.LogOpened()
	s.mu.Lock()
	s.logs[l] = struct{}{}
	s.mu.Unlock()
	return l
}

// Message takes the entries of a message.
func (l *logStream) Message(m []byte) {
	log, err := wire.ReadLog(m)
	if err != nil {
		l.s.o.Received(Unknown)
		l.s.o.Log.Warn("a gateway's access log cannot be read", "error", err)
		l.io.Finish(codes.Internal, err.Error())
		return
	}
	if log.Identified {
		l.s.o.Log.Info("access log connected", "node", log.Node, "log", log.Name)
	}
	for entry, err := range log.Entries {
		l.s.o.Received(LogEntry)
		if err != nil {
			l.s.o.Log.Warn("an entry of a gateway's access log cannot be read", "error", err)
			continue
		}
		if id, e, ours := readEntry(entry); ours {
			l.s.o.Scheduler().Ended(l.s.o.Clock(), id, e)
		}
	}
}

// HalfClosed: a gateway that goes away has nothing to be told, but is sent the one answer that the method has.
func (l *logStream) HalfClosed() {
	l.io.Send(nil, nil, false)
	l.finish()
}

// Over tells the scheduler.
func (l *logStream) Over() {
	l.s.mu.Lock()
	delete(l.s.logs, l)
	l.s.mu.Unlock()
	l.scheduler.LogClosed(l.s.o.Clock())
}

func (l *logStream) finish() { l.io.Finish(codes.OK, "") }

// readEntry reads how a request ended. ours is false for entries without a decision of ours, for those that are not an
// end, and for requests that we refused, which were over before.
func readEntry(entry *wire.LogEntry) (id string, e exchange.Ending, ours bool) {
	if entry.Type != wire.LogNotSet && entry.Type != wire.LogDownstreamEnd {
		return "", e, false
	}
	id = entry.Metadata.Value(nsOwn, keyDecisionID).Text()
	if id == "" || entry.Metadata.Value(nsOwn, keyRefused).Has() {
		return "", e, false
	}
	e.From = exchange.FromLog
	e.ByClient = entry.Flags&byClient != 0
	e.Clean = entry.Flags&(byClient|broken) == 0
	if e.Clean || entry.Answered { // otherwise it is where the request was sent, and nobody answered
		e.Served = readAddress(entry)
	}
	e.Usage, e.UsagePartial = readUsage(entry.Metadata)
	return id, e, true
}

// byClient says that the client broke the exchange off.
const byClient = wire.DownstreamConnectionTermination | wire.DownstreamRemoteReset | wire.DownstreamProtocolError

// broken says that the answer did not come, or not to its end, for another reason than the client.
const broken = wire.UpstreamRemoteReset | wire.UpstreamProtocolError |
	wire.UpstreamConnectionFailure | wire.UpstreamConnectionTermination | wire.LocalReset |
	wire.UpstreamRequestTimeout | wire.StreamIdleTimeout | wire.DurationTimeout | wire.UpstreamMaxStreamDurationReached |
	wire.UpstreamOverflow | wire.UpstreamRetryLimitExceeded | wire.NoHealthyUpstream | wire.FailedLocalHealthcheck |
	wire.NoRouteFound | wire.NoClusterFound | wire.DNSResolutionFailure | wire.OverloadManager

func readAddress(entry *wire.LogEntry) netip.AddrPort {
	ip, err := netip.ParseAddr(entry.Address)
	if err != nil || entry.Port > 65535 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(entry.Port))
}

// readUsage returns the token usage that the gateway read from the answer, nil without it; partial says that some of what
// reports it was lost, so that the numbers may be early ones.
//
// The gateway counts what was read from a cache, or written to one, as input. Anthropic's API does not: there it is taken out
// again, so that the numbers are those of the answer, as in the other modes.
func readUsage(m wire.Metadata) (usage *openai.Usage, partial bool) {
	u, has := m.Usage(typedUsage)
	if !has {
		return nil, false
	}
	usage = &openai.Usage{Prompt: tokens(u.Input), Cached: tokens(u.Cached), Out: tokens(u.Output)}
	if usage.Prompt > 0 && u.Protocol == wire.AnthropicMessages {
		usage.Prompt = max(usage.Prompt-max(usage.Cached, 0)-max(tokens(u.CacheWritten), 0), 0)
	}
	return usage, u.Extraction == wire.ExtractionPartial
}

// maxTokens is the largest number of tokens that is believed of an answer.
const maxTokens = 1_000_000_000

// tokens is a number of tokens; one that nobody told or that cannot be is unknown.
func tokens(n uint64) int64 {
	if n > maxTokens {
		return openai.Unknown
	}
	return int64(n)
}
