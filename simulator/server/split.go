package server

import (
	"bytes"
	"encoding/json"
)

// A body is checked once, by json.Valid; what follows takes valid JSON apart without checking it again, which for a long
// prompt is most of the time.

// members returns the members of the JSON object raw, by name; of duplicates the last one. It returns nil for what is no
// object.
func members(raw []byte) map[string]json.RawMessage {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil
	}
	m := map[string]json.RawMessage{}
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		end := skipValue(raw, i)
		name, _ := text(raw[i:end])
		i = skipSpace(raw, skipSpace(raw, end)+1) // behind the colon
		end = skipValue(raw, i)
		m[string(name)] = raw[i:end]
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return m
}

// elements returns the elements of the JSON array raw, and whether it is one.
func elements(raw []byte) (list []json.RawMessage, ok bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return nil, false
	}
	for i = skipSpace(raw, i+1); raw[i] != ']'; {
		end := skipValue(raw, i)
		list = append(list, raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return list, true
}

// text returns the value of the JSON string raw, and whether it is one. Where nothing is escaped it is a part of raw.
func text(raw []byte) (value []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		for depth := 0; ; {
			switch raw[i] {
			case '"':
				i = skipString(raw, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(raw) && bytes.IndexByte([]byte(",]} \t\r\n"), raw[i]) < 0 {
		i++
	}
	return i
}

// skipString returns where the string that begins at i ends.
func skipString(raw []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(raw[i:], '"')
		escapes := 0
		for raw[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}
