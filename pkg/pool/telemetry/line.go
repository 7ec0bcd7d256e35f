package telemetry

import (
	"bytes"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// A line of the text format 0.0.4 is
//
//	name [ "{" label "=" quoted { "," label "=" quoted } [ "," ] "}" ] value [ timestamp ]
//
// with blanks or tabs between the parts. OpenMetrics may append "#" and an exemplar. In quotes \\, \" and \n stand for a
// backslash, a quote and a line feed; a raw line feed cannot occur, so that a page can be cut at them.
// https://prometheus.io/docs/instrumenting/exposition_formats/

// labelSet names what a line's labels are, in whatever order they stand; 0 without labels.
type labelSet struct {
	identity uint64 // of names and values
	ranks    uint64 // the same without rankLabels
}

// labels reads the labels at the start of rest, if there are any, and returns what follows them. The raw values of the
// labels in want go to got, which is as long; those of labels that the line does not have stay.
func labels(rest []byte, want []string, got [][]byte) (set labelSet, after []byte, ok bool) {
	rest = skipBlanks(rest)
	if len(rest) == 0 || rest[0] != '{' {
		return set, rest, true
	}
	rest = skipBlanks(rest[1:])
	for {
		if len(rest) > 0 && rest[0] == '}' {
			return set, rest[1:], true
		}
		eq := bytes.IndexByte(rest, '=')
		if eq < 0 {
			return set, nil, false
		}
		name := trimBlanks(rest[:eq])
		value, tail, ok := quoted(skipBlanks(rest[eq+1:]))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, "\",{}") {
			return set, nil, false
		}
		hash := xxhash.Sum64(name)*31 ^ xxhash.Sum64(value)
		set.identity += hash
		if !isRank(name) {
			set.ranks += hash
		}
		for i := range want {
			if string(name) == want[i] {
				got[i] = value
			}
		}
		rest = skipBlanks(tail)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = skipBlanks(rest[1:])
		case len(rest) > 0 && rest[0] == '}':
		default:
			return set, nil, false
		}
	}
}

func isRank(name []byte) bool {
	for _, label := range rankLabels {
		if string(name) == label {
			return true
		}
	}
	return false
}

// quoted returns the raw value between the quotes that rest begins with, and what follows.
func quoted(rest []byte) (value, after []byte, ok bool) {
	if len(rest) == 0 || rest[0] != '"' {
		return nil, nil, false
	}
	rest = rest[1:]
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[:i:i], rest[i+1:], true
		}
	}
	return nil, nil, false
}

// unquoted appends a raw label value to dst with its escapes resolved. An escape that the format does not know stays.
func unquoted(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '\\' && i+1 < len(raw) {
			switch raw[i+1] {
			case '\\', '"':
				i++
				c = raw[i]
			case 'n':
				i++
				c = '\n'
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// value reads value and timestamp; at is 0 and timed false without one.
func value(rest []byte) (v float64, text []byte, at int64, timed, ok bool) {
	text, rest = word(skipBlanks(rest))
	v, ok = number(text)
	if !ok {
		return 0, text, 0, false, false
	}
	stamp, rest := word(skipBlanks(rest))
	switch {
	case len(stamp) == 0:
		return v, text, 0, false, true
	case stamp[0] == '#':
		return v, text, 0, false, true
	}
	at, err := strconv.ParseInt(string(stamp), 10, 64)
	if err != nil { // OpenMetrics writes seconds with a fraction
		f, ok := number(stamp)
		if !ok || f-f != 0 {
			return 0, text, 0, false, false
		}
		at = int64(f * 1000)
	}
	rest = skipBlanks(rest)
	return v, text, at, true, len(rest) == 0 || rest[0] == '#'
}

// number reads what the format calls a float: Go's syntax without underscores and hexadecimal exponents. The conversions
// to string stay on the stack for up to 32 bytes.
func number(text []byte) (float64, bool) {
	if len(text) == 0 || bytes.ContainsAny(text, "pP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil && v-v == 0 { // out of range comes as an infinity, which is rejected as such
		return 0, false
	}
	return v, true
}

func word(rest []byte) (w, after []byte) {
	for i, c := range rest {
		if c == ' ' || c == '\t' {
			return rest[:i], rest[i:]
		}
	}
	return rest, nil
}

func skipBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

func trimBlanks(b []byte) []byte {
	b = skipBlanks(b)
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
