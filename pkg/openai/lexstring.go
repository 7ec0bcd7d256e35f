package openai

import (
	"encoding/binary"
	"math/bits"
)

const (
	lows       = 0x0101010101010101
	highs      = 0x8080808080808080
	quotes     = '"' * lows
	backslants = '\\' * lows
	blanks     = ' ' * lows
)

// special returns a word whose lowest set bit lies in the first byte of w, in memory order, that cannot stand for itself
// inside a JSON string or needs a closer look: a quote, a backslash, a control character, a byte beyond ASCII. It is 0 if
// there is none.
//
// A byte minus 1 has its high bit set if it was 0 or above 0x80, minus 0x20 if it was below 0x20 or above 0x9F; borrows
// only reach bytes above one that is marked already, so the lowest mark is true.
func special(w uint64) uint64 {
	return (((w ^ quotes) - lows) | ((w ^ backslants) - lows) | (w - blanks) | w) & highs
}

// plain returns the index at or after i of the first byte of c that special marks, or len(c).
func plain(c []byte, i int) int {
	// Four words a turn: one branch for 32 bytes took long strings from 5 to 8 GB/s.
	for len(c)-i >= 32 {
		p := c[i : i+32 : i+32]
		a := special(binary.LittleEndian.Uint64(p[0:]))
		b := special(binary.LittleEndian.Uint64(p[8:]))
		d := special(binary.LittleEndian.Uint64(p[16:]))
		e := special(binary.LittleEndian.Uint64(p[24:]))
		if a|b|d|e != 0 {
			switch {
			case a != 0:
				return i + bits.TrailingZeros64(a)>>3
			case b != 0:
				return i + 8 + bits.TrailingZeros64(b)>>3
			case d != 0:
				return i + 16 + bits.TrailingZeros64(d)>>3
			}
			return i + 24 + bits.TrailingZeros64(e)>>3
		}
		i += 32
	}
	for len(c)-i >= 8 {
		if a := special(binary.LittleEndian.Uint64(c[i:])); a != 0 {
			return i + bits.TrailingZeros64(a)>>3
		}
		i += 8
	}
	for ; i < len(c); i++ {
		if b := c[i]; b < ' ' || b == '"' || b == '\\' || b >= 0x80 {
			break
		}
	}
	return i
}

// runes returns the index at or after i of the first byte of c that is ASCII or begins a sequence that is not wholly in c
// or not UTF-8. It only accepts; a sequence that it stops at is judged byte by byte.
func runes(c []byte, i int) int {
	for len(c)-i >= 2 {
		b := c[i]
		switch {
		case b < 0xC2:
			return i
		case b < 0xE0:
			if c[i+1]&0xC0 != 0x80 {
				return i
			}
			i += 2
		case b < 0xF0:
			if len(c)-i < 3 || c[i+1]&0xC0 != 0x80 || c[i+2]&0xC0 != 0x80 ||
				b == 0xE0 && c[i+1] < 0xA0 || b == 0xED && c[i+1] > 0x9F {
				return i
			}
			i += 3
		default:
			if len(c)-i < 4 || b > 0xF4 || c[i+1]&0xC0 != 0x80 || c[i+2]&0xC0 != 0x80 || c[i+3]&0xC0 != 0x80 ||
				b == 0xF0 && c[i+1] < 0x90 || b == 0xF4 && c[i+1] > 0x8F {
				return i
			}
			i += 4
		}
	}
	return i
}

// escapes returns the index at or after i of the first byte of c that begins no escape, or one that is not wholly in c or
// wrong. Like runes it only accepts.
func escapes(c []byte, i int) int {
	for len(c)-i >= 2 && c[i] == '\\' {
		switch c[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if len(c)-i < 6 || unhex(c[i+2])|unhex(c[i+3])|unhex(c[i+4])|unhex(c[i+5]) < 0 {
				return i
			}
			i += 6
		default:
			return i
		}
	}
	return i
}

// str reads on in a string at c[i] until it ends or c does.
func (x *lexer) str(c []byte, i int) (int, *SyntaxError) {
	for i < len(c) {
		b := c[i]
		switch x.state {
		case inString:
			if b >= 0x80 {
				if i = runes(c, i); i == len(c) {
					return i, nil
				}
			}
			if i = plain(c, i); i == len(c) {
				return i, nil
			}
			switch b = c[i]; {
			case b == '"':
				if x.name {
					x.named(c, i)
				} else {
					x.scalar(c, i, isString)
				}
				return i + 1, nil
			case b == '\\':
				x.esc = true
				if i = escapes(c, i); i < len(c) && c[i] == '\\' {
					x.state = inEscape
					i++
				}
			case b < ' ':
				return i, x.fail(i, "a control character must be escaped in a string")
			default:
				if j := runes(c, i); j > i {
					i = j
				} else if !x.lead(b) {
					return i, x.fail(i, "a string is not UTF-8")
				} else {
					i++
				}
			}

		case inEscape:
			switch b {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				x.state = inString
			case 'u':
				x.state, x.need = inHex, 4
			default:
				return i, x.fail(i, "a string has an escape that JSON does not know")
			}
			i++

		case inHex:
			if unhex(b) < 0 {
				return i, x.fail(i, "four hexadecimal digits are expected in an escape")
			}
			i++
			if x.need--; x.need == 0 {
				x.state = inString
			}

		case inRune:
			if b < x.lo || b > x.hi {
				return i, x.fail(i, "a string is not UTF-8")
			}
			i++
			x.lo, x.hi = 0x80, 0xBF
			if x.need--; x.need == 0 {
				x.state = inString
			}
		}
	}
	return i, nil
}

// lead starts a sequence of UTF-8 with its first byte and reports whether one can start so. The bounds of the second
// byte keep out overlong forms, surrogates and what lies above U+10FFFF (RFC 3629, section 4).
func (x *lexer) lead(b byte) bool {
	x.lo, x.hi = 0x80, 0xBF
	switch {
	case b < 0xC2 || b > 0xF4:
		return false
	case b < 0xE0:
		x.need = 1
	case b < 0xF0:
		x.need = 2
		if b == 0xE0 {
			x.lo = 0xA0
		} else if b == 0xED {
			x.hi = 0x9F
		}
	default:
		x.need = 3
		if b == 0xF0 {
			x.lo = 0x90
		} else if b == 0xF4 {
			x.hi = 0x8F
		}
	}
	x.state = inRune
	return true
}

// named ends a member's name before the quote at c[i].
func (x *lexer) named(c []byte, i int) {
	x.state = wantColon
	x.next = anywhere
	if !x.keep {
		return
	}
	name := x.text(c, i)
	if x.esc {
		if len(name) > maxCarry {
			return // its shortest reading is far longer than any name that is looked for
		}
		x.scratch = appendUnquoted(x.scratch[:0], name)
		name = x.scratch
	}
	x.next = x.to.key(x.frame&^objectBit, name)
}
