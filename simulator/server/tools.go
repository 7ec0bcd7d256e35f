package server

import (
	"encoding/json"
	"strings"
)

// forcedTool returns the name of the function that the answer must call: the one that tool_choice names, or the first one
// where a tool is required.
func forcedTool(given map[string]json.RawMessage, shape shape) (string, *apiError) {
	raw := given["tool_choice"]
	if shape != chat || len(raw) == 0 {
		return "", nil
	}
	if choice, ok := text(raw); ok {
		if string(choice) != "required" {
			return "", nil
		}
		tools, _ := elements(given["tools"])
		if len(tools) == 0 {
			return "", badRequest("tool_choice", "When using `tool_choice`, `tools` must be set.")
		}
		raw = tools[0]
	}
	name, _ := text(members(members(raw)["function"])["name"])
	if len(name) == 0 {
		return "", badRequest("tool_choice", "A tool must have a function with a name.")
	}
	return string(name), nil
}

// The arguments of a call are an object with the answer's words as its only member.
const argumentsOpen, argumentsClose = `{\"text\":\"`, `\"}`

// appendCallHead appends the beginning of a tool call, up to the text of its arguments; index as streams have it.
func (g *generation) appendCallHead(dst []byte, streamed bool) []byte {
	dst = append(dst, `"tool_calls":[{`...)
	if streamed {
		dst = append(dst, `"index":0,`...)
	}
	dst = append(dst, `"id":`...)
	dst = appendString(dst, "call_"+g.id[strings.IndexByte(g.id, '-')+1:])
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = appendString(dst, g.tool)
	return append(dst, `,"arguments":"`...)
}
