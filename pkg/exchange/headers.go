package exchange

import (
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The names that a destination travels by. Endpoint Picker Protocol v1.0.0.
const (
	HeaderDestination = "x-gateway-destination-endpoint"
	HeaderServed      = "x-gateway-destination-endpoint-served"
	HeaderSubset      = "x-gateway-destination-endpoint-subset"
	HeaderTestSelect  = "test-epp-endpoint-selection"
	HeaderTestServed  = "x-conformance-test-served-endpoint"
	HeaderRequestID   = "x-request-id"
	HeaderDecisionID  = "x-fairlead-decision-id"

	headerFairness     = "x-llm-d-inference-fairness-id"
	headerObjective    = "x-llm-d-inference-objective"
	headerOldFairness  = "x-gateway-inference-fairness-id"
	headerOldObjective = "x-gateway-inference-objective"

	headerContentLen   = "content-length"
	headerContentType  = "content-type"
	headerContentCoder = "content-encoding"
)

// ControlHeader reports whether only a gateway or a picker may set this header, by its lower-case name: a client's copy is
// never used and never reaches an engine. An adapter drops trailers of these names.
func ControlHeader(name string) bool {
	switch name {
	case HeaderDestination, HeaderServed, HeaderSubset, HeaderTestSelect, HeaderTestServed, HeaderDecisionID,
		"x-gateway-destination-endpoint-scores", "x-gateway-destination-endpoint-fallback", "x-gateway-model-name",
		"x-prefiller-host-port", "x-encoder-hosts-ports", "x-data-parallel-host-port", "x-kv-cache-source-host-port",
		headerFairness, headerOldFairness, headerObjective, headerOldObjective,
		"x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite",
		"x-llm-d-request-dropped-reason":
		return true
	}
	return false
}

// readHeaders is the headers phase: the API kind, the client's headers without the control headers, and what of the body
// is worth scanning.
func (x *Exchange) readHeaders(h openai.Headers) *reason.Refusal {
	r := &x.r
	r.Headers = make(openai.Headers, 0, len(h))
	x.expected = openai.Unknown
	for _, f := range h {
		switch {
		case f.Name == ":method":
			r.Method = f.Value
		case f.Name == ":path":
			r.Path = f.Value
		case strings.HasPrefix(f.Name, ":"):
		case ControlHeader(f.Name):
			x.heed(f)
			x.remove(f.Name)
			continue
		case f.Name == headerContentLen:
			if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil && n >= 0 {
				x.expected = n
			}
		}
		r.Headers = append(r.Headers, f)
	}
	if r.Method == "CONNECT" {
		return reason.Refuse(reason.UnsupportedMethod, "CONNECT: no tunnels are opened here")
	}
	r.API = openai.ClassifyPath(r.Method, r.Path)
	if no := x.crowded(); no != nil {
		return no
	}
	if no := x.outsized(h); no != nil {
		return no
	}
	if what := openai.AmbiguousPath(r.Path); what != "" {
		return reason.Refuse(reason.AmbiguousPath, "it has %s", what)
	}
	if r.Headers.Get(HeaderRequestID) == "" {
		x.out.Set = x.out.Set.Set(HeaderRequestID, requestID(x.ID))
	}
	if x.expected > x.s.o.MaxBodyBytes {
		return x.tooLarge(x.expected)
	}
	x.body.start(r, x.s.o.MaxInflatedBytes)
	return nil
}

// identityBytesMax bounds fairness ids and objectives: both name tables and metric labels.
const identityBytesMax = 253

// heed takes from a control header what is meant for us. Of a header and its older name the newer counts, and of several
// copies the first.
func (x *Exchange) heed(f openai.Header) {
	r := &x.r
	switch f.Name {
	case HeaderTestSelect:
		r.Steered = append(r.Steered, strings.Split(f.Value, ",")...)
	case headerFairness:
		x.identify(&r.FairnessID, &x.newFairness, f)
	case headerOldFairness:
		x.identify(&r.FairnessID, nil, f)
	case headerObjective:
		x.identify(&r.Objective, &x.newObjective, f)
	case headerOldObjective:
		x.identify(&r.Objective, nil, f)
	}
}

// identify sets what a header says of the request, unless an earlier one said it; newer is whether a header of the newer name
// did, nil for one of the older name.
func (x *Exchange) identify(what *string, newer *bool, f openai.Header) {
	value := strings.TrimSpace(f.Value)
	switch {
	case value == "", *what != "" && (newer == nil || *newer):
		return
	case len(value) > identityBytesMax:
		x.note(reason.IdentityIgnored, f.Name+" is longer than "+strconv.Itoa(identityBytesMax)+" bytes")
		return
	}
	*what = value
	if newer != nil {
		*newer = true
	}
}

// remove has a header taken out once, however many copies there are.
func (x *Exchange) remove(name string) {
	for _, n := range x.out.Remove {
		if n == name {
			return
		}
	}
	x.out.Remove = append(x.out.Remove, name)
}

// requestID writes a decision's ID in the form that request ids have by custom, 8-4-4-4-12.
func requestID(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// tooLarge refuses a body that says that it is too long.
func (x *Exchange) tooLarge(n int64) *reason.Refusal {
	return reason.Refuse(reason.BodyTooLarge, "%d bytes; at most %d", n, x.s.o.MaxBodyBytes)
}

// outgrown refuses a body that has become too long. How much of it had come by then is chance, and not told.
func (x *Exchange) outgrown() *reason.Refusal {
	return reason.Refuse(reason.BodyTooLarge, "at most %d bytes", x.s.o.MaxBodyBytes)
}
