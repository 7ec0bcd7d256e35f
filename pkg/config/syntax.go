package config

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntax reports what the YAML parser said. It names a line, seldom a column: the column is looked for in the text.
func (r *reader) syntax(data []byte, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	text := string(data)
	place := pos{1, 0}
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, after, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				place.line, message = max(n, 1), after
				if ofParser(message) {
					place.line++ // the library's parser counts from 0, its scanner from 1
				}
			}
		}
	}
	suggestion := "check indentation, quotes and brackets here and in the line before"
	switch {
	case strings.HasPrefix(message, "unknown anchor '"):
		name, _, _ := strings.Cut(strings.TrimPrefix(message, "unknown anchor '"), "'")
		place = placeOf(text, strings.Index(text, "*"+name))
	case strings.HasPrefix(message, "control characters"):
		place = placeOf(text, strings.IndexFunc(text, func(c rune) bool { return c < ' ' && !strings.ContainsRune("\t\n\r", c) || c == 0x7f }))
		suggestion = "remove the character, or write it as an escape in double quotes"
	case strings.HasPrefix(message, "invalid leading UTF-8"), strings.HasPrefix(message, "invalid trailing UTF-8"):
		place = placeOf(text, invalidUTF8(text))
		suggestion = "save the file as UTF-8"
	default:
		lines := strings.Split(text, "\n")
		if at, ok := tabInIndentation(lines, place.line, message); ok {
			place, message, suggestion = at, "a tab in the indentation", "indent with spaces"
			break
		}
		if place.line <= len(lines) {
			place.column = column(lines[place.line-1], message)
		}
	}
	place.column = max(place.column, 1)
	r.errorf(place, CodeSyntax, suggestion, "no valid YAML: %s", message)
}

// ofParser reports whether a message is one of the library's parser, which tell the line from 0; the others are its
// scanner's.
func ofParser(message string) bool {
	rest, ok := strings.CutPrefix(message, "did not find expected ")
	return ok && !slices.ContainsFunc([]string{"alphabetic", "comment", "whitespace", "digit", "tag"}, func(word string) bool { return strings.HasPrefix(rest, word) })
}

// placeOf returns the line and column of a byte of the text; the beginning for one that is not in it.
func placeOf(text string, offset int) pos {
	before := text[:max(offset, 0)]
	return pos{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
}

func invalidUTF8(text string) int {
	for i, c := range text {
		if c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// tabInIndentation finds the tab that the parser stumbled over, in the line that it names or one beside.
func tabInIndentation(lines []string, line int, message string) (pos, bool) {
	if !strings.Contains(message, "cannot start any token") && !strings.Contains(message, "tab character") {
		return pos{}, false
	}
	for i := max(line-2, 0); i < min(line+1, len(lines)); i++ {
		text := lines[i]
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(text) {
			return pos{i + 1, tab + 1}, true
		}
	}
	return pos{}, false
}

// column looks in a line for what the message is about, and returns where it stands; else where the line's text begins.
func column(line, message string) int {
	bare := withoutQuoted(line)
	at := -1
	switch {
	case strings.HasPrefix(message, "mapping values"):
		if first := colon(bare, 0); first >= 0 {
			if at = colon(bare, first+1); at < 0 {
				at = first
			}
		}
	case strings.Contains(message, "cannot start any token"):
		at = strings.IndexAny(bare, "@`%")
	case strings.HasPrefix(message, "block sequence entries"):
		if first := colon(bare, 0); first >= 0 {
			if dash := strings.Index(bare[first:], "- "); dash >= 0 {
				at = first + dash
			}
		}
	case strings.HasPrefix(message, "found unknown escape"):
		at = strings.IndexByte(line, '\\')
	case strings.HasPrefix(message, "found unexpected end"):
		at = openQuote(line)
	case strings.HasPrefix(message, "did not find expected ','"):
		at = openBracket(bare)
	case strings.HasPrefix(message, "did not find expected alphabetic"):
		at = strings.IndexAny(bare, "&*")
	case strings.HasPrefix(message, "did not find expected node content"):
		at = strings.IndexAny(bare, ",]}")
	}
	if at < 0 {
		at = len(line) - len(strings.TrimLeft(line, " \t"))
		if at == len(line) {
			return 1
		}
	}
	return utf8.RuneCountInString(line[:at]) + 1
}

// colon finds a ':' that ends a key, from an offset on.
func colon(line string, from int) int {
	for i := from; i < len(line); i++ {
		if line[i] == ':' && (i+1 == len(line) || strings.IndexByte(" \t\r,]}", line[i+1]) >= 0) {
			return i
		}
	}
	return -1
}

// openBracket finds the last bracket or brace of a line that the line does not close, or not by its like.
func openBracket(line string) int {
	var open []int
	for i := range len(line) {
		switch line[i] {
		case '[', '{':
			open = append(open, i)
		case ']', '}':
			if len(open) == 0 {
				continue // it closes one of a line before
			}
			if last := open[len(open)-1]; line[last]+2 != line[i] { // in ASCII a bracket's end is two after its beginning
				return last
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}

// openQuote finds the quote of a line that the line does not close.
func openQuote(line string) int {
	at := -1
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case at >= 0 && line[at] == '"' && c == '\\':
			i++
		case at >= 0 && c == line[at]:
			at = -1
		case at < 0 && (c == '"' || c == '\'') && opens(line, i):
			at = i
		}
	}
	return at
}

// opens reports whether a quote begins a value: inside a word, as in it's, it is a letter.
func opens(line string, i int) bool {
	return i == 0 || strings.IndexByte(" \t[{,:", line[i-1]) >= 0
}

// withoutQuoted blanks quoted texts and the comment of a line, each byte by a space.
func withoutQuoted(line string) string {
	out, at := []byte(line), -1
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case at >= 0:
			out[i] = ' '
			if c == '\\' && line[at] == '"' && i+1 < len(line) {
				i++
				out[i] = ' '
			} else if c == line[at] {
				at = -1
			}
		case (c == '"' || c == '\'') && opens(line, i):
			at, out[i] = i, ' '
		case c == '#' && (i == 0 || line[i-1] == ' '):
			for ; i < len(line); i++ {
				out[i] = ' '
			}
		}
	}
	return string(out)
}
