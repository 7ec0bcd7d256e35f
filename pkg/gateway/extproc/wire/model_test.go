package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
)

// The model: what a message says, read from the generated types.

// read is a wire.Request without what only its package sees.
type read struct {
	Kind    wire.Kind
	Headers openai.Headers
	Body    string
	End     bool
	Config  wire.Config
}

func readOf(r *wire.Request) read {
	return read{r.Kind, r.Headers, string(r.Body), r.End, r.Config}
}

func modelHeaders(m *corepb.HeaderMap) (h openai.Headers) {
	for _, f := range m.GetHeaders() {
		value := f.GetValue()
		if len(f.GetRawValue()) > 0 {
			value = string(f.GetRawValue())
		}
		h = append(h, openai.Header{Name: strings.ToLower(f.GetKey()), Value: value})
	}
	return h
}

func modelRequest(m *extprocpb.ProcessingRequest) (r read) {
	switch q := m.GetRequest().(type) {
	case *extprocpb.ProcessingRequest_RequestHeaders:
		r = read{Kind: wire.RequestHeaders, Headers: modelHeaders(q.RequestHeaders.GetHeaders()), End: q.RequestHeaders.GetEndOfStream()}
	case *extprocpb.ProcessingRequest_ResponseHeaders:
		r = read{Kind: wire.ResponseHeaders, Headers: modelHeaders(q.ResponseHeaders.GetHeaders()), End: q.ResponseHeaders.GetEndOfStream()}
	case *extprocpb.ProcessingRequest_RequestBody:
		r = read{Kind: wire.RequestBody, Body: string(q.RequestBody.GetBody()), End: q.RequestBody.GetEndOfStream()}
	case *extprocpb.ProcessingRequest_ResponseBody:
		r = read{Kind: wire.ResponseBody, Body: string(q.ResponseBody.GetBody()), End: q.ResponseBody.GetEndOfStream()}
	case *extprocpb.ProcessingRequest_RequestTrailers:
		r = read{Kind: wire.RequestTrailers, Headers: modelHeaders(q.RequestTrailers.GetTrailers())}
	case *extprocpb.ProcessingRequest_ResponseTrailers:
		r = read{Kind: wire.ResponseTrailers, Headers: modelHeaders(q.ResponseTrailers.GetTrailers())}
	}
	if c := m.GetProtocolConfig(); c != nil {
		r.Config = wire.Config{
			Has: true, RequestBody: wire.BodyMode(c.GetRequestBodyMode()), ResponseBody: wire.BodyMode(c.GetResponseBodyMode()),
			SendsBody: c.GetSendBodyWithoutWaitingForHeaderResponse(),
		}
	}
	return r
}

// sameValue compares a value with the model's, nil for none.
func sameValue(t testing.TB, where string, got wire.Value, want *structpb.Value, has bool) {
	t.Helper()
	if got.Has() != has {
		t.Fatalf("%s: has %v; want %v", where, got.Has(), has)
	}
	if got.Text() != want.GetStringValue() {
		t.Fatalf("%s: text %q; want %q", where, got.Text(), want.GetStringValue())
	}
	list, isList := got.List()
	if isList != (want.GetListValue() != nil) {
		t.Fatalf("%s: a list: %v; want %v", where, isList, want)
	}
	var texts []string
	for _, v := range want.GetListValue().GetValues() {
		if s := v.GetStringValue(); s != "" {
			texts = append(texts, s)
		}
	}
	if diff := cmp.Diff(texts, list, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s: -want +got:\n%s", where, diff)
	}
}

// sameRequest compares what we read of raw with what the generated code read.
func sameRequest(t testing.TB, raw []byte, m *extprocpb.ProcessingRequest) {
	t.Helper()
	var r wire.Request
	if err := wire.ReadRequest(raw, &r); err != nil {
		t.Fatalf("the generated code reads it, and we do not: %v", err)
	}
	if diff := cmp.Diff(modelRequest(m), readOf(&r), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-generated +ours:\n%s", diff)
	}
	sameStructs(t, "metadata", m.GetMetadataContext().GetFilterMetadata(), r.Metadata.Value)
	sameStructs(t, "attributes", m.GetAttributes(), r.Attribute)
}

// sameStructs compares every value there is, and some that there are not.
func sameStructs(t testing.TB, what string, all map[string]*structpb.Struct, value func(namespace, key string) wire.Value) {
	t.Helper()
	for namespace, s := range all {
		for key, want := range s.GetFields() {
			sameValue(t, what+" "+namespace+" "+key, value(namespace, key), want, true)
		}
		_, has := s.GetFields()["no such key"]
		sameValue(t, what+" "+namespace, value(namespace, "no such key"), nil, has)
	}
	if _, has := all["no such namespace"]; !has {
		sameValue(t, what, value("no such namespace", "decision-id"), nil, false)
	}
}
