package wire_test

import (
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logpb "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aipb "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	aitypepb "github.com/envoyproxy/go-control-plane/envoy/type/ai/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
)

const usageName = "envoy.ai.token_usage"

func drawAddress(t *rapid.T) *corepb.Address {
	switch rapid.IntRange(0, 4).Draw(t, "address") {
	case 0:
		return nil
	case 1:
		return &corepb.Address{Address: &corepb.Address_Pipe{Pipe: &corepb.Pipe{Path: "/run/a"}}}
	case 2:
		return &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: "10.0.0.1", PortSpecifier: &corepb.SocketAddress_NamedPort{NamedPort: "http"},
		}}}
	}
	return &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
		Address: text.Draw(t, "address"), PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: rapid.Uint32().Draw(t, "port")},
	}}}
}

func drawWrapped(t *rapid.T) *wrapperspb.UInt64Value {
	if rapid.Bool().Draw(t, "given") {
		return wrapperspb.UInt64(rapid.Uint64().Draw(t, "tokens"))
	}
	return nil
}

func drawEntry(t *rapid.T) *logpb.HTTPAccessLogEntry {
	c := &logpb.AccessLogCommon{
		AccessLogType: logpb.AccessLogType(rapid.Int32Range(0, 14).Draw(t, "type")), UpstreamRemoteAddress: drawAddress(t),
		UpstreamCluster: text.Draw(t, "cluster"), SampleRate: rapid.Float64().Draw(t, "rate"),
	}
	if rapid.Bool().Draw(t, "answered") {
		c.TimeToFirstUpstreamRxByte = durationpb.New(0)
	}
	if rapid.Bool().Draw(t, "flagged") {
		c.ResponseFlags = &logpb.ResponseFlags{}
		fields := c.ResponseFlags.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if f := fields.Get(i); f.Kind() == protoreflect.BoolKind && rapid.IntRange(0, 4).Draw(t, "flag") == 0 {
				c.ResponseFlags.ProtoReflect().Set(f, protoreflect.ValueOfBool(true))
			}
		}
	}
	if rapid.Bool().Draw(t, "metadata") {
		c.Metadata = &corepb.Metadata{FilterMetadata: drawStructs(t), TypedFilterMetadata: map[string]*anypb.Any{}}
		var packed proto.Message = &aipb.TokenUsage{
			Model: "m", InputTokens: drawWrapped(t), OutputTokens: drawWrapped(t),
			InputTokenDetails: &aipb.InputTokenDetails{CachedTokens: drawWrapped(t), CacheCreationTokens: drawWrapped(t)},
			LlmProtocol:       aitypepb.LLMProtocol(rapid.Int32Range(0, 4).Draw(t, "protocol")),
			ExtractionStatus:  aipb.TokenUsage_ExtractionStatus(rapid.Int32Range(0, 3).Draw(t, "extraction")),
		}
		if rapid.IntRange(0, 3).Draw(t, "packed") == 0 {
			packed = &corepb.Metadata{} // another type under the name
		}
		if a, err := anypb.New(packed); err == nil && rapid.Bool().Draw(t, "usage") {
			c.Metadata.TypedFilterMetadata[usageName] = a
		}
	}
	return &logpb.HTTPAccessLogEntry{CommonProperties: c, Request: &logpb.HTTPRequestProperties{Path: "/v1"}}
}

// sameEntry compares what we read of an entry with what the generated code read.
func sameEntry(t testing.TB, e *wire.LogEntry, m *logpb.HTTPAccessLogEntry) {
	t.Helper()
	c := m.GetCommonProperties()
	at := c.GetUpstreamRemoteAddress().GetSocketAddress()
	var flags wire.Flags
	c.GetResponseFlags().ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.BoolKind && v.Bool() {
			flags |= 1 << f.Number()
		}
		return true
	})
	type plain struct {
		Type     int32
		Flags    wire.Flags
		Answered bool
		Address  string
		Port     uint32
	}
	told := plain{int32(c.GetAccessLogType()), flags, c.GetTimeToFirstUpstreamRxByte() != nil, at.GetAddress(), at.GetPortValue()}
	if diff := cmp.Diff(told, plain{e.Type, e.Flags, e.Answered, e.Address, e.Port}); diff != "" {
		t.Fatalf("-generated +ours:\n%s", diff)
	}
	sameStructs(t, "metadata", c.GetMetadata().GetFilterMetadata(), e.Metadata.Value)
	var u aipb.TokenUsage
	packed := c.GetMetadata().GetTypedFilterMetadata()[usageName]
	has := packed != nil && packed.UnmarshalTo(&u) == nil
	got, gotHas := e.Metadata.Usage(usageName)
	if gotHas != has {
		t.Fatalf("usage is there: %v; want %v", gotHas, has)
	}
	tokens := func(v *wrapperspb.UInt64Value) uint64 {
		if v == nil {
			return wire.Unknown
		}
		return v.GetValue()
	}
	want := wire.Usage{
		Input: tokens(u.GetInputTokens()), Cached: tokens(u.GetInputTokenDetails().GetCachedTokens()),
		CacheWritten: tokens(u.GetInputTokenDetails().GetCacheCreationTokens()), Output: tokens(u.GetOutputTokens()),
		Protocol: int32(u.GetLlmProtocol()), Extraction: int32(u.GetExtractionStatus()),
	}
	if has && got != want {
		t.Fatalf("usage %v; want %v", got, want)
	}
}

// sameLog compares a whole message.
func sameLog(t testing.TB, raw []byte, m *alspb.StreamAccessLogsMessage) {
	t.Helper()
	l, err := wire.ReadLog(raw)
	if err != nil {
		t.Fatalf("the generated code reads it, and we do not: %v", err)
	}
	if id := m.GetIdentifier(); l.Identified != (id != nil) || l.Node != id.GetNode().GetId() || l.Name != id.GetLogName() {
		t.Fatalf("identifier %v %q %q; want %v", l.Identified, l.Node, l.Name, id)
	}
	n := 0
	for e, err := range l.Entries {
		if err != nil {
			t.Fatalf("entry %d: %v", n, err)
		}
		if n >= len(m.GetHttpLogs().GetLogEntry()) {
			t.Fatalf("more than %d entries", n)
		}
		sameEntry(t, e, m.GetHttpLogs().GetLogEntry()[n])
		n++
	}
	if want := len(m.GetHttpLogs().GetLogEntry()); n != want {
		t.Fatalf("%d entries; want %d", n, want)
	}
}

func drawLog(t *rapid.T) *alspb.StreamAccessLogsMessage {
	m := &alspb.StreamAccessLogsMessage{}
	if rapid.Bool().Draw(t, "identified") {
		m.Identifier = &alspb.StreamAccessLogsMessage_Identifier{Node: &corepb.Node{Id: text.Draw(t, "node"), Cluster: "c"}, LogName: text.Draw(t, "log")}
	}
	if rapid.IntRange(0, 4).Draw(t, "tcp") == 0 {
		m.LogEntries = &alspb.StreamAccessLogsMessage_TcpLogs{TcpLogs: &alspb.StreamAccessLogsMessage_TCPAccessLogEntries{}}
		return m
	}
	logs := &alspb.StreamAccessLogsMessage_HTTPAccessLogEntries{}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		logs.LogEntry = append(logs.LogEntry, drawEntry(t))
	}
	m.LogEntries = &alspb.StreamAccessLogsMessage_HttpLogs{HttpLogs: logs}
	return m
}

// TestLogsAreReadAsByTheGeneratedCode: one message, or two that are merged.
func TestLogsAreReadAsByTheGeneratedCode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var raw []byte
		for range rapid.IntRange(1, 2).Draw(rt, "parts") {
			part, err := proto.Marshal(drawLog(rt))
			if err != nil {
				rt.Fatal(err)
			}
			raw = append(raw, part...)
		}
		m := &alspb.StreamAccessLogsMessage{}
		if err := proto.Unmarshal(raw, m); err != nil {
			rt.Fatal(err)
		}
		sameLog(fataler{t, rt}, raw, m)
	})
}

// TestMergedEntries: the parts of an entry that came in two are one.
func TestMergedEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var raw []byte
		for range 2 {
			part, err := proto.Marshal(drawEntry(rt))
			if err != nil {
				rt.Fatal(err)
			}
			raw = append(raw, part...)
		}
		m := &logpb.HTTPAccessLogEntry{}
		if err := proto.Unmarshal(raw, m); err != nil {
			rt.Fatal(err)
		}
		var e wire.LogEntry
		if err := wire.ReadLogEntry(raw, &e); err != nil {
			rt.Fatal(err)
		}
		sameEntry(fataler{t, rt}, &e, m)
	})
}

func FuzzReadLog(f *testing.F) {
	for i := range 20 {
		raw, err := proto.Marshal(rapid.Custom(drawLog).Example(i))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := wire.ReadLog(raw)
		if err == nil {
			for e := range l.Entries {
				if e != nil {
					_, _ = e.Metadata.Usage(usageName)
				}
			}
		}
		m := &alspb.StreamAccessLogsMessage{}
		if proto.Unmarshal(raw, m) == nil {
			sameLog(t, raw, m)
		}
	})
}
