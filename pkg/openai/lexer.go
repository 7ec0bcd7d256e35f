package openai

import "fmt"

// maxDepth is the deepest nesting of objects and arrays that is read; encoding/json has the same bound.
const maxDepth = 10_000

// maxCarry is the longest token, in bytes as sent, whose text is kept across chunks for the sink. Names of members,
// numbers and types are far shorter; a sink that wants longer strings goes by their offsets.
const maxCarry = 512

// SyntaxError says where a body stops being JSON and why. It never shows a byte of the body: the message goes to clients
// and logs.
type SyntaxError struct {
	// Offset is the index of the first wrong byte; the length of the body if it ended too early.
	Offset int64
	// What completes the sentence "the body is not valid JSON: …".
	What string
}

// Error returns the sentence that a client is shown.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("the body is not valid JSON at byte %d: %s", e.Offset, e.What)
}

// kind is the kind of a scalar value.
type kind uint8

const (
	isString kind = iota
	isNumber
	isTrue
	isFalse
	isNull
)

// node names a place in the document that a sink cares for; what lies below anywhere is skipped without a call.
type node uint8

const anywhere node = 0

// objectBit marks the node of an open container that is an object.
const objectBit node = 0x80

// sink is told of the values at nodes other than anywhere, in the order of the bytes. Offsets are into the whole document.
type sink interface {
	// key returns the node of the value of member name, decoded, in the object at node in.
	key(in node, name []byte) node
	// element returns the node of the elements of the array at node in.
	element(in node) node
	// counted reports whether of numbers in the array that holds node at nothing is wanted but how many there are; numbers
	// then tells of some.
	counted(at node) bool
	numbers(at node, n int)
	// open and close bracket an object or array; start is the offset of its first byte, end the one behind its last.
	open(at node, object bool, start int64)
	close(at node, object bool, end int64)
	// scalar is a string (the span lies between its quotes), number or literal. text are its bytes as sent, valid during
	// the call; nil if it is longer than maxCarry and crossed a chunk's boundary.
	scalar(at node, k kind, span Span, text []byte)
}

// state is what the lexer expects at the next byte.
type state uint8

const (
	wantValue    state = iota // after a colon or a comma in an array, or at the start
	wantFirst                 // after [: a value or ]
	wantFirstKey              // after {: a name or }
	wantKey                   // after a comma in an object
	wantColon
	wantComma // after a value in a container: comma or close
	atEnd     // after the outermost value
	inString
	inEscape  // after a backslash
	inHex     // need hexadecimal digits to go
	inRune    // need continuation bytes to go, the next within [lo, hi]
	inMinus   // after -: a digit
	inZero    // after a leading 0
	inDigits  // in the integer part
	inPoint   // after the point: a digit
	inDecimal // in the fraction
	inE       // after e: a sign or a digit
	inESign   // after the exponent's sign: a digit
	inPower   // in the exponent
	inLiteral // in true, false or null
)

// lexer reads a JSON document in pieces of any size, accepts exactly what encoding/json calls valid and is UTF-8, and
// tells its sink of the values that matter. The zero value is not ready: reset it.
type lexer struct {
	to    sink
	state state
	frame node   // the innermost open container
	stack []node // the containers around it
	next  node   // where the value to come stands

	off   int64  // offset of the chunk in hand
	start int64  // offset of the token in hand
	carry []byte // its bytes from earlier chunks, if keep
	keep  bool   // the sink wants the token
	name  bool   // the string is a member's name
	esc   bool   // the string holds an escape
	slow  bool   // the list in hand is not one of plain numbers

	need, lo, hi byte   // see inHex and inRune
	literal      string // what of it is still to come
	kind         kind   // of the literal

	scratch []byte // for names with escapes
}

// reset makes x ready for a document whose outermost value stands at root.
func (x *lexer) reset(to sink, root node) {
	*x = lexer{to: to, next: root, stack: x.stack[:0], carry: x.carry[:0], scratch: x.scratch[:0]}
}

// trim lets go of memory that an unusual document made grow.
func (x *lexer) trim() {
	if cap(x.stack) > 1024 {
		x.stack = nil
	}
}

func (x *lexer) fail(i int, what string) *SyntaxError { return &SyntaxError{x.off + int64(i), what} }

// feed reads the next piece of the document. After an error x must be reset.
func (x *lexer) feed(c []byte) *SyntaxError {
	x.slow = false
	for i := 0; i < len(c); {
		if x.frame&^objectBit == anywhere && x.state <= wantComma && x.state != wantColon && len(x.stack) > 0 {
			if i = x.skip(c, i); i >= len(c) {
				break
			}
		}
		b := c[i]
		switch x.state {
		case inString, inEscape, inHex, inRune:
			var err *SyntaxError
			if i, err = x.str(c, i); err != nil {
				return err
			}

		case wantComma:
			switch b {
			case ' ', '\t', '\r', '\n':
				i++
			case ',':
				i++
				if x.frame&objectBit != 0 {
					x.state = wantKey
				} else {
					x.state = wantValue
					x.next = x.elementNode()
				}
			case '}':
				if x.frame&objectBit == 0 {
					return x.fail(i, "a comma or the end of the array is expected")
				}
				i++
				x.pop(i)
			case ']':
				if x.frame&objectBit != 0 {
					return x.fail(i, "a comma or the end of the object is expected")
				}
				i++
				x.pop(i)
			default:
				if x.frame&objectBit != 0 {
					return x.fail(i, "a comma or the end of the object is expected")
				}
				return x.fail(i, "a comma or the end of the array is expected")
			}

		case wantKey, wantFirstKey:
			switch {
			case b == '"':
				i++
				x.begin(i, x.frame&^objectBit, inString)
				x.name, x.esc = true, false
			case b == ' ' || b == '\t' || b == '\r' || b == '\n':
				i++
			case b == '}' && x.state == wantFirstKey:
				i++
				x.pop(i)
			default:
				return x.fail(i, "the name of a member in double quotes is expected")
			}

		case wantColon:
			switch b {
			case ':':
				i++
				x.state = wantValue
			case ' ', '\t', '\r', '\n':
				i++
			default:
				return x.fail(i, "a colon is expected after the name of a member")
			}

		case wantValue, wantFirst:
			var err *SyntaxError
			if i, err = x.value(c, i); err != nil {
				return err
			}

		case atEnd:
			switch b {
			case ' ', '\t', '\r', '\n':
				i++
			default:
				return x.fail(i, "nothing may follow the outermost value")
			}

		case inLiteral:
			if b != x.literal[0] {
				return x.fail(i, "a value is expected; the only bare words are true, false and null")
			}
			i++
			if x.literal = x.literal[1:]; x.literal == "" {
				x.scalar(c, i, x.kind)
			}

		default:
			var err *SyntaxError
			if i, err = x.number(c, i); err != nil {
				return err
			}
		}
	}
	if x.keep && x.state >= inString {
		if from := max(x.start-x.off, 0); x.off+int64(len(c))-x.start <= maxCarry {
			x.carry = append(x.carry, c[from:]...)
		}
	}
	x.off += int64(len(c))
	return nil
}

// end says that the document is over.
func (x *lexer) end() *SyntaxError {
	switch x.state {
	case inZero, inDigits, inDecimal, inPower:
		if len(x.stack) == 0 {
			x.scalar(nil, 0, isNumber)
		}
	}
	switch {
	case x.state == atEnd:
		return nil
	case x.off == 0:
		return x.fail(0, "the body is empty")
	}
	return x.fail(0, "the body ends too early")
}

// value reads the first byte of a value at c[i].
func (x *lexer) value(c []byte, i int) (int, *SyntaxError) {
	switch b := c[i]; b {
	case '"':
		i++
		x.begin(i, x.next, inString)
		x.name, x.esc = false, false
	case ' ', '\t', '\r', '\n':
		i++
	case '{', '[':
		if len(x.stack) == maxDepth {
			return i, x.fail(i, "objects and arrays nest deeper than 10000 levels")
		}
		x.stack = append(x.stack, x.frame)
		x.frame = x.next
		if b == '{' {
			x.frame |= objectBit
		}
		if x.next != anywhere {
			x.to.open(x.next, b == '{', x.off+int64(i))
		}
		if b == '{' {
			x.state = wantFirstKey
		} else {
			x.state, x.slow = wantFirst, false
			x.next = x.elementNode()
		}
		i++
	case '0':
		x.begin(i, x.next, inZero)
		i++
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if !x.slow && len(x.stack) > 0 {
			if j := x.run(c, i); j > i {
				return j, nil
			}
		}
		x.begin(i, x.next, inDigits)
		return x.number(c, i+1)
	case '-':
		x.begin(i, x.next, inMinus)
		i++
	case 't':
		x.begin(i, x.next, inLiteral)
		x.literal, x.kind = "rue", isTrue
		i++
	case 'f':
		x.begin(i, x.next, inLiteral)
		x.literal, x.kind = "alse", isFalse
		i++
	case 'n':
		x.begin(i, x.next, inLiteral)
		x.literal, x.kind = "ull", isNull
		i++
	case ']':
		if x.state != wantFirst {
			return i, x.fail(i, "a value is expected")
		}
		i++
		x.pop(i)
	case 0xEF:
		if x.off+int64(i) == 0 {
			return i, x.fail(i, "a byte order mark must not stand before the value")
		}
		return i, x.fail(i, "a value is expected")
	default:
		return i, x.fail(i, "a value is expected")
	}
	return i, nil
}

// elementNode returns where the elements of the innermost container, an array, stand.
func (x *lexer) elementNode() node {
	if x.frame == anywhere {
		return anywhere
	}
	return x.to.element(x.frame)
}

// begin starts a token at c[i] that concerns node at.
func (x *lexer) begin(i int, at node, s state) {
	x.start = x.off + int64(i)
	x.state = s
	if x.keep = at != anywhere; x.keep {
		x.carry = x.carry[:0]
	}
}

// text returns the bytes of the token that ends before c[i], or nil if it is too long to have been kept.
func (x *lexer) text(c []byte, i int) []byte {
	if x.start >= x.off {
		return c[x.start-x.off : i]
	}
	if x.off+int64(i)-x.start > maxCarry {
		return nil
	}
	x.carry = append(x.carry, c[:i]...)
	return x.carry
}

// scalar ends a value before c[i]. For a string, c[i] is its closing quote.
func (x *lexer) scalar(c []byte, i int, k kind) {
	if x.keep {
		x.to.scalar(x.next, k, Span{x.start, x.off + int64(i)}, x.text(c, i))
	}
	x.ended()
}

// ended says that a value is over.
func (x *lexer) ended() {
	if len(x.stack) == 0 {
		x.state = atEnd
	} else {
		x.state = wantComma
	}
}

// pop closes the innermost container before c[i].
func (x *lexer) pop(i int) {
	f := x.frame
	x.frame = x.stack[len(x.stack)-1]
	x.stack = x.stack[:len(x.stack)-1]
	if at := f &^ objectBit; at != anywhere {
		x.to.close(at, f&objectBit != 0, x.off+int64(i))
	}
	x.ended()
}

// number reads on in a number at c[i]; a byte that ends it is left for the caller.
func (x *lexer) number(c []byte, i int) (int, *SyntaxError) {
	if x.state == inDigits { // lists of token ids are made of these
		for i < len(c) && c[i]-'0' <= 9 {
			i++
		}
	}
	for ; i < len(c); i++ {
		b := c[i]
		digit := b-'0' <= 9
		switch x.state {
		case inDigits, inDecimal, inPower:
			if digit {
				continue
			}
		case inMinus:
			switch {
			case b == '0':
				x.state = inZero
				continue
			case digit:
				x.state = inDigits
				continue
			}
			return i, x.fail(i, "a digit is expected after a minus")
		case inPoint:
			if !digit {
				return i, x.fail(i, "a digit is expected after a decimal point")
			}
			x.state = inDecimal
			continue
		case inE:
			if b == '+' || b == '-' {
				x.state = inESign
				continue
			}
			fallthrough
		case inESign:
			if !digit {
				return i, x.fail(i, "a digit is expected in an exponent")
			}
			x.state = inPower
			continue
		}
		switch {
		case b == '.' && (x.state == inZero || x.state == inDigits):
			x.state = inPoint
		case (b == 'e' || b == 'E') && x.state != inPower:
			x.state = inE
		default:
			x.scalar(c, i, isNumber)
			return i, nil
		}
	}
	return i, nil
}
