package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fairlead/fairlead/pkg/openai"
)

// Fields of a ProcessingResponse.
const (
	answerRequestHeaders   = 1
	answerResponseHeaders  = 2
	answerRequestBody      = 3
	answerResponseBody     = 4
	answerRequestTrailers  = 5
	answerResponseTrailers = 6
	answerImmediate        = 7
	answerMetadata         = 8
	answerModes            = 9
)

// Fields of what is in it.
const (
	commonOf          = 1 // of HeadersResponse and BodyResponse
	trailersMutation  = 1
	commonMutation    = 2
	commonBody        = 3
	commonClearRoute  = 5
	mutationSet       = 1
	mutationRemove    = 2
	optionHeader      = 1
	optionAction      = 3
	optionOverwrite   = 2 // OVERWRITE_IF_EXISTS_OR_ADD
	bodyWhole         = 1
	bodyStreamedPiece = 3
	pieceBytes        = 1
	pieceEnd          = 2
	immediateStatus   = 1
	immediateHeaders  = 2
	immediateBody     = 3
	immediateDetails  = 5
	statusCode        = 1
)

// Answer says which message an answer is to.
type Answer protowire.Number

// AnswerTo returns what answers a message of this kind.
func AnswerTo(k Kind) Answer {
	return [...]Answer{
		RequestHeaders: answerRequestHeaders, ResponseHeaders: answerResponseHeaders,
		RequestBody: answerRequestBody, ResponseBody: answerResponseBody,
		RequestTrailers: answerRequestTrailers, ResponseTrailers: answerResponseTrailers,
	}[k]
}

// begin appends the tag of a submessage, whose bytes follow and which end closes.
func begin(to []byte, num protowire.Number) (out []byte, at int) {
	to = protowire.AppendTag(to, num, protowire.BytesType)
	return to, len(to)
}

// end puts the length of the submessage that began at at before it. The messages are short: moving them costs less than
// measuring them first.
func end(to []byte, at int) []byte {
	n := len(to) - at
	var length [10]byte
	size := len(protowire.AppendVarint(length[:0], uint64(n)))
	to = append(to, length[:size]...)
	copy(to[at+size:], to[at:at+n])
	copy(to[at:], length[:size])
	return to
}

func appendText(to []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, num, protowire.BytesType), s)
}

func appendNumber(to []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, num, protowire.VarintType), v)
}

// Mutation are the changes of headers.
type Mutation struct {
	Set    openai.Headers
	Remove []string
}

func (m *Mutation) empty() bool { return len(m.Set) == 0 && len(m.Remove) == 0 }

// append appends a HeaderMutation as field num.
func (m *Mutation) append(to []byte, num protowire.Number) []byte {
	to, at := begin(to, num)
	for i := range m.Set {
		to = appendSetHeader(to, &m.Set[i])
	}
	for _, name := range m.Remove {
		to = appendText(to, mutationRemove, name)
	}
	return end(to, at)
}

// appendSetHeader replaces all values of a header, or adds it. raw_value is what Envoy reads; a message with value and
// raw_value both is refused by it.
func appendSetHeader(to []byte, h *openai.Header) []byte {
	to, option := begin(to, mutationSet)
	to, header := begin(to, optionHeader)
	to = appendText(to, headerKey, h.Name)
	if h.Value != "" {
		to = appendText(to, headerRaw, h.Value)
	}
	to = end(to, header)
	to = appendNumber(to, optionAction, optionOverwrite)
	return end(to, option)
}

// Headers appends the answer to headers, of a request or response, with their changes.
func Headers(to []byte, a Answer, m Mutation, clearRoute bool) []byte {
	to, outer := begin(to, protowire.Number(a))
	if !m.empty() || clearRoute {
		var common int
		to, common = begin(to, commonOf)
		if !m.empty() {
			to = m.append(to, commonMutation)
		}
		if clearRoute {
			to = appendNumber(to, commonClearRoute, 1)
		}
		to = end(to, common)
	}
	return end(to, outer)
}

// Pass appends the answer to headers or body that leaves them as they are.
func Pass(to []byte, a Answer) []byte {
	to, outer := begin(to, protowire.Number(a))
	return end(to, outer)
}

// Buffered appends the answer to a buffered request body, with changes of the headers. has says that body replaces what came.
func Buffered(to []byte, m Mutation, body []byte, has bool) []byte {
	to, outer := begin(to, answerRequestBody)
	to, common := begin(to, commonOf)
	to = m.append(to, commonMutation)
	if has {
		var mutation int
		to, mutation = begin(to, commonBody)
		to = protowire.AppendBytes(protowire.AppendTag(to, bodyWhole, protowire.BytesType), body)
		to = end(to, mutation)
	}
	to = appendNumber(to, commonClearRoute, 1)
	return end(end(to, common), outer)
}

// Trailers appends the answer to trailers, without those of the names in remove.
func Trailers(to []byte, a Answer, remove []string) []byte {
	to, outer := begin(to, protowire.Number(a))
	if len(remove) > 0 {
		m := Mutation{Remove: remove}
		to = m.append(to, trailersMutation)
	}
	return end(to, outer)
}

// Piece appends the answer to a full-duplex body with a piece of n bytes, without them: they are what must follow. They stand
// last in the message and in each that it lies in, so that nothing needs to be copied around them.
func Piece(to []byte, a Answer, n int, last bool) []byte {
	inner := 0
	if n > 0 {
		inner = protowire.SizeTag(pieceBytes) + protowire.SizeBytes(n)
	}
	if last {
		inner += protowire.SizeTag(pieceEnd) + 1
	}
	mutation := protowire.SizeTag(bodyStreamedPiece) + protowire.SizeBytes(inner)
	common := protowire.SizeTag(commonBody) + protowire.SizeBytes(mutation)
	body := protowire.SizeTag(commonOf) + protowire.SizeBytes(common)
	for _, m := range [...]struct {
		num  protowire.Number
		size int
	}{{protowire.Number(a), body}, {commonOf, common}, {commonBody, mutation}, {bodyStreamedPiece, inner}} {
		to = protowire.AppendVarint(protowire.AppendTag(to, m.num, protowire.BytesType), uint64(m.size))
	}
	if last {
		to = appendNumber(to, pieceEnd, 1)
	}
	if n > 0 {
		to = protowire.AppendVarint(protowire.AppendTag(to, pieceBytes, protowire.BytesType), uint64(n))
	}
	return to
}

// Immediate appends a complete answer to the client.
func Immediate(to []byte, status int, headers openai.Headers, body []byte, details string) []byte {
	to, outer := begin(to, answerImmediate)
	to, code := begin(to, immediateStatus)
	to = appendNumber(to, statusCode, uint64(status))
	to = end(to, code)
	m := Mutation{Set: headers}
	to = m.append(to, immediateHeaders)
	if len(body) > 0 {
		to = protowire.AppendBytes(protowire.AppendTag(to, immediateBody, protowire.BytesType), body)
	}
	if details != "" {
		to = appendText(to, immediateDetails, details)
	}
	return end(to, outer)
}

// Override appends a mode_override.
func Override(to []byte, m Modes) []byte {
	to, at := begin(to, answerModes)
	for i, v := range [...]int32{
		int32(m.RequestHeaders), int32(m.ResponseHeaders), int32(m.RequestBody), int32(m.ResponseBody),
		int32(m.RequestTrailers), int32(m.ResponseTrailers),
	} {
		if v != 0 {
			to = appendNumber(to, protowire.Number(i+1), uint64(v))
		}
	}
	return end(to, at)
}

// Datum is a string of dynamic metadata.
type Datum struct{ Namespace, Key, Value string }

// DynamicMetadata appends dynamic metadata. Those of one namespace stand together.
func DynamicMetadata(to []byte, data ...Datum) []byte {
	to, at := begin(to, answerMetadata)
	for i := 0; i < len(data); {
		var field, value, inner int
		to, field = begin(to, structFields)
		to = appendText(to, 1, data[i].Namespace)
		to, value = begin(to, 2)
		to, inner = begin(to, valueStruct)
		for first := i; i < len(data) && data[i].Namespace == data[first].Namespace; i++ {
			var entry, text int
			to, entry = begin(to, structFields)
			to = appendText(to, 1, data[i].Key)
			to, text = begin(to, 2)
			to = appendText(to, valueString, data[i].Value)
			to = end(end(to, text), entry)
		}
		to = end(end(end(to, inner), value), field)
	}
	return end(to, at)
}
