package extproc

import (
	"net/netip"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logpb "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aipb "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	aitypepb "github.com/envoyproxy/go-control-plane/envoy/type/ai/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
)

// typedUsage is the typed metadata in which Envoy's ai_protocol_manager publishes the token usage of an answer.
const typedUsage = "envoy.ai.token_usage"

// StreamAccessLogs takes a gateway's access log: each entry that names a decision of ours is its end.
func (s *Server) StreamAccessLogs(io alspb.AccessLogService_StreamAccessLogsServer) error {
	scheduler := s.o.Scheduler()
	scheduler.LogOpened()
	defer func() { scheduler.LogClosed(s.o.Clock()) }()
	s.mu.Lock()
	s.logs[io.Context()] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.logs, io.Context())
		s.mu.Unlock()
	}()
	for {
		m, err := io.Recv()
		if err != nil {
			return nil // a gateway that goes away has nothing to be told
		}
		if id := m.GetIdentifier(); id != nil {
			s.o.Log.Info("access log connected", "node", id.GetNode().GetId(), "log", id.GetLogName())
		}
		for _, entry := range m.GetHttpLogs().GetLogEntry() {
			s.o.Received(LogEntry)
			if id, e, ours := readEntry(entry); ours {
				s.o.Scheduler().Ended(s.o.Clock(), id, e)
			}
		}
	}
}

// readEntry reads how a request ended. ours is false for entries without a decision of ours, for those that are not an
// end, and for requests that we refused, which were over before.
func readEntry(entry *logpb.HTTPAccessLogEntry) (id string, e exchange.Ending, ours bool) {
	common := entry.GetCommonProperties()
	switch common.GetAccessLogType() {
	case logpb.AccessLogType_NotSet, logpb.AccessLogType_DownstreamEnd:
	default:
		return "", e, false
	}
	id = field(common.GetMetadata(), nsOwn, keyDecisionID).GetStringValue()
	if id == "" || field(common.GetMetadata(), nsOwn, keyRefused) != nil {
		return "", e, false
	}
	flags := common.GetResponseFlags()
	e.From = exchange.FromLog
	e.ByClient = byClient(flags)
	e.Clean = !e.ByClient && !broken(flags)
	if e.Clean || common.GetTimeToFirstUpstreamRxByte() != nil { // otherwise it is where the request was sent, and nobody answered
		e.Served = readAddress(common.GetUpstreamRemoteAddress())
	}
	e.Usage, e.UsagePartial = readUsage(common.GetMetadata())
	return id, e, true
}

// byClient reports whether the client broke the exchange off.
func byClient(f *logpb.ResponseFlags) bool {
	return f.GetDownstreamConnectionTermination() || f.GetDownstreamRemoteReset() || f.GetDownstreamProtocolError()
}

// broken reports whether the answer did not come, or not to its end, for another reason than the client.
func broken(f *logpb.ResponseFlags) bool {
	return f.GetUpstreamRemoteReset() || f.GetUpstreamProtocolError() ||
		f.GetUpstreamConnectionFailure() || f.GetUpstreamConnectionTermination() || f.GetLocalReset() ||
		f.GetUpstreamRequestTimeout() || f.GetStreamIdleTimeout() || f.GetDurationTimeout() || f.GetUpstreamMaxStreamDurationReached() ||
		f.GetUpstreamOverflow() || f.GetUpstreamRetryLimitExceeded() || f.GetNoHealthyUpstream() || f.GetFailedLocalHealthcheck() ||
		f.GetNoRouteFound() || f.GetNoClusterFound() || f.GetDnsResolutionFailure() || f.GetOverloadManager()
}

func readAddress(a *corepb.Address) netip.AddrPort {
	at := a.GetSocketAddress()
	ip, err := netip.ParseAddr(at.GetAddress())
	if err != nil || at.GetPortValue() > 65535 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(at.GetPortValue()))
}

// readUsage returns the token usage that the gateway read from the answer, nil without it; partial says that some of what
// reports it was lost, so that the numbers may be early ones.
//
// The gateway counts what was read from a cache, or written to one, as input. Anthropic's API does not: there it is taken out
// again, so that the numbers are those of the answer, as in the other modes.
func readUsage(m *corepb.Metadata) (usage *openai.Usage, partial bool) {
	packed := m.GetTypedFilterMetadata()[typedUsage]
	var u aipb.TokenUsage
	if packed == nil || packed.UnmarshalTo(&u) != nil {
		return nil, false
	}
	details := u.GetInputTokenDetails()
	usage = &openai.Usage{
		Prompt: tokens(u.GetInputTokens()), Cached: tokens(details.GetCachedTokens()), Out: tokens(u.GetOutputTokens()),
	}
	if usage.Prompt > 0 && u.GetLlmProtocol() == aitypepb.LLMProtocol_ANTHROPIC_MESSAGES {
		usage.Prompt = max(usage.Prompt-max(usage.Cached, 0)-max(tokens(details.GetCacheCreationTokens()), 0), 0)
	}
	return usage, u.GetExtractionStatus() == aipb.TokenUsage_PARTIAL
}

// maxTokens is the largest number of tokens that is believed of an answer.
const maxTokens = 1_000_000_000

func tokens(v *wrapperspb.UInt64Value) int64 {
	if v == nil || v.GetValue() > maxTokens {
		return openai.Unknown
	}
	return int64(v.GetValue())
}
