package server

import (
	"strconv"

	"github.com/fairlead/fairlead/simulator/engine"
)

// responseEvents writes the event stream of /v1/responses.
type responseEvents struct {
	g       *generation
	created int64
	number  int64 // of the next event
}

func (e *responseEvents) open(dst []byte, kind string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, kind...)
	dst = append(dst, "\ndata: {"...)
	return dst
}

// shut ends an event whose members stand, each with a comma behind it.
func (e *responseEvents) shut(dst []byte, kind string) []byte {
	dst = append(dst, `"sequence_number":`...)
	dst = strconv.AppendInt(dst, e.number, 10)
	e.number++
	dst = append(dst, `,"type":"`...)
	dst = append(dst, kind...)
	return append(dst, "\"}\n\n"...)
}

func (e *responseEvents) whole(dst []byte, kind string, t *engine.Timeline, index int) []byte {
	dst = e.open(dst, kind)
	dst = append(dst, `"response":`...)
	dst = e.g.appendResponse(dst, t, index, e.created)
	return e.shut(append(dst, ','), kind)
}

func (e *responseEvents) appendToken(dst []byte, i int32) []byte {
	if i == 0 {
		dst = e.whole(dst, "response.created", nil, 0)
		dst = e.whole(dst, "response.in_progress", nil, 0)
		dst = e.open(dst, "response.output_item.added")
		dst = append(dst, `"item":{"id":"msg_0","content":[],"role":"assistant","status":"in_progress","type":"message"},"output_index":0,`...)
		dst = e.shut(dst, "response.output_item.added")
		dst = e.open(dst, "response.content_part.added")
		dst = append(dst, `"content_index":0,"item_id":"msg_0","output_index":0,"part":{"annotations":[],"text":"","type":"output_text"},`...)
		dst = e.shut(dst, "response.content_part.added")
	}
	const kind = "response.output_text.delta"
	dst = e.open(dst, kind)
	dst = append(dst, `"content_index":0,"delta":"`...)
	dst = e.g.appendText(dst, i, i+1)
	dst = append(dst, `","item_id":"msg_0","logprobs":[],"output_index":0,`...)
	return e.shut(dst, kind)
}

func (e *responseEvents) appendEnd(dst []byte, t engine.Timeline, index int) []byte {
	dst = e.open(dst, "response.output_text.done")
	dst = append(dst, `"content_index":0,"item_id":"msg_0","logprobs":[],"output_index":0,"text":"`...)
	dst = e.g.appendText(dst, 0, t.Output)
	dst = e.shut(append(dst, `",`...), "response.output_text.done")
	dst = e.open(dst, "response.content_part.done")
	dst = append(dst, `"content_index":0,"item_id":"msg_0","output_index":0,"part":`...)
	dst = e.g.appendPart(dst, t.Output)
	dst = e.shut(append(dst, ','), "response.content_part.done")
	dst = e.open(dst, "response.output_item.done")
	dst = append(dst, `"item":`...)
	dst = e.g.appendItem(dst, t.Output)
	dst = append(dst, `,"output_index":0,`...)
	dst = e.shut(dst, "response.output_item.done")
	return e.whole(dst, "response.completed", &t, index)
}

// appendResponse appends the response object; t is nil while it is in progress.
func (g *generation) appendResponse(dst []byte, t *engine.Timeline, index int, created int64) []byte {
	status := "completed"
	cut := false
	switch {
	case t == nil:
		status = "in_progress"
	case g.finish == "length":
		status, cut = "incomplete", true
	}
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, g.id)
	dst = append(dst, `,"created_at":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"incomplete_details":`...)
	if cut {
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"instructions":null,"metadata":null,"model":`...)
	dst = appendString(dst, g.model)
	dst = append(dst, `,"object":"response","output":[`...)
	if t != nil {
		dst = g.appendItem(dst, t.Output)
	}
	dst = append(dst, `],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"max_output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(g.maxTokens), 10)
	dst = append(dst, `,"previous_response_id":null,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","usage":`...)
	if t == nil {
		return append(dst, "null}"...)
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Cached), 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Output), 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt)+int64(t.Output), 10)
	dst = append(dst, `},`...)
	dst = appendFigures(dst, *t, index)
	return append(dst, '}')
}

func (g *generation) appendItem(dst []byte, output int32) []byte {
	dst = append(dst, `{"id":"msg_0","content":[`...)
	dst = g.appendPart(dst, output)
	return append(dst, `],"role":"assistant","status":"completed","type":"message"}`...)
}

func (g *generation) appendPart(dst []byte, output int32) []byte {
	dst = append(dst, `{"annotations":[],"text":"`...)
	dst = g.appendText(dst, 0, output)
	return append(dst, `","type":"output_text","logprobs":null}`...)
}
