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
	if g.chat {
		e.opened = append(e.opened, `,"object":"chat.completion.chunk","created":`...)
	} else {
		e.opened = append(e.opened, `,"object":"text_completion","created":`...)
	}
	e.opened = strconv.AppendInt(e.opened, created, 10)
	e.opened = append(e.opened, `,"model":`...)
	e.opened = appendString(e.opened, g.model)
	e.opened = append(e.opened, `,"choices":[`...)

	e.before = append(e.before, e.opened...)
	if g.chat {
		e.before = append(e.before, `{"index":0,"delta":{"content":"`...)
		e.after = append(e.after, `"},"logprobs":null,"finish_reason":null}]}`...)
	} else {
		e.before = append(e.before, `{"index":0,"text":"`...)
		e.after = append(e.after, `","logprobs":null,"finish_reason":null,"stop_reason":null}]}`...)
	}
	e.after = append(e.after, "\n\n"...)
	return e
}

// appendToken appends the event of token i; before the first one of a chat, the event that tells the role.
func (e *events) appendToken(dst []byte, i int32) []byte {
	if i == 0 && e.g.chat {
		dst = append(dst, e.opened...)
		dst = append(dst, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`...)
		dst = append(dst, "\n\n"...)
	}
	dst = append(dst, e.before...)
	dst = e.g.answer.appendText(dst, i, i+1) // letters and spaces: nothing to escape
	return append(dst, e.after...)
}

// appendEnd appends the events behind the last token: the reason of the end, the usage if it was asked for, and the mark of
// the end. The last object also carries the engine's own figures.
func (e *events) appendEnd(dst []byte, t engine.Timeline, index int) []byte {
	dst = append(dst, e.opened...)
	if e.g.chat {
		dst = append(dst, `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":`...)
	} else {
		dst = append(dst, `{"index":0,"text":"","logprobs":null,"finish_reason":`...)
	}
	dst = appendString(dst, e.g.finish)
	dst = append(dst, `,"stop_reason":null}]`...)
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

// appendCompletion appends the whole answer as one object.
func appendCompletion(dst []byte, g *generation, t engine.Timeline, index int, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, g.id)
	if g.chat {
		dst = append(dst, `,"object":"chat.completion","created":`...)
	} else {
		dst = append(dst, `,"object":"text_completion","created":`...)
	}
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"model":`...)
	dst = appendString(dst, g.model)
	if g.chat {
		dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":"`...)
		dst = g.answer.appendText(dst, 0, t.Output)
		dst = append(dst, `","refusal":null},"logprobs":null,"finish_reason":`...)
	} else {
		dst = append(dst, `,"choices":[{"index":0,"text":"`...)
		dst = g.answer.appendText(dst, 0, t.Output)
		dst = append(dst, `","logprobs":null,"finish_reason":`...)
	}
	dst = appendString(dst, g.finish)
	dst = append(dst, `,"stop_reason":null}],`...)
	dst = appendUsage(dst, t)
	dst = append(dst, ',')
	dst = appendFigures(dst, t, index)
	return append(dst, '}')
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
