package openai

import (
	"math"
	"strconv"
)

// maxSegments bounds the segments of one prompt, so that a body of many empty strings cannot make us hold many times its
// size: past it, what follows in the same member is one SegmentPart.
const maxSegments = 1 << 16

// Scanner reads a request body as it comes, in chunks of any size, and fills a Summary without decoding the body. It
// accepts what encoding/json calls valid, if strings are UTF-8 (RFC 8259, section 8.1; engines refuse it otherwise).
//
// A Scanner may be used for many bodies in turn, with Reset before each; then a body costs a handful of allocations, all
// of them in its Summary. It must not be used by two goroutines at once.
type Scanner struct {
	api   API
	reads nodes
	lex   lexer
	sum   *Summary
	err   *SyntaxError
	ended bool

	modelSeen, object bool
	// limits are the bounds on generated tokens by the member that gave them.
	limits [4]int64

	prompt  prompt
	scratch []byte
}

// NewScanner returns a Scanner for a body sent to api.
func NewScanner(api API) *Scanner {
	s := new(Scanner)
	s.Reset(api)
	return s
}

// Reset makes s ready for another body, with a Summary of its own: the earlier one stays as it is.
func (s *Scanner) Reset(api API) {
	if s.sum == nil || s.api != api {
		s.reads = topFields(api)
	}
	s.api = api
	s.lex.trim()
	s.lex.reset(s, topNode)
	s.sum = NewSummary()
	s.err, s.ended, s.modelSeen, s.object = nil, false, false, false
	s.limits = [4]int64{Unknown, Unknown, Unknown, Unknown}
	s.prompt.reset()
	if cap(s.scratch) > 1<<16 {
		s.scratch = nil
	}
}

// Release lets go of the body, for a scanner that waits for its next Reset. The Summary stays with who took it.
func (s *Scanner) Release() {
	s.lex.trim()
	s.sum = nil
}

// Feed keeps chunk as the next piece of the body, by reference: it must stay unchanged while the Summary is in use. The
// error is a *SyntaxError; after it, chunks are still kept, so that the body can be passed on, but nothing more is read,
// and every further call returns the same error.
func (s *Scanner) Feed(chunk []byte) error {
	s.sum.AddChunk(chunk)
	if s.err == nil {
		s.err = s.lex.feed(chunk)
	}
	if s.err != nil {
		return s.err
	}
	return nil
}

// Finish says that the body is over. It returns the Summary, with the prompt in its order, and marks it complete; calling
// it again changes nothing. The error is a *SyntaxError: a body that ends too early is one. So is an empty body, except
// where a body need not be there: for Other and Models.
func (s *Scanner) Finish() (*Summary, error) {
	if !s.ended {
		s.ended = true
		s.sum.Complete = true
		optional := s.api == Other || s.api == Models
		if s.err == nil && (s.sum.Bytes > 0 || !optional) {
			s.err = s.lex.end()
		}
		s.prompt.fill(s.sum)
	}
	if s.err != nil {
		return s.sum, s.err
	}
	return s.sum, nil
}

// Summary returns what is known so far. Before Finish, its Prompt and all that is counted from it are empty or Unknown, and
// members yet to come may change the rest.
func (s *Scanner) Summary() *Summary { return s.sum }

// ModelSeen reports whether the value of "model" has been read to its end. (A second member of that name would still
// replace it; no client sends one.)
func (s *Scanner) ModelSeen() bool { return s.modelSeen }

// IsObject reports whether the outermost value is an object, as every known API wants it. It is false before the first
// byte that is not blank.
func (s *Scanner) IsObject() bool { return s.object }

// counted implements sink: of token ids it is known where the list begins and ends.
func (s *Scanner) counted(at node) bool { return at == listNode || at == innerListNode }

// numbers implements sink.
func (s *Scanner) numbers(at node, n int) {
	if at == listNode {
		s.prompt.list.numbers += n
	} else {
		s.prompt.list.innerTokens += int64(n)
	}
}

// open implements sink.
func (s *Scanner) open(at node, object bool, start int64) {
	switch at {
	case topNode:
		s.object = object
	case modelNode:
		s.sum.Model, s.sum.ModelSpan, s.sum.ModelFault = "", Span{}, modelNoString
	case streamNode, streamOptionsNode, includeUsageNode, nNode, saltNode, samplingNode, samplingNNode, maxTokensNode,
		maxCompletionTokensNode, maxOutputTokensNode, samplingMaxTokensNode:
		s.clear(at)
	default:
		s.prompt.open(at, start)
	}
}

// close implements sink.
func (s *Scanner) close(at node, object bool, end int64) {
	if at == modelNode {
		s.modelSeen = true
	}
	s.prompt.close(at, object, end)
}

// clear forgets the earlier value of a member that stands twice.
func (s *Scanner) clear(at node) {
	switch at {
	case streamNode:
		s.sum.Stream = false
	case streamOptionsNode, includeUsageNode:
		s.sum.IncludeUsage = false
	case samplingNode:
		s.limit(samplingMaxTokensNode, Unknown)
		s.sum.N = 1
	case nNode, samplingNNode:
		s.sum.N = 1
	case saltNode:
		s.sum.Salt = ""
	default:
		s.limit(at, Unknown)
	}
}

// scalar implements sink.
func (s *Scanner) scalar(at node, k kind, span Span, text []byte) {
	switch at {
	case topNode:
	case modelNode:
		s.modelSeen = true
		s.sum.Model, s.sum.ModelSpan, s.sum.ModelFault = "", Span{}, modelNoString
		if k == isString {
			s.sum.setModel(s.decode(span, text), Span{span.Start - 1, span.End + 1})
		}
	case saltNode:
		s.sum.Salt = ""
		if k == isString {
			s.sum.Salt = s.decode(span, text)
		}
	case streamNode:
		s.sum.Stream = k == isTrue
	case includeUsageNode:
		s.sum.IncludeUsage = k == isTrue
	case streamOptionsNode, samplingNode:
		s.clear(at)
	case nNode, samplingNNode:
		s.sum.N = 1
		if n := wholeNumber(k, text); n > 1 {
			s.sum.N = n
		}
	case maxTokensNode, maxCompletionTokensNode, maxOutputTokensNode, samplingMaxTokensNode:
		s.limit(at, wholeNumber(k, text))
	case partTypeNode, nestedTypeNode, itemTypeNode:
		if s.lex.esc {
			s.scratch = appendUnquoted(s.scratch[:0], text)
			text = s.scratch
		}
		s.prompt.scalar(at, k, span, text)
	default:
		s.prompt.scalar(at, k, span, text)
	}
}

// limit notes a bound on generated tokens; the smallest given counts.
func (s *Scanner) limit(at node, n int64) {
	i := 3
	if at != samplingMaxTokensNode {
		i = int(at - maxTokensNode)
	}
	s.limits[i] = n
	least := int64(math.MaxInt64)
	for _, l := range s.limits {
		if l != Unknown {
			least = min(least, l)
		}
	}
	if least == math.MaxInt64 {
		least = Unknown
	}
	s.sum.MaxTokens = least
}

// decode returns the text of a string. Text is nil if it has to be gathered from the chunks.
func (s *Scanner) decode(span Span, text []byte) string {
	if text == nil {
		s.scratch = s.sum.AppendSpan(s.scratch[:0], span)
		text = s.scratch
	}
	if !s.lex.esc {
		return string(text)
	}
	return string(appendUnquoted(nil, text))
}

// wholeNumber returns the value of a number that is whole and not negative, however it is written, and Unknown for
// anything else: engines refuse those, or take them for no bound.
func wholeNumber(k kind, text []byte) int64 {
	if k != isNumber || len(text) == 0 || len(text) > 64 {
		return Unknown
	}
	var n int64
	for _, b := range text {
		if b-'0' > 9 || n > (math.MaxInt64-9)/10 {
			f, err := strconv.ParseFloat(string(text), 64)
			if err != nil || f < 0 || f >= math.MaxInt64 || f != math.Trunc(f) {
				return Unknown
			}
			return int64(f)
		}
		n = n*10 + int64(b-'0')
	}
	return n
}
