package openai

import (
	"bytes"
	"strings"
)

// maxReported is the largest number of tokens that is believed of an engine; anything above is a fault of the report.
const maxReported = 1_000_000_000

// inflatedAnswerMax is how much of a compressed answer is read, decompressed: 300,000 events of a token each.
const inflatedAnswerMax = 64 << 20

// UsageReader finds the token usage in an answer as its chunks pass: in a JSON body of any length, in a stream of
// server-sent events, or in the messages of a gRPC stream, in the forms of OpenAI's chat, completions, embeddings and
// responses APIs, of vLLM's rerank, score and gRPC engine, of SGLang's generate and of Anthropic's messages. Where several
// reports come, as with continuous usage or Anthropic's two events, a later number replaces an earlier one unless it is 0.
// What total_tokens implies is filled in.
//
// A body compressed by gzip or deflate is read too; it passes as it is. Memory is bounded by the longest event, 4 MiB; of
// a JSON body nothing is kept. Chunks are not kept. Close must be called.
type UsageReader struct {
	inflate *inflater
	grpc    *grpcUsage
	stream  bool
	unary   bool
	events  EventReader
	onEvent func(Event)
	count   int64
	done    bool
	broken  bool
	report  usageReport
}

// NewUsageReader returns a reader for an answer to a request of kind api, of this content type (text/event-stream, JSON, or
// gRPC) and content encoding. For any other it reads nothing and knows nothing.
func NewUsageReader(api API, contentType, encoding string) *UsageReader {
	u := new(UsageReader)
	media := MediaType(contentType)
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		u.inflate = newInflater(true, inflatedAnswerMax)
	case "deflate":
		u.inflate = newInflater(false, inflatedAnswerMax)
	default:
		media = ""
	}
	if media == "application/grpc" || strings.HasPrefix(media, "application/grpc+") {
		u.grpc = newGRPCUsage(api)
		media = ""
	}
	u.stream = media == "text/event-stream"
	u.unary = !u.stream && (media == "application/json" || bytes.HasSuffix([]byte(media), []byte("+json")))
	u.events.max = DefaultMaxEvent
	u.onEvent = u.event
	u.report.reset()
	u.report.lex.reset(&u.report, usageTop)
	return u
}

// Feed reads the next chunk of the answer.
func (u *UsageReader) Feed(chunk []byte) {
	if u.inflate == nil {
		u.read(chunk)
	} else if u.inflate.feed(chunk, u.read) != nil {
		u.broken = true
	}
}

func (u *UsageReader) read(chunk []byte) {
	switch {
	case u.grpc != nil:
		u.grpc.feed(chunk)
	case u.stream:
		u.events.Feed(chunk, u.onEvent)
	case u.unary && !u.broken:
		u.broken = u.report.lex.feed(chunk) != nil
		u.done = !u.broken && u.report.lex.state == atEnd
	}
}

// Close says that the answer is over. It may be called more than once.
func (u *UsageReader) Close() {
	if u.inflate != nil {
		_ = u.inflate.finish(u.read) // what it gave counts, whole or not
	}
	if u.grpc != nil && u.grpc.inner != nil {
		u.grpc.inner.Close()
	}
	if u.stream {
		u.events.Close(u.onEvent)
	}
}

// Usage returns what was reported so far; Unknown where nothing was.
func (u *UsageReader) Usage() Usage {
	if u.grpc != nil {
		return u.grpc.usage()
	}
	return u.report.usage()
}

// Events returns the number of events with data, but for [DONE] and keep-alive pings: about one per token.
func (u *UsageReader) Events() int64 {
	if u.grpc != nil {
		return u.grpc.frames.count
	}
	return u.count
}

// Done reports whether the answer came to its end: a stream to [DONE] or the last event of its API (message_stop,
// response.completed, response.incomplete or response.failed), a JSON body to the end of its value, a gRPC stream to the
// message that says it is complete.
func (u *UsageReader) Done() bool { return u.done || u.grpc != nil && u.grpc.isDone() }

// Unterminated reports whether the answer is a stream of events that did not come to its end, as far as Done knows one.
func (u *UsageReader) Unterminated() bool { return u.stream && u.count > 0 && !u.done }

// Skipped returns how many events were too long to be read.
func (u *UsageReader) Skipped() int64 { return u.events.Skipped() }

// Rejected returns how many numbers of tokens were reported that cannot be: negative, fractional, above 10^9, or no
// numbers at all.
func (u *UsageReader) Rejected() int64 { return u.report.rejected }

// event reads one event.
func (u *UsageReader) event(e Event) {
	if string(bytes.TrimSpace(e.Data)) == "[DONE]" {
		u.done = true
		return
	}
	if string(e.Name) == "ping" {
		return
	}
	u.count++
	last := isLast(e.Name)
	// Nearly all events are a token and nothing else. The word stands in every report, and in the name of no last event;
	// those are known by their own name, or, if a proxy dropped it, by their type.
	if !last && !bytes.Contains(e.Data, []byte("usage")) && !bytes.Contains(e.Data, []byte("meta_info")) {
		u.done = u.done || bytes.Contains(e.Data, []byte(`message_stop`)) && u.report.read(e.Data)
		return
	}
	if u.report.read(e.Data) || last {
		u.done = true
	}
}

// isLast reports whether an event of this name or type ends a stream.
func isLast(name []byte) bool {
	switch string(name) {
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		return true
	}
	return false
}
