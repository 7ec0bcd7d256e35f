package server

import (
	"strconv"

	"github.com/fairlead/fairlead/simulator/engine"
)

// messageEvents writes the event stream of /v1/messages.
type messageEvents struct{ g *generation }

func (e *messageEvents) appendToken(dst []byte, i int32) []byte {
	if i == 0 {
		dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
		dst = appendString(dst, e.g.id)
		dst = append(dst, `,"type":"message","role":"assistant","content":[],"model":`...)
		dst = appendString(dst, e.g.model)
		dst = append(dst, `,"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`...)
		dst = strconv.AppendInt(dst, int64(e.g.request.Prompt), 10)
		dst = append(dst, ",\"output_tokens\":0}}}\n\n"...)
		dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"},\"index\":0}\n\n"...)
	}
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\""...)
	dst = e.g.appendText(dst, i, i+1)
	return append(dst, "\"},\"index\":0}\n\n"...)
}

func (e *messageEvents) appendEnd(dst []byte, t engine.Timeline, index int) []byte {
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"...)
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	dst = e.g.appendMessageStop(dst)
	dst = append(dst, `},`...)
	dst = appendMessageUsage(dst, t)
	dst = append(dst, ',')
	dst = appendFigures(dst, t, index)
	return append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// appendMessage appends the whole answer of /v1/messages.
func (g *generation) appendMessage(dst []byte, t engine.Timeline, index int) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, g.id)
	dst = append(dst, `,"type":"message","role":"assistant","content":[{"type":"text","text":"`...)
	dst = g.appendText(dst, 0, t.Output)
	dst = append(dst, `"}],"model":`...)
	dst = appendString(dst, g.model)
	dst = append(dst, ',')
	dst = g.appendMessageStop(dst)
	dst = append(dst, ',')
	dst = appendMessageUsage(dst, t)
	dst = append(dst, ',')
	dst = appendFigures(dst, t, index)
	return append(dst, '}')
}

// appendMessageStop appends the members that tell why the answer ended.
func (g *generation) appendMessageStop(dst []byte) []byte {
	switch {
	case g.stopped != "":
		dst = append(dst, `"stop_reason":"stop_sequence","stop_sequence":`...)
		return appendString(dst, g.stopped)
	case g.finish == "length":
		return append(dst, `"stop_reason":"max_tokens","stop_sequence":null`...)
	}
	return append(dst, `"stop_reason":"end_turn","stop_sequence":null`...)
}

func appendMessageUsage(dst []byte, t engine.Timeline) []byte {
	dst = append(dst, `"usage":{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Prompt), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Output), 10)
	dst = append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(t.Cached), 10)
	return append(dst, '}')
}
