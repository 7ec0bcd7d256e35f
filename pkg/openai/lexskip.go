package openai

import (
	"encoding/binary"
	"math/bits"
)

// Two short cuts of the lexer, for what request bodies have megabytes of. Both only accept: they stop before whatever they do
// not know, with the lexer as it would be there, and it is judged byte by byte.

const (
	sevens = 0x7F * lows
	zeros  = '0' * lows
	commas = ',' * lows
	nines  = (0x80 - 10) * lows // what makes a byte above 9 reach its high bit
)

// equal returns a word with the high bit of each byte set that is 0 in w.
func equal(w uint64) uint64 { return ^((w & sevens) + sevens | w) & highs }

// numberRun reads a list of whole numbers, of which the first begins at c[i]: digits, a comma, perhaps one space. It returns
// the index behind the last comma that it read, and how many there were.
//
// Eight bytes a turn: each byte is a digit, a comma or a space, and what a byte is decides what the one before it must be.
// Walking from number to number instead took three times as long, since where one ends is only known when it is read.
func numberRun(c []byte, i int) (end, count int) {
	end = i
	var digits, afterComma, zero uint64 = 0, 0x80, 0 // of the byte before; the first number stands as if after a comma
	for len(c)-i >= 8 {
		w := binary.LittleEndian.Uint64(c[i:])
		x := w ^ zeros
		d := ^((x & sevens) + nines | x) & highs
		comma, space := equal(w^commas), equal(w^blanks)
		before := d<<8 | digits
		bad := highs &^ (d | comma | space)     // another byte
		bad |= space &^ (comma<<8 | afterComma) // a space that follows no comma
		bad |= comma &^ before                  // a comma that follows no digit
		first := d &^ before & equal(x)         // a number that begins with 0
		bad |= (first<<8 | zero) & d            // and goes on
		if bad != 0 {
			break
		}
		if comma != 0 {
			end = i + bits.Len64(comma)/8
			count += int((comma >> 7 * lows) >> 56)
		}
		digits, afterComma, zero = d>>56, comma>>56, first>>56
		i += 8
	}
	return end, count
}

// manyNumbers is how many a run should have; a list that is written in another way is not tried again for every number.
const manyNumbers = 4

// run reads a list of numbers at c[i] of which the sink wants to know no more than how many there are.
func (x *lexer) run(c []byte, i int) int {
	if x.frame&objectBit != 0 || x.next != anywhere && !x.to.counted(x.next) {
		x.slow = true
		return i
	}
	end, n := numberRun(c, i)
	x.slow = n < manyNumbers
	if n > 0 {
		if x.next != anywhere {
			x.to.numbers(x.next, n)
		}
		x.state = wantValue
	}
	return end
}

// quoteMarks returns a word with a bit for each quote in the 64 bytes of c, and whether all else in them can stand for itself
// inside a string.
func quoteMarks(c *[64]byte) (marks uint64, ordinary bool) {
	odd := uint64(0)
	for k := 0; k < 64; k += 8 {
		w := binary.LittleEndian.Uint64(c[k:])
		odd |= ((w ^ backslants) - lows) | (w - blanks) | w // see special; what is no ASCII spoils the rest, and is seen here
		marks |= (^((w ^ quotes) + sevens) & highs >> 7 * gather >> 56) << k
	}
	return marks, odd&highs == 0
}

// gather moves the lowest bits of the eight bytes of a word into its highest byte.
const gather = 0x0102040810204080

// stringEnd returns the index in c of the first byte at or behind i that ends a string or needs a closer look, and the marks of
// the 64 bytes in which it was looked for: base and marks, as quoteMarks has them, or no marks.
func stringEnd(c []byte, i, base int) (end, newBase int, marks uint64) {
	if len(c)-i < 64 || i < base+64 && base >= 0 { // in the 64 bytes in hand is something odd, or the next quote lies behind them
		return plain(c, i), base, 0
	}
	marks, ordinary := quoteMarks((*[64]byte)(c[i:]))
	switch {
	case !ordinary:
		return plain(c, i), i, 0
	case marks == 0:
		return plain(c, i+64), i, 0
	}
	return i + bits.TrailingZeros64(marks), i, marks
}

// skip reads on at c[i] in a container of which nothing is wanted, as far as it is written plainly, and returns where it
// stopped. Schemas of tools are made of short strings: no call and no state for each. A list whose elements nobody wants is
// gone on with too; its end is left for the lexer to tell.
func (x *lexer) skip(c []byte, i int) int {
	frame, stack, state := x.frame, x.stack, x.state
	// What is special in the 64 bytes from base on. Looking for each string's end anew makes every string wait for the one
	// before; these marks do not.
	base, marks, token := -64, uint64(0), 0
	switch state {
	case wantKey, wantFirstKey:
		goto key
	case wantValue, wantFirst:
		goto value
	}

comma:
	state = wantComma
	if i >= len(c) {
		goto out
	}
	switch c[i] {
	case ',':
		i++
		if frame&objectBit != 0 {
			state = wantKey
			goto key
		}
		state = wantValue
		goto value
	case '}', ']':
		if frame != anywhere|objectBit && c[i] == '}' || frame != anywhere && c[i] == ']' {
			goto out
		}
		i++
		frame = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if len(stack) == 0 {
			state = atEnd
			goto out
		}
		if frame&^objectBit == anywhere || frame&objectBit == 0 && x.to.element(frame) == anywhere {
			goto comma
		}
		state = wantComma
	}
	goto out

key:
	if i < len(c) && c[i] == ' ' {
		i++
	}
	if i >= len(c) || c[i] != '"' {
		goto out
	}
	token = i
	if at := uint(i + 1 - base); at < 64 && marks>>at != 0 {
		i += 1 + bits.TrailingZeros64(marks>>at)
	} else {
		i, base, marks = stringEnd(c, i+1, base)
	}
	if i == len(c) || c[i] != '"' {
		i = token
		goto out
	}
	i++
	state = wantColon
	if i >= len(c) || c[i] != ':' {
		goto out
	}
	i++
	state = wantValue
	if i < len(c) && c[i] == '"' {
		goto text
	}

value:
	if i < len(c) && c[i] == ' ' {
		i++
	}
	if i >= len(c) {
		goto out
	}
	if c[i] != '"' {
		goto other
	}

text:
	token = i
	if at := uint(i + 1 - base); at < 64 && marks>>at != 0 {
		i += 1 + bits.TrailingZeros64(marks>>at)
	} else {
		i, base, marks = stringEnd(c, i+1, base)
	}
	if i < len(c) && c[i] == '"' {
		i++
		goto comma
	}
	i = token
	goto out

other:
	switch b := c[i]; b {
	case '{', '[':
		if len(stack) == maxDepth {
			goto out
		}
		stack = append(stack, frame)
		i++
		if b == '{' {
			frame, state = anywhere|objectBit, wantFirstKey
			goto key
		}
		frame, state, x.slow = anywhere, wantFirst, false
		goto value
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if frame&objectBit == 0 && !x.slow {
			end, n := numberRun(c, i)
			x.slow = n < manyNumbers
			if n > 0 {
				i, state = end, wantValue
				goto value
			}
		}
		j := i + 1
		for j < len(c) && c[j]-'0' <= 9 {
			j++
		}
		if j < len(c) && (c[j] == ',' || c[j] == '}' || c[j] == ']') {
			i = j
			goto comma
		}
	case 't':
		if len(c)-i >= 4 && string(c[i:i+4]) == "true" {
			i += 4
			goto comma
		}
	case 'f':
		if len(c)-i >= 5 && string(c[i:i+5]) == "false" {
			i += 5
			goto comma
		}
	case 'n':
		if len(c)-i >= 4 && string(c[i:i+4]) == "null" {
			i += 4
			goto comma
		}
	}

out:
	x.frame, x.stack, x.state, x.next = frame, stack, state, anywhere
	return i
}
