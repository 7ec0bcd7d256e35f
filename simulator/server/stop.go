package server

import (
	"bytes"
	"encoding/json"
)

// stopAt ends the answer where one of the request's stop strings first occurs in it. The string itself is not told, as in
// vLLM, but its tokens were generated.
func (g *generation) stopAt(given map[string]json.RawMessage) *apiError {
	g.textEnd = int64(g.request.Output) * bytesPerToken
	name := "stop"
	if g.shape == messages {
		name = "stop_sequences"
	}
	raw := given[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var stops []string
	if whole, ok := text(raw); ok {
		stops = []string{string(whole)}
	} else if json.Unmarshal(raw, &stops) != nil {
		return badRequest(name, name+" must be a string or a list of strings.")
	}
	var answer []byte
	for _, stop := range stops {
		if stop == "" {
			return badRequest(name, name+" cannot contain an empty string.")
		}
		if answer == nil {
			answer = g.answer.appendText(nil, 0, g.request.Output)
		}
		// A stop string counts when its last byte comes; of two, the one that ends first.
		if at := bytes.Index(answer, []byte(stop)); at >= 0 {
			answer = answer[:at+len(stop)]
			g.stopped, g.textEnd = stop, int64(at)
		}
	}
	if g.stopped != "" {
		g.request.Output = int32((len(answer) + bytesPerToken - 1) / bytesPerToken)
		g.finish = "stop"
	}
	return nil
}

// appendText appends what is told of the tokens from … to-1.
func (g *generation) appendText(dst []byte, from, to int32) []byte {
	told := len(dst)
	dst = g.answer.appendText(dst, from, to)
	if over := int64(to)*bytesPerToken - g.textEnd; over > 0 {
		dst = dst[:max(int64(told), int64(len(dst))-over)]
	}
	return dst
}
