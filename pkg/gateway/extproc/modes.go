package extproc

import (
	"iter"
	"strings"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// ModesKey is the gRPC metadata key by which a gateway's configuration says what cannot be seen in the protocol: a
// comma-separated list of tokens, in one or several values.
const ModesKey = "x-picker-modes"

// The tokens of ModesKey. Others are ignored.
const (
	// TokenOverride: the filter has allow_mode_override, and honours a stand-alone mode_override (Envoy 1.40).
	TokenOverride = "override"
	// TokenFallbacks: the cluster walks a comma-separated list of destinations.
	TokenFallbacks = "fallbacks"
	// TokenLog: the listener writes its gRPC access log to us.
	TokenLog = "access-log"
	// TokenUsage: the entries of that log carry the token usage of answers (Envoy 1.40, ai_protocol_manager).
	TokenUsage = "token-usage"
	// TokenTrailers: requests with HeaderTrailers take a route without retries.
	TokenTrailers = "trailers-route"
)

// HeaderTrailers marks a request with trailers where the gateway declares TokenTrailers. Envoy up to 1.40 at least sends the
// body of such a request twice to the model server if it went through us full duplex and the route retries
// (envoyproxy/envoy#45470). A request whose trailers nobody announced, and whose decision did not wait for the end of its
// body, is not marked in time.
const HeaderTrailers = "x-fairlead-trailers"

type bodyMode = wire.BodyMode

// The body modes, under shorter names.
const (
	none     = wire.BodyNone
	streamed = wire.BodyStreamed
	buffered = wire.BodyBuffered
	partial  = wire.BodyBufferedPartial
	duplex   = wire.BodyFullDuplex
)

// declared is what a gateway's metadata says of it.
type declared struct{ override, fallbacks, log, usage, trailers bool }

// readDeclared reads the tokens in the values of ModesKey.
func readDeclared(values iter.Seq[string]) (d declared) {
	for value := range values {
		for token := range strings.SplitSeq(value, ",") {
			switch strings.TrimSpace(token) {
			case TokenOverride:
				d.override = true
			case TokenFallbacks:
				d.fallbacks = true
			case TokenLog:
				d.log = true
			case TokenUsage:
				d.usage = true
			case TokenTrailers:
				d.trailers = true
			}
		}
	}
	return d
}

// modes are the body modes in force on one stream.
type modes struct {
	request, response bodyMode
	// overrides: the gateway takes a mode_override. A static request mode that buffers, or that is full duplex, takes none:
	// Envoy answers 500 to a stand-alone one there.
	overrides bool
}

// readModes reads the static modes from a stream's first message. A gateway that does not send them is taken to be full
// duplex, as the Endpoint Picker Protocol demands.
func readModes(c wire.Config, d declared) modes {
	m := modes{request: duplex, response: duplex}
	if c.Has {
		m.request, m.response = c.RequestBody, c.ResponseBody
	}
	m.overrides = d.override && (m.request == none || m.request == streamed) && !c.SendsBody
	return m
}

// via says what the exchange must know of the transport.
func (m modes) via(d declared) exchange.Via {
	v := exchange.Via{Adapter: "extproc", Fallbacks: d.fallbacks, Walks: true, Logs: d.log, LogsUsage: d.log && d.usage, Sees: plugins.FirstByte}
	switch {
	case m.overrides:
		v.Sees |= plugins.Usage | plugins.Chunks | plugins.Rewrite
		v.Chooses, v.StreamLasts = true, true
	case m.response == duplex:
		v.Sees |= plugins.Usage | plugins.Chunks | plugins.Rewrite
		v.StreamLasts = true
	case m.response != none:
		v.Sees |= plugins.Usage | plugins.Chunks
		v.StreamLasts = true
	}
	return v
}

// String names the modes for the record's transport section.
func (m modes) String() string {
	s := "request " + m.request.String() + ", response " + m.response.String()
	if m.overrides {
		s += ", overrides"
	}
	return s
}

// asksForBody reports whether parts include something of a response's body.
func asksForBody(p plugins.Parts) bool {
	return p&(plugins.Chunks|plugins.Usage|plugins.Rewrite) != 0
}
