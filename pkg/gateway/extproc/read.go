package extproc

import (
	"net/netip"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The namespaces of dynamic metadata.
const (
	nsLoadBalancer = "envoy.lb"
	nsSubsetHint   = "envoy.lb.subset_hint"
	nsOwn          = "fairlead"
	keyDecisionID  = "decision-id"
	keyRefused     = "refused"
)

// Attributes of the gateway.
const (
	nsAttributes = "envoy.filters.http.ext_proc"
	keyDetails   = "response.code_details"
)

// readHeaders reads a header map: names in lower case, several values of a name in their order, pseudo-headers among
// them. Envoy fills raw_value; others fill value.
//
// The raw values become one string of which each value is a part: one allocation in place of one per header, which were a
// twentieth of all that a decision allocates.
func readHeaders(m *corepb.HeaderMap) openai.Headers {
	fields := m.GetHeaders()
	total := 0
	for _, f := range fields {
		total += len(f.GetRawValue())
	}
	var raw strings.Builder
	raw.Grow(total)
	for _, f := range fields {
		raw.Write(f.GetRawValue())
	}
	values := raw.String()
	h := make(openai.Headers, 0, len(fields))
	for _, f := range fields {
		value := f.GetValue()
		if n := len(f.GetRawValue()); n > 0 {
			value, values = values[:n], values[n:]
		}
		h = append(h, openai.Header{Name: strings.ToLower(f.GetKey()), Value: value})
	}
	return h
}

// readSubset reads the subset hint: a list of strings, or one string. has tells an empty hint from none.
func readSubset(m *corepb.Metadata) (entries []string, has bool) {
	v := field(m, nsSubsetHint, exchange.HeaderSubset)
	switch kind := v.GetKind().(type) {
	case *structpb.Value_ListValue:
		for _, e := range kind.ListValue.GetValues() {
			if s := e.GetStringValue(); s != "" {
				entries = append(entries, s)
			}
		}
		return entries, true
	case *structpb.Value_StringValue:
		if kind.StringValue != "" {
			entries = []string{kind.StringValue}
		}
		return entries, true
	}
	return nil, v != nil
}

// readServed reads which endpoint the gateway says has answered; invalid when it does not say.
func readServed(m *corepb.Metadata) netip.AddrPort {
	at, err := netip.ParseAddrPort(field(m, nsLoadBalancer, exchange.HeaderServed).GetStringValue())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// readFailure reads whether the gateway answers by itself since no engine did, and why; 0 where one did, or where the gateway
// does not say. It says so where its configuration has response_attributes: [response.code_details].
//
// The details: envoy/source/common/stream_info and "Response code details" of Envoy's manual. With a connection that failed,
// or that was not opened for want of room, nothing of the request has left the gateway.
func readFailure(attributes map[string]*structpb.Struct) reason.ID {
	details := attributes[nsAttributes].GetFields()[keyDetails].GetStringValue()
	cause, reset := strings.CutPrefix(details, "upstream_reset_before_response_started{")
	switch {
	case details == "no_healthy_upstream", reset && strings.Contains(cause, "connection_failure"), reset && strings.HasPrefix(cause, "overflow"):
		return reason.UpstreamUnreachable
	case reset:
		return reason.UpstreamBroken
	}
	return 0
}

// field returns one value of dynamic metadata, nil without it.
func field(m *corepb.Metadata, namespace, key string) *structpb.Value {
	return m.GetFilterMetadata()[namespace].GetFields()[key]
}
