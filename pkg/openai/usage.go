package openai

import "bytes"

// maxReported is the largest number of tokens that is believed of an engine; anything above is a fault of the report.
const maxReported = 1_000_000_000

// UsageReader finds the token usage in an answer as its chunks pass: in a JSON body of any length, or in a stream of
// server-sent events, in the forms of OpenAI's chat, completions, embeddings and responses APIs, of vLLM's rerank and
// score, and of Anthropic's messages. Where several reports come, as with continuous usage or Anthropic's two events, a
// later number replaces an earlier one unless it is 0. What total_tokens implies is filled in.
//
// The body must not be compressed. Memory is bounded by the longest event, 4 MiB; of a JSON body nothing is kept. Chunks
// are not kept.
type UsageReader struct {
	stream  bool
	unary   bool
	events  EventReader
	onEvent func(Event)
	count   int64
	done    bool
	broken  bool
	report  usageReport
}

// NewUsageReader returns a reader for an answer of this content type: text/event-stream, or JSON. For any other it reads
// nothing and knows nothing.
func NewUsageReader(contentType string) *UsageReader {
	u := new(UsageReader)
	media := MediaType(contentType)
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
	switch {
	case u.stream:
		u.events.Feed(chunk, u.onEvent)
	case u.unary && !u.broken:
		u.broken = u.report.lex.feed(chunk) != nil
		u.done = !u.broken && u.report.lex.state == atEnd
	}
}

// Close says that the answer is over. It may be called more than once.
func (u *UsageReader) Close() {
	if u.stream {
		u.events.Close(u.onEvent)
	}
}

// Usage returns what was reported so far; Unknown where nothing was.
func (u *UsageReader) Usage() Usage { return u.report.usage() }

// Events returns the number of events with data, but for [DONE] and keep-alive pings: about one per token.
func (u *UsageReader) Events() int64 { return u.count }

// Done reports whether the answer came to its end: a stream to [DONE] or the last event of its API (message_stop,
// response.completed, response.incomplete or response.failed), a JSON body to the end of its value.
func (u *UsageReader) Done() bool { return u.done }

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
	if !last && !bytes.Contains(e.Data, []byte("usage")) {
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
