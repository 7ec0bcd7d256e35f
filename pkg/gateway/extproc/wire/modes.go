package wire

import "strconv"

// BodyMode is a ProcessingMode.BodySendMode.
type BodyMode int32

// The body modes.
const (
	BodyNone            BodyMode = 0
	BodyStreamed        BodyMode = 1
	BodyBuffered        BodyMode = 2
	BodyBufferedPartial BodyMode = 3
	BodyFullDuplex      BodyMode = 4
)

// String is the mode as protobuf names it.
func (m BodyMode) String() string {
	names := [...]string{"NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC"}
	if m < 0 || int(m) >= len(names) {
		return strconv.Itoa(int(m))
	}
	return names[m]
}

// HeaderMode is a ProcessingMode.HeaderSendMode, of headers and trailers.
type HeaderMode int32

// The header modes.
const (
	HeadersDefault HeaderMode = 0
	HeadersSend    HeaderMode = 1
	HeadersSkip    HeaderMode = 2
)

// Modes is a ProcessingMode.
type Modes struct {
	RequestHeaders, ResponseHeaders   HeaderMode
	RequestBody, ResponseBody         BodyMode
	RequestTrailers, ResponseTrailers HeaderMode
}
