package openai

import (
	"strings"
	"unicode/utf8"
)

// Unknown is the value of a number that nobody gave.
const Unknown = -1

// Span is a half-open range of byte offsets into a body: [Start, End).
type Span struct{ Start, End int64 }

// Len returns the number of bytes of s.
func (s Span) Len() int64 { return s.End - s.Start }

// SegmentKind tells what a segment of the prompt is, so that equal text in another place of the conversation hashes
// differently.
type SegmentKind uint8

// The kinds of segments.
const (
	SegmentText   SegmentKind = iota // a message's or part's text, or a completion's prompt
	SegmentRole                      // the role of a message: it opens the message
	SegmentPart                      // any other content part, as its raw JSON: a tool call or result, reasoning, a refusal
	SegmentTools                     // the tools, functions and their choice, as raw JSON
	SegmentSystem                    // instructions or system text outside the messages
	SegmentTokens                    // a prompt given as token ids, as raw JSON
	SegmentMedia                     // an image, audio, video or file as raw JSON, whose bytes say nothing of its length in tokens
)

// Segment is one piece of the prompt, as sent: for strings the bytes between the quotes with their escapes kept, else the
// raw JSON value.
type Segment struct {
	Kind SegmentKind
	Span Span
}

// Summary is what one pass over a request body found, without decoding it. Duplicate keys count as the engine reads them:
// the last one wins. All spans are offsets into the client's bytes.
type Summary struct {
	// Bytes is the length of the body so far; Complete once its end was seen.
	Bytes    int64
	Complete bool

	// Model is the decoded value of "model"; empty if absent. ModelSpan covers its JSON string with the quotes; empty if absent.
	Model     string
	ModelSpan Span

	// ModelFault says what is wrong with a "model" that is there and names none, as the end of a sentence: it is no string, is
	// empty, too long, or has control characters. Empty where nothing is.
	ModelFault string

	// ModelBare: ModelSpan covers plain text without quotes, as in a form. Sealed: the model was read from inside of
	// something, a compressed or framed body, where no edit can be made; ModelSpan is empty.
	ModelBare, Sealed bool

	// Stream is the value of "stream"; IncludeUsage that of "stream_options.include_usage".
	Stream, IncludeUsage bool

	// MaxTokens is the client's bound on generated tokens (max_completion_tokens, max_tokens or max_output_tokens; the smallest
	// given), Unknown without one. N is "n", 1 without one.
	MaxTokens, N int64

	// Salt is the decoded "cache_salt": prompts share cached blocks only within one salt.
	Salt string

	// Prompt are the prompt's segments in the order of the prompt: system text, tools, then messages. None is empty, and past
	// 65,536 of them the rest of a member is one SegmentPart. PromptBytes is the sum of their lengths but for SegmentMedia.
	Prompt      []Segment
	PromptBytes int64

	// Separate: the request has several prompts, each a segment of Prompt, that share nothing but what they begin with alike.
	Separate bool

	// PromptTokens is the exact number of prompt tokens where the client gave token ids or a trace says so; else Unknown.
	PromptTokens int64

	// Multimodal reports image, audio, video or file parts, also inside a tool's result.
	Multimodal bool

	// BlockHashes are the prompt's block hashes where a trace brings them (virtual time has no bytes); nil otherwise.
	// BlockTokens is their block size in tokens.
	BlockHashes []uint64
	BlockTokens int32

	chunks [][]byte
	starts []int64 // starts[i] is the offset of chunks[i]
}

// NewSummary returns an empty Summary, as it stands before the first byte.
func NewSummary() *Summary {
	return &Summary{MaxTokens: Unknown, N: 1, PromptTokens: Unknown}
}

// modelMax is the longest name of a model, in bytes: paths of adapters are names too.
const modelMax = 1024

// The values of ModelFault.
const (
	modelNoString = "is no string"
	modelEmpty    = "is empty"
	modelTooLong  = "is longer than 1024 bytes"
	modelControl  = "has control characters"
	modelNotUTF8  = "is not UTF-8"
)

// setModel notes the model, and what is wrong with it.
func (s *Summary) setModel(name string, at Span) {
	s.Model, s.ModelSpan, s.ModelFault = name, at, ""
	switch {
	case name == "":
		s.ModelFault = modelEmpty
	case len(name) > modelMax:
		s.ModelFault = modelTooLong
	case !utf8.ValidString(name):
		s.ModelFault = modelNotUTF8
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }):
		s.ModelFault = modelControl
	}
}

// AddChunk keeps chunk as the next piece of the body, by reference: it must stay unchanged while the Summary is in use.
func (s *Summary) AddChunk(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	if s.chunks == nil { // most bodies come in a few chunks; growing from one would cost six allocations for eight
		s.chunks, s.starts = make([][]byte, 0, 8), make([]int64, 0, 8)
	}
	s.chunks = append(s.chunks, chunk)
	s.starts = append(s.starts, s.Bytes)
	s.Bytes += int64(len(chunk))
}

// Pieces calls yield with the bytes of span in order, piece by piece as they lie in the chunks, until it returns false.
// Pieces are never empty. Cost is O(log chunks + pieces).
func (s *Summary) Pieces(span Span, yield func([]byte) bool) {
	lo, hi := 0, len(s.starts)
	for lo < hi { // the last chunk that starts at or before span.Start
		mid := (lo + hi) / 2
		if s.starts[mid] <= span.Start {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := max(lo-1, 0); i < len(s.chunks) && s.starts[i] < span.End; i++ {
		from := max(span.Start-s.starts[i], 0)
		to := min(span.End-s.starts[i], int64(len(s.chunks[i])))
		if from < to && !yield(s.chunks[i][from:to]) {
			return
		}
	}
}

// AppendSpan appends the bytes of span to dst.
func (s *Summary) AppendSpan(dst []byte, span Span) []byte {
	s.Pieces(span, func(p []byte) bool { dst = append(dst, p...); return true })
	return dst
}

// Chunks returns the body's chunks in order; they must not be modified.
func (s *Summary) Chunks() [][]byte { return s.chunks }

// Usage is the token usage that an engine reported; Unknown where it did not.
type Usage struct{ Prompt, Cached, Out int64 }

// NoUsage is the usage nobody reported.
var NoUsage = Usage{Unknown, Unknown, Unknown}

// Edit replaces the bytes of Span in the client's body by New. An empty span inserts.
type Edit struct {
	Span Span
	New  []byte
}

// Reply is a complete answer made by us: a refusal or a model list.
type Reply struct {
	Status  int
	Headers Headers // content-type and the like; never content-length
	Body    []byte
	// Details is a short code for access logs.
	Details string
}
