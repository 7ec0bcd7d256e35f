package extproc

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// MaxPiece is the most body that an answer may carry, in bytes: what all servers of the field keep to, since Envoys differ
// in what they accept.
const MaxPiece = 62_000

// FaultKind groups what can be wrong with an exchange; its text is the key in a [Result].
type FaultKind string

const (
	// StreamBroken: the stream ended early or with an error.
	StreamBroken FaultKind = "stream broken"
	// OutOfOrder: an answer came that the protocol does not allow at that point.
	OutOfOrder FaultKind = "answer out of order"
	// BodyDiffers: a byte came back changed, twice, or not at all.
	BodyDiffers FaultKind = "body differs"
	// PieceTooLarge: an answer carried more than MaxPiece bytes.
	PieceTooLarge FaultKind = "piece too large"
	// NoDestination: the headers answer names no endpoint, or header and metadata name different ones.
	NoDestination FaultKind = "no destination"
	// Refused: an immediate response instead of a decision.
	Refused FaultKind = "refused"
	// LogRefused: the server does not take Envoy's access log.
	LogRefused FaultKind = "access log refused"
)

// Fault is what was wrong with one exchange.
type Fault struct {
	Kind   FaultKind
	Detail string
}

func (f *Fault) Error() string { return string(f.Kind) + ": " + f.Detail }

func fault(kind FaultKind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// echo compares the pieces of a body that come back with the body that was sent.
type echo struct {
	want []byte
	at   int
	done bool
}

// piece takes the next answer to a body message.
func (e *echo) piece(r *extprocv3.BodyResponse) *Fault {
	common := r.GetResponse()
	if s := common.GetStatus(); s != extprocv3.CommonResponse_CONTINUE {
		return fault(OutOfOrder, "body answer with status %v; CONTINUE in FULL_DUPLEX_STREAMED", s)
	}
	streamed := common.GetBodyMutation().GetStreamedResponse()
	switch {
	case streamed == nil:
		return fault(OutOfOrder, "body answer without a streamed_response, which FULL_DUPLEX_STREAMED demands")
	case e.done:
		return fault(OutOfOrder, "body answer of %d bytes after end_of_stream", len(streamed.Body))
	case len(streamed.Body) > MaxPiece:
		return fault(PieceTooLarge, "%d bytes; at most %d", len(streamed.Body), MaxPiece)
	case len(streamed.Body) > len(e.want)-e.at:
		return fault(BodyDiffers, "%d bytes more than the %d that were sent", len(streamed.Body)-(len(e.want)-e.at), len(e.want))
	case !bytes.Equal(streamed.Body, e.want[e.at:e.at+len(streamed.Body)]):
		return fault(BodyDiffers, "piece of %d bytes at offset %d of %d", len(streamed.Body), e.at, len(e.want))
	}
	e.at += len(streamed.Body)
	if streamed.EndOfStream {
		e.done = true
		if e.at < len(e.want) {
			return fault(BodyDiffers, "ended %d bytes short of %d", len(e.want)-e.at, len(e.want))
		}
	}
	return nil
}

// answers follows what a server says to the request of one exchange.
type answers struct {
	body     echo
	decided  bool
	to       string           // first destination, address:port
	metadata *structpb.Struct // dynamic metadata of all answers
}

// take judges the next message. The request is through when decided and body.done are true.
func (a *answers) take(m *extprocv3.ProcessingResponse) *Fault {
	if d := m.GetDynamicMetadata(); d != nil {
		if a.metadata == nil {
			a.metadata = d
		} else {
			for k, v := range d.GetFields() {
				a.metadata.Fields[k] = v
			}
		}
	}
	switch r := m.GetResponse().(type) {
	case *extprocv3.ProcessingResponse_RequestHeaders:
		if a.decided {
			return fault(OutOfOrder, "request headers answered twice")
		}
		a.decided = true
		return a.destination(r.RequestHeaders.GetResponse())
	case *extprocv3.ProcessingResponse_RequestBody:
		if !a.decided {
			return fault(OutOfOrder, "body answered before the headers")
		}
		return a.body.piece(r.RequestBody)
	default:
		return unexpected(m, "the request")
	}
}

// destination reads the choice: in the header, in the metadata, or the same in both.
func (a *answers) destination(common *extprocv3.CommonResponse) *Fault {
	if s := common.GetStatus(); s != extprocv3.CommonResponse_CONTINUE {
		return fault(OutOfOrder, "headers answer with status %v; CONTINUE in FULL_DUPLEX_STREAMED", s)
	}
	header := setHeader(common.GetHeaderMutation().GetSetHeaders(), destinationHeader)
	metadata := a.metadata.GetFields()[lbNamespace].GetStructValue().GetFields()[destinationHeader].GetStringValue()
	list := header
	switch {
	case header == "":
		list = metadata
	case metadata != "" && metadata != header:
		return fault(NoDestination, "header %s says %q, metadata %q", destinationHeader, header, metadata)
	}
	first, _, _ := strings.Cut(list, ",")
	if _, err := netip.ParseAddrPort(strings.TrimSpace(first)); err != nil {
		return fault(NoDestination, "%s is %q; address:port expected", destinationHeader, list)
	}
	a.to = strings.TrimSpace(first)
	return nil
}

func setHeader(set []*corev3.HeaderValueOption, name string) string {
	for _, o := range set {
		if h := o.GetHeader(); h.GetKey() == name {
			if len(h.GetRawValue()) > 0 {
				return string(h.GetRawValue())
			}
			return h.GetValue()
		}
	}
	return ""
}

// unexpected names a message that has no place while what is answered.
func unexpected(m *extprocv3.ProcessingResponse, what string) *Fault {
	if im := m.GetImmediateResponse(); im != nil {
		return fault(Refused, "status %d while answering %s: %.200s", im.GetStatus().GetCode(), what, im.GetBody())
	}
	if m.GetResponse() == nil {
		return fault(OutOfOrder, "message without a response while answering %s (mode_override %v): the body mode is FULL_DUPLEX_STREAMED", what, m.GetModeOverride() != nil)
	}
	return fault(OutOfOrder, "%T while answering %s", m.GetResponse(), what)
}
