package extproc

import (
	"net/netip"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logpb "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aipb "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	aitypepb "github.com/envoyproxy/go-control-plane/envoy/type/ai/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// logEntry is the entry of a request that 10.0.0.2:8000 served.
func logEntry(id string, flags *logpb.ResponseFlags) *logpb.HTTPAccessLogEntry {
	e := &logpb.HTTPAccessLogEntry{CommonProperties: &logpb.AccessLogCommon{
		AccessLogType: logpb.AccessLogType_DownstreamEnd, ResponseFlags: flags, TimeToFirstUpstreamRxByte: durationpb.New(time.Millisecond),
		UpstreamRemoteAddress: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: "10.0.0.2", PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 8000},
		}}},
	}}
	if id != "" {
		e.CommonProperties.Metadata = filterMetadata(nsOwn, keyDecisionID, id)
	}
	return e
}

func TestReadEntry(t *testing.T) {
	served := netip.MustParseAddrPort("10.0.0.2:8000")
	clean := exchange.Ending{From: exchange.FromLog, Clean: true, Served: served}
	aborted := exchange.Ending{From: exchange.FromLog, ByClient: true, Served: served}
	broken := exchange.Ending{From: exchange.FromLog, Served: served}
	with := func(change func(*logpb.AccessLogCommon)) *logpb.HTTPAccessLogEntry {
		e := logEntry("d", nil)
		change(e.CommonProperties)
		return e
	}
	cases := []struct {
		name  string
		entry *logpb.HTTPAccessLogEntry
		want  exchange.Ending
		ours  bool
	}{
		{"no flags is a clean end", logEntry("d", nil), clean, true},
		{"informational flags are a clean end", logEntry("d", &logpb.ResponseFlags{DelayInjected: true}), clean, true},
		{"the client's connection ended", logEntry("d", &logpb.ResponseFlags{DownstreamConnectionTermination: true}), aborted, true},
		{"the client reset its stream", logEntry("d", &logpb.ResponseFlags{DownstreamRemoteReset: true}), aborted, true},
		{"the upstream died mid-answer over HTTP/1.1", logEntry("d", &logpb.ResponseFlags{UpstreamProtocolError: true}), broken, true},
		{"the upstream reset over HTTP/2", logEntry("d", &logpb.ResponseFlags{UpstreamRemoteReset: true}), broken, true},
		{"nobody accepted", with(func(c *logpb.AccessLogCommon) {
			c.ResponseFlags = &logpb.ResponseFlags{UpstreamConnectionFailure: true, UpstreamRetryLimitExceeded: true}
			c.TimeToFirstUpstreamRxByte = nil
		}), exchange.Ending{From: exchange.FromLog}, true},
		{"the client left before anybody answered", with(func(c *logpb.AccessLogCommon) {
			c.ResponseFlags = &logpb.ResponseFlags{DownstreamConnectionTermination: true}
			c.TimeToFirstUpstreamRxByte = nil
		}), exchange.Ending{From: exchange.FromLog, ByClient: true}, true},
		{"an idle stream was cut", logEntry("d", &logpb.ResponseFlags{StreamIdleTimeout: true}), broken, true},
		{"no decision of ours", logEntry("", nil), exchange.Ending{}, false},
		{"a request that we refused", with(func(c *logpb.AccessLogCommon) {
			c.Metadata.FilterMetadata[nsOwn].Fields[keyRefused] = structpb.NewStringValue("queue_full")
		}), exchange.Ending{}, false},
		{"a periodic entry is no end", with(func(c *logpb.AccessLogCommon) {
			c.AccessLogType = logpb.AccessLogType_DownstreamPeriodic
		}), exchange.Ending{}, false},
		{"an older gateway does not say the type", with(func(c *logpb.AccessLogCommon) { c.AccessLogType = 0 }), clean, true},
		{"no upstream", with(func(c *logpb.AccessLogCommon) { c.UpstreamRemoteAddress = nil }),
			exchange.Ending{From: exchange.FromLog, Clean: true}, true},
		{"the gateway read the usage", with(func(c *logpb.AccessLogCommon) {
			packed, err := anypb.New(&aipb.TokenUsage{
				InputTokens: wrapperspb.UInt64(7), OutputTokens: wrapperspb.UInt64(9),
				InputTokenDetails: &aipb.InputTokenDetails{CachedTokens: wrapperspb.UInt64(4)},
			})
			if err != nil {
				t.Fatal(err)
			}
			c.Metadata.TypedFilterMetadata = map[string]*anypb.Any{typedUsage: packed}
		}), exchange.Ending{From: exchange.FromLog, Clean: true, Served: served, Usage: &openai.Usage{Prompt: 7, Cached: 4, Out: 9}}, true},
		{"Anthropic's usage is counted as its API does", with(func(c *logpb.AccessLogCommon) {
			packed, _ := anypb.New(&aipb.TokenUsage{
				LlmProtocol: aitypepb.LLMProtocol_ANTHROPIC_MESSAGES, InputTokens: wrapperspb.UInt64(25), OutputTokens: wrapperspb.UInt64(40),
				InputTokenDetails: &aipb.InputTokenDetails{CachedTokens: wrapperspb.UInt64(6), CacheCreationTokens: wrapperspb.UInt64(2)},
			})
			c.Metadata.TypedFilterMetadata = map[string]*anypb.Any{typedUsage: packed}
		}), exchange.Ending{From: exchange.FromLog, Clean: true, Served: served, Usage: &openai.Usage{Prompt: 17, Cached: 6, Out: 40}}, true},
		{"usage of which a part was lost", with(func(c *logpb.AccessLogCommon) {
			packed, _ := anypb.New(&aipb.TokenUsage{InputTokens: wrapperspb.UInt64(7), ExtractionStatus: aipb.TokenUsage_PARTIAL})
			c.Metadata.TypedFilterMetadata = map[string]*anypb.Any{typedUsage: packed}
		}), exchange.Ending{From: exchange.FromLog, Clean: true, Served: served, UsagePartial: true, Usage: &openai.Usage{Prompt: 7, Cached: openai.Unknown, Out: openai.Unknown}}, true},
		{"usage that could not be read, or not be believed, is none", with(func(c *logpb.AccessLogCommon) {
			packed, _ := anypb.New(&aipb.TokenUsage{InputTokens: wrapperspb.UInt64(1 << 40), ExtractionStatus: aipb.TokenUsage_FAILED})
			c.Metadata.TypedFilterMetadata = map[string]*anypb.Any{typedUsage: packed}
		}), exchange.Ending{From: exchange.FromLog, Clean: true, Served: served, Usage: &openai.Usage{Prompt: openai.Unknown, Cached: openai.Unknown, Out: openai.Unknown}}, true},
		{"usage that is not given is unknown", with(func(c *logpb.AccessLogCommon) {
			packed, _ := anypb.New(&aipb.TokenUsage{OutputTokens: wrapperspb.UInt64(9)})
			c.Metadata.TypedFilterMetadata = map[string]*anypb.Any{typedUsage: packed}
		}), exchange.Ending{From: exchange.FromLog, Clean: true, Served: served, Usage: &openai.Usage{Prompt: openai.Unknown, Cached: openai.Unknown, Out: 9}}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			raw, err := proto.Marshal(c.entry)
			var entry wire.LogEntry
			if err == nil {
				err = wire.ReadLogEntry(raw, &entry)
			}
			if err != nil {
				t.Fatal(err)
			}
			id, got, ours := readEntry(&entry)
			if ours != c.ours || ours && id != "d" {
				t.Fatalf("ours %v, id %q; want %v", ours, id, c.ours)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.AddrPort{})); ours && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLogEndsAnExchange: with response body NONE and no trailers the stream ends at once, and the entry tells the end.
func TestLogEndsAnExchange(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  *logpb.ResponseFlags
		ending string
		tokens []string
		early  bool // the log's stream is open before
	}{
		{"clean", nil, "", nil, true},
		{"aborted", &logpb.ResponseFlags{DownstreamConnectionTermination: true}, reason.ClientAborted.String(), nil, true},
		{"broken", &logpb.ResponseFlags{UpstreamProtocolError: true}, reason.UpstreamBroken.String(), nil, true},
		{"the gateway says that a log will come", nil, "", []string{TokenLog}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{})
			var log alspb.AccessLogService_StreamAccessLogsClient
			connect := func() {
				log = g.log()
				if err := log.Send(&alspb.StreamAccessLogsMessage{
					Identifier: &alspb.StreamAccessLogsMessage_Identifier{Node: &corepb.Node{Id: "envoy-1"}, LogName: "fairlead"},
					LogEntries: &alspb.StreamAccessLogsMessage_HttpLogs{HttpLogs: &alspb.StreamAccessLogsMessage_HTTPAccessLogEntries{
						LogEntry: []*logpb.HTTPAccessLogEntry{logEntry("", nil)},
					}},
				}); err != nil {
					t.Fatal(err)
				}
				g.untilReceived(LogEntry, 1)
			}
			if c.early {
				connect()
			}
			gw := g.open(c.tokens...)
			gw.headers(duplex, none)
			gw.body(chat, true)
			id := inMetadata(gw.answerTo().metadata, nsOwn, keyDecisionID)
			gw.responseHeaders("10.0.0.1:8000", false)
			gw.recv()
			gw.done()
			if g.booked() == 0 || g.scheduler.Open() != 1 {
				t.Error("the books fell with the stream, though the answer still runs")
			}
			if !c.early {
				connect()
			}
			for range 2 { // the second one changes nothing
				if err := log.Send(&alspb.StreamAccessLogsMessage{LogEntries: &alspb.StreamAccessLogsMessage_HttpLogs{
					HttpLogs: &alspb.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logpb.HTTPAccessLogEntry{logEntry(id, c.flags)}},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			if o := g.outcome(); o.EndingCode != c.ending || o.ServedNamed != "ns/10.0.0.1:8000" {
				t.Errorf("it ended with %q, served by %q; want %q", o.EndingCode, o.ServedNamed, c.ending)
			}
			g.zero()
		})
	}
}
