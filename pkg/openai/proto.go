package openai

// messageSink is told of the fields of a protobuf message that matter.
type messageSink interface {
	// child returns the node of field number in the message at node in, anywhere for one that is skipped; message says that
	// it is one to be read itself.
	child(in node, number uint64) (at node, message bool)
	// varint is a number: a varint, or a value of 4 or 8 bytes.
	varint(at node, v uint64, span Span)
	// opens and bytes are a value with a length, and what it holds, in as many pieces as it comes.
	opens(at node, span Span)
	bytes(at node, p []byte)
}

// messageDepth is the deepest nesting that is read; the messages that matter nest three deep.
const messageDepth = 4

// messageReader reads one protobuf message (protobuf.dev/programming-guides/encoding) in pieces of any size. It keeps
// nothing but a few numbers: a length that a client claims costs nothing until its bytes come.
type messageReader struct {
	to    messageSink
	off   int64 // of the next byte
	ends  [messageDepth]int64
	nodes [messageDepth]node
	depth int

	state  messageState
	value  uint64 // of the varint in hand
	shift  uint
	start  int64 // of the value in hand
	number uint64
	wire   uint64
	need   int64 // bytes of the value in hand to come
	at     node
}

type messageState uint8

const (
	wantTag messageState = iota
	wantVarint
	wantLength
	wantFixed
	wantBytes
)

// reset makes r ready for a message of so many bytes that begins at offset off and stands at root.
func (r *messageReader) reset(to messageSink, root node, off, length int64) {
	*r = messageReader{to: to, off: off}
	r.ends[0], r.nodes[0] = off+length, root
}

// end returns where the innermost message ends.
func (r *messageReader) end() int64 { return r.ends[r.depth] }

// feed reads c, which lies wholly in the message, and reports false if that is none.
func (r *messageReader) feed(c []byte) bool {
	for i := 0; i < len(c); {
		if r.state == wantBytes {
			n := min(int64(len(c)-i), r.need)
			if r.at != anywhere {
				r.to.bytes(r.at, c[i:i+int(n)])
			}
			i += int(n)
			r.off += n
			if r.need -= n; r.need == 0 {
				r.state = wantTag
			}
			r.leave()
			continue
		}
		b := c[i]
		i++
		r.off++
		if r.state == wantFixed {
			r.value |= uint64(b) << r.shift
			r.shift += 8
			if r.need--; r.need == 0 {
				r.number64()
			}
			r.leave()
			continue
		}
		if r.shift == 63 && b > 1 {
			return false // more than 64 bits
		}
		r.value |= uint64(b&0x7F) << r.shift
		r.shift += 7
		if b >= 0x80 {
			if r.off >= r.end() {
				return false // it goes on beyond its message
			}
			continue
		}
		if !r.whole() {
			return false
		}
		r.leave()
	}
	return true
}

// leave goes up from messages that end here.
func (r *messageReader) leave() {
	for r.state == wantTag && r.shift == 0 && r.depth > 0 && r.off >= r.end() {
		r.depth--
	}
}

// whole acts on a varint that is complete.
func (r *messageReader) whole() bool {
	v := r.value
	r.value, r.shift = 0, 0
	left := r.end() - r.off
	switch r.state {
	case wantTag:
		r.number, r.wire, r.start = v>>3, v&7, r.off
		if r.number == 0 || r.number > 1<<29-1 || left < 0 {
			return false
		}
		message := false
		r.at, message = r.to.child(r.nodes[r.depth], r.number)
		switch r.wire {
		case 0:
			r.state = wantVarint
		case 1, 5:
			r.state, r.need = wantFixed, 8
			if r.wire == 5 {
				r.need = 4
			}
			if left < r.need {
				return false
			}
		case 2:
			r.state = wantLength
		default:
			return false // groups are no longer written by anybody
		}
		if message && r.wire != 2 {
			r.at = anywhere
		}
		return left > 0
	case wantVarint:
		r.state = wantTag
		if r.at != anywhere {
			r.to.varint(r.at, v, Span{r.start, r.off})
		}
		return left >= 0
	}
	if v > uint64(max(left, 0)) {
		return false
	}
	length := int64(v)
	_, message := r.to.child(r.nodes[r.depth], r.number)
	if r.at != anywhere {
		r.to.opens(r.at, Span{r.off, r.off + length})
	}
	switch {
	case message && r.depth+1 < messageDepth:
		r.depth++
		r.ends[r.depth], r.nodes[r.depth] = r.off+length, r.at
		r.state = wantTag
	case length == 0:
		r.state = wantTag
	default:
		r.state, r.need = wantBytes, length
	}
	return true
}

func (r *messageReader) number64() {
	v := r.value
	r.value, r.shift, r.state = 0, 0, wantTag
	if r.at != anywhere {
		r.to.varint(r.at, v, Span{r.start, r.off})
	}
}

// complete reports whether the message ended where a field did.
func (r *messageReader) complete() bool {
	return r.state == wantTag && r.shift == 0 && r.depth == 0 && r.off == r.ends[0]
}
