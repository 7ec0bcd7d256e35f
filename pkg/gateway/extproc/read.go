package extproc

import (
	"net/netip"
	"strings"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
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

// readSubset reads the subset hint: a list of strings, or one string. has tells an empty hint from none.
func readSubset(m wire.Metadata) (entries []string, has bool) {
	v := m.Value(nsSubsetHint, exchange.HeaderSubset)
	entries, isList := v.List()
	if s := v.Text(); !isList && s != "" {
		entries = []string{s}
	}
	return entries, v.Has()
}

// readServed reads which endpoint the gateway says has answered; invalid when it does not say.
func readServed(m wire.Metadata) netip.AddrPort {
	at, err := netip.ParseAddrPort(m.Value(nsLoadBalancer, exchange.HeaderServed).Text())
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
func readFailure(details string) reason.ID {
	cause, reset := strings.CutPrefix(details, "upstream_reset_before_response_started{")
	switch {
	case details == "no_healthy_upstream", reset && strings.Contains(cause, "connection_failure"), reset && strings.HasPrefix(cause, "overflow"):
		return reason.UpstreamUnreachable
	case reset:
		return reason.UpstreamBroken
	}
	return 0
}
