package openai

import "bytes"

// DefaultMaxEvent is the longest event, in bytes of data, that an EventReader gives out unless told otherwise. Engines send
// a few hundred bytes per token; the last event of a long answer of the responses API repeats all of it.
const DefaultMaxEvent = 4 << 20

// Event is one server-sent event. Its slices are valid only during the call that hands it over.
type Event struct {
	Name []byte // the value of "event"; empty if there is none
	Data []byte // the values of "data", joined by line feeds
}

// EventReader cuts a stream of server-sent events (WHATWG HTML, section 9.2) into events, whatever the boundaries of the
// chunks. Lines may end in LF, CRLF or CR; a byte order mark and comments are passed over; "id" and "retry" are ignored.
// It differs from the standard in one thing: an event that the stream's end leaves without its blank line counts, since
// engines and proxies are known to omit it.
//
// Data that lies in one chunk is not copied; nothing is allocated per chunk once the buffers have grown to the longest
// piece that crossed a boundary.
type EventReader struct {
	max  int
	name []byte // of the event in hand
	data []byte // of the event in hand: in the chunk, in line, or in own
	own  []byte // data that must outlive its chunk
	line []byte // the start of a line that the last chunk left unfinished

	has     bool // the event in hand has data
	owned   bool // data is own
	over    bool // the event in hand is too long and will be skipped
	long    bool // the line in hand is too long; the rest of it is dropped
	cr      bool // the last byte was a CR: a LF belongs to it
	mark    int8 // how many bytes of a byte order mark were seen; -1 past the start
	skipped int64
}

const byteOrderMark = "\xef\xbb\xbf"

// NewEventReader returns an EventReader that skips events with more than maxEvent bytes of data, or with so long a name;
// 0 or less means DefaultMaxEvent. That bounds its memory at about twice maxEvent.
func NewEventReader(maxEvent int) *EventReader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &EventReader{max: maxEvent}
}

// Skipped returns how many events were too long.
func (r *EventReader) Skipped() int64 { return r.skipped }

// Feed reads the next chunk and calls yield with each event that it completes.
func (r *EventReader) Feed(chunk []byte, yield func(Event)) {
	c := chunk
	if r.mark >= 0 {
		if c = r.passMark(c); r.mark >= 0 {
			return
		}
	}
	feed := -2 // index in c of the next LF; -2 if it is to be looked for
	for i := 0; i < len(c); {
		if r.cr {
			r.cr = false
			if c[i] == '\n' {
				i++
				continue
			}
		}
		if feed != -1 && feed < i { // look for a LF once only, or a stream of CRs would take quadratic time
			if feed = bytes.IndexByte(c[i:], '\n'); feed >= 0 {
				feed += i
			}
		}
		end := len(c)
		if feed >= 0 {
			end = feed
		}
		if j := bytes.IndexByte(c[i:end], '\r'); j >= 0 {
			end = i + j
		}
		if end == len(c) {
			r.keepLine(c[i:])
			break
		}
		r.cr = c[end] == '\r'
		switch {
		case r.long:
			r.long, r.line = false, r.line[:0]
		case len(r.line) > 0:
			if r.keepLine(c[i:end]); !r.long {
				r.field(r.line, yield)
			}
			r.long = false
			if r.has && !r.owned { // line is about to be used again
				r.own = append(r.own[:0], r.data...)
				r.data, r.owned = r.own, true
			}
			r.line = r.line[:0]
		default:
			r.field(c[i:end], yield)
		}
		i = end + 1
	}
	if r.has && !r.owned {
		r.own = append(r.own[:0], r.data...)
		r.data, r.owned = r.own, true
	}
}

// Close says that the stream is over, and calls yield with the event in hand, if there is one.
func (r *EventReader) Close(yield func(Event)) {
	if r.mark > 0 { // a stream of a broken mark alone: no field begins so
		r.mark = -1
	}
	if len(r.line) > 0 && !r.long {
		r.field(r.line, yield)
	}
	r.dispatch(yield)
	r.line, r.long = r.line[:0], false
}

// passMark passes over a byte order mark at the start of the stream and returns the rest of c.
func (r *EventReader) passMark(c []byte) []byte {
	for i, b := range c {
		if b != byteOrderMark[r.mark] {
			// What looked like a mark is the start of a line.
			r.line = append(r.line, byteOrderMark[:r.mark]...)
			r.mark = -1
			return c[i:]
		}
		if r.mark++; int(r.mark) == len(byteOrderMark) {
			r.mark = -1
			return c[i+1:]
		}
	}
	return nil
}

// lineRoom is the longest beginning of a line that matters beyond the bound of its value: "event: ".
const lineRoom = 8

// keepLine keeps the beginning of a line, or marks it as too long.
func (r *EventReader) keepLine(part []byte) {
	if r.long {
		return
	}
	if len(r.line)+len(part) <= r.max+lineRoom {
		r.line = append(r.line, part...)
		return
	}
	// Its value is beyond the bound whatever else comes. Enough of it is read to know whether that matters.
	r.line = append(r.line, part[:min(len(part), lineRoom)]...)
	r.long = true
	if bytes.HasPrefix(r.line, []byte("data:")) || bytes.HasPrefix(r.line, []byte("event:")) {
		r.over = true
	}
}

// field reads a whole line.
func (r *EventReader) field(line []byte, yield func(Event)) {
	if len(line) == 0 {
		r.dispatch(yield)
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "event":
		if len(value) > r.max {
			r.over = true
			return
		}
		r.name = append(r.name[:0], value...)
	case "data":
		r.addData(value)
	}
}

// addData adds a line to the event's data.
func (r *EventReader) addData(value []byte) {
	if r.over {
		return
	}
	if len(value) > r.max || r.has && len(r.data)+1+len(value) > r.max {
		r.over = true
		return
	}
	if !r.has {
		r.data, r.has, r.owned = value, true, false
		return
	}
	if !r.owned {
		r.own = append(r.own[:0], r.data...)
	}
	r.own = append(append(r.own, '\n'), value...)
	r.data, r.owned = r.own, true
}

// dispatch ends the event in hand. One without data is none.
func (r *EventReader) dispatch(yield func(Event)) {
	switch {
	case r.over:
		r.skipped++
	case r.has:
		yield(Event{r.name, r.data})
	}
	r.name, r.data = r.name[:0], nil
	r.has, r.owned, r.over = false, false, false
}
