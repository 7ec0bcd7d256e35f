package wire_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
)

// Generators of what a gateway may send, and of more.
var (
	text   = rapid.OneOf(rapid.SampledFrom([]string{"", "x-request-id", "X-Upper", ":path", "envoy.lb", "fairlead", "decision-id"}), rapid.String())
	octets = rapid.SliceOfN(rapid.Byte(), 0, 40)
)

func drawValue(t *rapid.T, depth int) *structpb.Value {
	kinds := 4
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 1:
		return structpb.NewNullValue()
	case 2:
		return structpb.NewNumberValue(rapid.Float64().Draw(t, "number"))
	case 3:
		return structpb.NewBoolValue(rapid.Bool().Draw(t, "bool"))
	case 4:
		return structpb.NewStructValue(drawStruct(t, depth-1))
	case 5:
		list := &structpb.ListValue{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list.Values = append(list.Values, drawValue(t, depth-1))
		}
		return structpb.NewListValue(list)
	case 6:
		return &structpb.Value{}
	}
	return structpb.NewStringValue(text.Draw(t, "string"))
}

func drawStruct(t *rapid.T, depth int) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		s.Fields[text.Draw(t, "key")] = drawValue(t, depth)
	}
	return s
}

func drawStructs(t *rapid.T) map[string]*structpb.Struct {
	m := map[string]*structpb.Struct{}
	for range rapid.IntRange(0, 2).Draw(t, "namespaces") {
		m[text.Draw(t, "namespace")] = drawStruct(t, 2)
	}
	return m
}

func drawHeaders(t *rapid.T) *corepb.HeaderMap {
	m := &corepb.HeaderMap{}
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		h := &corepb.HeaderValue{Key: text.Draw(t, "name")}
		if rapid.Bool().Draw(t, "value") {
			h.Value = text.Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "raw") {
			h.RawValue = octets.Draw(t, "raw")
		}
		m.Headers = append(m.Headers, h)
	}
	return m
}

func drawRequest(t *rapid.T) *extprocpb.ProcessingRequest {
	m := &extprocpb.ProcessingRequest{ObservabilityMode: rapid.Bool().Draw(t, "observability")}
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	headers := func() *extprocpb.HttpHeaders {
		return &extprocpb.HttpHeaders{Headers: drawHeaders(t), EndOfStream: flag("end"), Attributes: drawStructs(t)} //nolint:staticcheck // deprecated, and skipped
	}
	body := func() *extprocpb.HttpBody {
		return &extprocpb.HttpBody{Body: octets.Draw(t, "body"), EndOfStream: flag("end"), EndOfStreamWithoutMessage: flag("without"), GrpcMessageCompressed: flag("compressed")}
	}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 1:
		m.Request = &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: headers()}
	case 2:
		m.Request = &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers()}
	case 3:
		m.Request = &extprocpb.ProcessingRequest_RequestBody{RequestBody: body()}
	case 4:
		m.Request = &extprocpb.ProcessingRequest_ResponseBody{ResponseBody: body()}
	case 5:
		m.Request = &extprocpb.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocpb.HttpTrailers{Trailers: drawHeaders(t)}}
	case 6:
		m.Request = &extprocpb.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocpb.HttpTrailers{Trailers: drawHeaders(t)}}
	}
	if flag("metadata") {
		m.MetadataContext = &corepb.Metadata{FilterMetadata: drawStructs(t)}
	}
	if flag("attributes") {
		m.Attributes = drawStructs(t)
	}
	if flag("config") {
		m.ProtocolConfig = &extprocpb.ProtocolConfiguration{
			RequestBodyMode:  extprocconfig.ProcessingMode_BodySendMode(rapid.Int32Range(-1, 7).Draw(t, "request")),
			ResponseBodyMode: extprocconfig.ProcessingMode_BodySendMode(rapid.Int32Range(-1, 7).Draw(t, "response")),

			SendBodyWithoutWaitingForHeaderResponse: flag("sends"),
		}
	}
	return m
}

// TestRequestsAreReadAsByTheGeneratedCode: one message, two that are merged by standing one after the other, each also with
// numbers longer than they need to be and with fields of other versions between.
func TestRequestsAreReadAsByTheGeneratedCode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var raw []byte
		for range rapid.IntRange(1, 2).Draw(rt, "parts") {
			part, err := proto.Marshal(drawRequest(rt))
			if err != nil {
				rt.Fatal(err)
			}
			raw = append(raw, part...)
		}
		if rapid.Bool().Draw(rt, "strange") {
			raw = strange(rt, raw, 3)
		}
		m := &extprocpb.ProcessingRequest{}
		if err := proto.Unmarshal(raw, m); err != nil {
			rt.Skip("no message of theirs either")
		}
		sameRequest(fataler{t, rt}, raw, m)
	})
}

// fataler has a helper of testing.TB fail a rapid check, which then shrinks.
type fataler struct {
	testing.TB
	rt *rapid.T
}

func (f fataler) Helper()                           {}
func (f fataler) Fatalf(format string, args ...any) { f.rt.Fatalf(format, args...) }

// strange writes a message otherwise, and says the same: lengths and numbers of more bytes than needed, unknown fields, fields
// of another type than their number has. Submessages are rewritten too, where bytes happen to be one.
func strange(t *rapid.T, m []byte, depth int) (out []byte) {
	for len(m) > 0 {
		num, typ, n := protowire.ConsumeField(m)
		if n < 0 {
			return append(out, m...)
		}
		whole := m[:n]
		_, _, tag := protowire.ConsumeTag(m)
		value := whole[tag:]
		m = m[n:]
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			out = protowire.AppendVarint(protowire.AppendTag(out, 500, protowire.VarintType), 7)
			out = protowire.AppendTag(protowire.AppendVarint(protowire.AppendTag(protowire.AppendTag(out, 501, protowire.StartGroupType), 2, protowire.VarintType), 1), 501, protowire.EndGroupType)
		case 1:
			out = protowire.AppendFixed32(protowire.AppendTag(out, num, protowire.Fixed32Type), 7) // the number is known, the type is another
		}
		out = appendPadded(out, protowire.EncodeTag(num, typ), 0)
		switch typ {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			out = appendPadded(out, v, rapid.IntRange(0, 2).Draw(t, "padding"))
		case protowire.BytesType:
			b, _ := protowire.ConsumeBytes(value)
			if depth > 0 && len(b) > 0 && rapid.Bool().Draw(t, "deeper") && isMessage(num, depth) {
				b = strange(t, b, depth-1)
			}
			out = append(appendPadded(out, uint64(len(b)), rapid.IntRange(0, 2).Draw(t, "padding")), b...)
		default:
			out = append(out, value...)
		}
	}
	return out
}

// isMessage reports whether field num of a ProcessingRequest is a message. What lies deeper is left alone.
func isMessage(num protowire.Number, depth int) bool {
	return depth == 3 && num >= 2 && num <= 11 && num != 10
}

// appendPadded appends a varint with more bytes than it needs.
func appendPadded(to []byte, v uint64, more int) []byte {
	to = protowire.AppendVarint(to, v)
	for ; more > 0 && protowire.SizeVarint(v)+more <= 10; more-- {
		to[len(to)-1] |= 0x80
		to = append(to, 0)
	}
	return to
}

// TestRecordedMessages reads every message that Envoy sent in the recorded sessions.
func TestRecordedMessages(t *testing.T) {
	files, err := filepath.Glob("../testdata/sessions/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d sessions, error %v", len(files), err)
	}
	n := 0
	for _, name := range files {
		var events []struct {
			From    string          `json:"from"`
			Message json.RawMessage `json:"message"`
		}
		raw, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(raw, &events)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		for _, e := range events {
			m := &extprocpb.ProcessingRequest{}
			if e.From != "envoy" || len(e.Message) == 0 || protojson.Unmarshal(e.Message, m) != nil {
				continue
			}
			raw, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			sameRequest(t, raw, m)
			n++
		}
	}
	if n < 150 {
		t.Errorf("%d messages were read; there are more", n)
	}
}

// TestP07HeaderValues: a value in value, in raw_value, or in both.
func TestP07HeaderValues(t *testing.T) {
	raw, err := proto.Marshal(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocpb.HttpHeaders{
		Headers: &corepb.HeaderMap{Headers: []*corepb.HeaderValue{
			{Key: "x-request-id", Value: "by-value"},
			{Key: "x-request-id", RawValue: []byte("raw")},
			{Key: "x-request-id", Value: "by-value-2", RawValue: []byte{}},
			{Key: "X-Upper", RawValue: []byte("a")},
			{Key: ":path", RawValue: []byte("/v1/models")},
			{Key: "x-binary", RawValue: []byte{0xff, 'x'}},
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var r wire.Request
	if err := wire.ReadRequest(raw, &r); err != nil {
		t.Fatal(err)
	}
	clear(raw) // the headers outlive the message
	want := openai.Headers{
		{Name: "x-request-id", Value: "by-value"}, {Name: "x-request-id", Value: "raw"}, {Name: "x-request-id", Value: "by-value-2"},
		{Name: "x-upper", Value: "a"}, {Name: ":path", Value: "/v1/models"}, {Name: "x-binary", Value: "\xffx"},
	}
	if diff := cmp.Diff(want, r.Headers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMalformed: what is no message is refused with the place.
func TestMalformed(t *testing.T) {
	for name, m := range map[string][]byte{
		"a tag that ends":            {0x80},
		"field number 0":             {0x02, 0x00},
		"a length beyond the end":    {0x22, 0x05, 0x0a},
		"a length of 2^63":           {0x22, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a varint of eleven bytes":   {0x50, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
		"a group without its end":    {0x0b, 0x10, 0x01},
		"an end without its group":   {0x0c},
		"an inner length that ends":  {0x22, 0x02, 0x0a, 0x05},
		"a header that ends":         {0x12, 0x04, 0x0a, 0x02, 0x0a, 0x05},
		"a header's field that ends": {0x12, 0x06, 0x0a, 0x04, 0x0a, 0x02, 0x0a, 0x05},
		"a configuration that ends":  {0x5a, 0x01, 0x08},
	} {
		var r wire.Request
		if err := wire.ReadRequest(m, &r); err == nil {
			t.Errorf("%s: it was read as %+v", name, r)
		}
		if proto.Unmarshal(m, &extprocpb.ProcessingRequest{}) == nil {
			t.Errorf("%s: the generated code reads it", name)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	for i := range 30 {
		raw, err := proto.Marshal(rapid.Custom(drawRequest).Example(i))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r wire.Request
		_ = wire.ReadRequest(raw, &r)
		if len(r.Headers) > len(raw) || len(r.Body) > len(raw) {
			t.Fatalf("%d headers and %d bytes of a message of %d", len(r.Headers), len(r.Body), len(raw))
		}
		_ = r.Metadata.Value("envoy.lb", "decision-id")
		_ = r.Attribute("fairlead", "")
		m := &extprocpb.ProcessingRequest{}
		if proto.Unmarshal(raw, m) == nil {
			sameRequest(t, raw, m)
		}
	})
}

// TestBodiesAreReadWithoutACopy: a body is a part of its message, and reading allocates nothing.
func TestBodiesAreReadWithoutACopy(t *testing.T) {
	raw, err := proto.Marshal(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocpb.HttpBody{Body: make([]byte, 50_000)},
	}, MetadataContext: &corepb.Metadata{}})
	if err != nil {
		t.Fatal(err)
	}
	var r wire.Request
	if n := testing.AllocsPerRun(100, func() {
		if wire.ReadRequest(raw, &r) != nil {
			t.Fatal("it cannot be read")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	r.Body[0] = 'x'
	var again wire.Request
	if wire.ReadRequest(raw, &again) != nil || again.Body[0] != 'x' {
		t.Error("the body was copied")
	}
}
