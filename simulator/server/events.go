package server

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// events writes the event stream of one answer, in the shape of vLLM 0.32.0.
type events struct {
	g      *generation
	opened []byte // an event up to its choices
	before []byte // a token's event up to its text
	after  []byte // and behind it
}

func newEvents(g *generation, created int64) *events {
	e := &events{g: g}
	e.opened = append(e.opened, `data: {"id":`...)
	e.opened = appendString(e.opened, g.id)
	if g.shape == chat {
		e.opened = append(e.opened, `,"object":"chat.completion.chunk","created":`...)
	} else {
		e.opened = append(e.opened, `,"object":"text_completion","created":`...)
	}
	e.opened = strconv.AppendInt(e.opened, created, 10)
	e.opened = append(e.opened, `,"model":`...)
	e.opened = appendString(e.opened, g.model)
	e.opened = append(e.opened, `,"choices":[`...)

	e.before = append(e.before, e.opened...)
	switch {
	case g.tool != "":
		e.before = append(e.before, `{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`...)
		e.after = append(e.after, `"}}]},"logprobs":null,"finish_reason":null}]}`...)
	case g.shape == chat:
		e.before = append(e.before, `{"index":0,"delta":{"content":"`...)
		e.after = append(e.after, `"},"logprobs":null,"finish_reason":null}]}`...)
	default:
		e.before = append(e.before, `{"index":0,"text":"`...)
		e.after = append(e.after, `","logprobs":null,"finish_reason":null,"stop_reason":null}]}`...)
	}
	e.after = append(e.after, "\n\n"...)
	return e
}

// appendToken appends the event of token i; before the first one of a chat, the event that tells the role.
func (e *events) appendToken(dst []byte, i int32) []byte {
	if i == 0 && e.g.shape == chat {
		dst = append(dst, e.opened...)
		dst = append(dst, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`...)
		dst = append(dst, "\n\n"...)
		if e.g.tool != "" {
			dst = append(dst, e.opened...)
			dst = append(dst, `{"index":0,"delta":{`...)
			dst = e.g.appendCallHead(dst, true)
			dst = append(dst, argumentsOpen+`"}}]},"logprobs":null,"finish_reason":null}]}`...)
			dst = append(dst, "\n\n"...)
		}
	}
	dst = append(dst, e.before...)
	dst = e.g.appendText(dst, i, i+1) // letters and spaces: nothing to escape
	if e.g.tool != "" && i+1 == e.g.request.Output {
		dst = append(dst, argumentsClose...)
	}
	return append(dst, e.after...)
}

// appendEnd appends the events behind the last token: the reason of the end, the usage if it was asked for, and the mark of
// the end. The last object also carries the engine's own figures.
func (e *events) appendEnd(dst []byte, t engine.Timeline, index int) []byte {
	dst = append(dst, e.opened...)
	if e.g.shape == chat {
		dst = append(dst, `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":`...)
	} else {
		dst = append(dst, `{"index":0,"text":"","logprobs":null,"finish_reason":`...)
	}
	dst = appendString(dst, e.g.finish)
	dst = e.g.appendStopReason(dst)
	dst = append(dst, `}]`...)
	if e.g.includeUsage {
		dst = append(dst, "}\n\n"...)
		dst = append(dst, e.opened...)
		dst = append(dst, "],"...)
		dst = appendUsage(dst, t)
	}
	dst = append(dst, ',')
	dst = appendFigures(dst, t, index)
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}

// writer writes the event stream of one answer.
type writer interface {
	// appendToken appends the events of token i, with those that open the stream before the first one.
	appendToken(dst []byte, i int32) []byte

	// appendEnd appends the events behind the last token.
	appendEnd(dst []byte, t engine.Timeline, index int) []byte
}

// newWriter returns the writer for the shape of g.
func newWriter(g *generation, created int64) writer {
	switch g.shape {
	case responses:
		return &responseEvents{g: g, created: created}
	case messages:
		return &messageEvents{g: g}
	}
	return newEvents(g, created)
}

// appendWhole appends the whole answer as one object.
func appendWhole(dst []byte, g *generation, t engine.Timeline, index int, created int64) []byte {
	switch g.shape {
	case responses:
		return g.appendResponse(dst, &t, index, created)
	case messages:
		return g.appendMessage(dst, t, index)
	}
	return appendCompletion(dst, g, t, index, created)
}

// appendCompletion appends the whole answer of chat or completions.
func appendCompletion(dst []byte, g *generation, t engine.Timeline, index int, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, g.id)
	if g.shape == chat {
		dst = append(dst, `,"object":"chat.completion","created":`...)
	} else {
		dst = append(dst, `,"object":"text_completion","created":`...)
	}
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, g.model)
	switch {
	case g.tool != "":
		dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,`...)
		dst = g.appendCallHead(dst, false)
		dst = append(dst, argumentsOpen...)
		dst = g.appendText(dst, 0, t.Output)
		dst = append(dst, argumentsClose+`"}}]},"logprobs":null,"finish_reason":`...)
	case g.shape == chat:
		dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":"`...)
		dst = g.appendText(dst, 0, t.Output)
		dst = append(dst, `","refusal":null},"logprobs":null,"finish_reason":`...)
	default:
		dst = append(dst, `,"choices":[{"index":0,"text":"`...)
		dst = g.appendText(dst, 0, t.Output)
		dst = append(dst, `","logprobs":null,"finish_reason":`...)
	}
	dst = appendString(dst, g.finish)
	dst = g.appendStopReason(dst)
	dst = append(dst, `}],`...)
	dst = appendUsage(dst, t)
	dst = append(dst, ',')
	dst = appendFigures(dst, t, index)
	return append(dst, '}')
}

// appendStopReason appends the member "stop_reason", with a comma before it.
func (g *generation) appendStopReason(dst []byte) []byte {
	dst = append(dst, `,"stop_reason":`...)
	if g.stopped == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, g.stopped)
}

// appendUsage appends the member "usage".
func appendUsage(dst []byte, t engine.Timeline) []byte {
	dst = append(dst, `"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt)+int64(t.Output), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Output), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Cached), 10)
	return append(dst, `}}`...)
}

// appendFigures appends the member "sim": what happened in the engine, in milliseconds of engine time. arrived_ms counts
// from the start of the simulator, the others from the arrival; itl_ms is the mean time between two tokens, 0 for one token.
func appendFigures(dst []byte, t engine.Timeline, index int) []byte {
	dst = append(dst, `"sim":{"engine":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{
		{"arrived_ms", t.Arrived},
		{"queue_ms", t.Admitted - t.Arrived},
		{"ttft_ms", t.FirstToken - t.Arrived},
		{"itl_ms", (t.LastToken - t.FirstToken) / time.Duration(max(t.Output-1, 1))},
		{"e2e_ms", t.LastToken - t.Arrived},
	} {
		dst = append(dst, ',', '"')
		dst = append(dst, f.name...)
		dst = append(dst, '"', ':')
		dst = appendMillis(dst, f.d)
	}
	dst = append(dst, `,"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt), 10)
	dst = append(dst, `,"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Cached), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Output), 10)
	dst = append(dst, `,"preemptions":`...)
	dst = strconv.AppendInt(dst, int64(t.Preemptions), 10)
	return append(dst, '}')
}

// appendMillis appends d in milliseconds with three decimals.
func appendMillis(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, float64(d)/float64(time.Millisecond), 'f', 3, 64)
}
