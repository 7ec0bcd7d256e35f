package openai

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(b byte) rune {
	switch {
	case '0' <= b && b <= '9':
		return rune(b - '0')
	case 'a' <= b && b <= 'f':
		return rune(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return rune(b-'A') + 10
	}
	return -1
}

// unicodeEscape returns the code unit of the escape \uXXXX that raw begins with, or -1 if it begins with none.
func unicodeEscape(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	var r rune
	for _, b := range raw[2:6] {
		d := unhex(b)
		if d < 0 {
			return -1
		}
		r = r<<4 | d
	}
	return r
}

// appendUnquoted appends the decoded text of a valid JSON string's inside. Half a surrogate pair becomes U+FFFD, as in
// encoding/json.
func appendUnquoted(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		b := raw[i]
		if b != '\\' || i+1 == len(raw) {
			dst = append(dst, b)
			i++
			continue
		}
		if r := unicodeEscape(raw[i:]); r >= 0 {
			i += 6
			if utf16.IsSurrogate(r) {
				if r = utf16.DecodeRune(r, unicodeEscape(raw[i:])); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		switch b = raw[i+1]; b {
		case 'b':
			b = '\b'
		case 'f':
			b = '\f'
		case 'n':
			b = '\n'
		case 'r':
			b = '\r'
		case 't':
			b = '\t'
		}
		dst = append(dst, b)
		i += 2
	}
	return dst
}

// appendQuoted appends text as a JSON string with its quotes. What is not UTF-8 becomes U+FFFD; characters beyond ASCII
// stay as they are.
func appendQuoted(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r < ' ' || r == 0x7F:
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
