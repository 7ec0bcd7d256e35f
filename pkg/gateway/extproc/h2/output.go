package h2

import (
	"net"
	"time"
)

const (
	// flushAt is how much is gathered before it is written, though more is there to be read.
	flushAt = 64 << 10
	// byReference is from which length on a payload is written from where it lies; a shorter one is copied.
	byReference = 4 << 10
	// writeTimeout is how long the other side may leave a write standing.
	writeTimeout = 60 * time.Second
)

// output gathers what is to be written: buf is its own bytes, between which lie payloads of others.
type output struct {
	buf   []byte
	cuts  []cut
	bytes int // of the payloads
	// vectored: the connection writes several slices at once, so that payloads need no copy.
	vectored bool
	iov      [][]byte
	buffers  net.Buffers // a field, since WriteTo has it escape
	deadline time.Time
}

// cut is a payload that goes where buf has this length.
type cut struct {
	at      int
	payload []byte
}

// payload appends b, which must not change until the next flush.
func (o *output) payload(b []byte) {
	if !o.vectored || len(b) < byReference {
		o.buf = append(o.buf, b...)
		return
	}
	o.cuts = append(o.cuts, cut{len(o.buf), b})
	o.bytes += len(b)
}

func (o *output) full() bool { return len(o.buf)+o.bytes >= flushAt }

// flush writes everything.
func (o *output) flush(to net.Conn) error {
	if len(o.buf) == 0 {
		return nil // a payload never comes without a frame's header
	}
	if now := time.Now(); o.deadline.Sub(now) < writeTimeout/2 { // setting it costs as much as a short frame
		o.deadline = now.Add(writeTimeout)
		if err := to.SetWriteDeadline(o.deadline); err != nil {
			return err
		}
	}
	var err error
	if len(o.cuts) == 0 {
		_, err = to.Write(o.buf)
	} else {
		o.iov = o.iov[:0]
		at := 0
		for _, c := range o.cuts {
			if c.at > at {
				o.iov = append(o.iov, o.buf[at:c.at])
			}
			o.iov, at = append(o.iov, c.payload), c.at
		}
		if at < len(o.buf) {
			o.iov = append(o.iov, o.buf[at:])
		}
		o.buffers = o.iov
		_, err = o.buffers.WriteTo(to)
		clear(o.iov)
	}
	o.drop()
	return err
}

// drop forgets what was gathered.
func (o *output) drop() {
	clear(o.cuts)
	o.cuts, o.bytes = o.cuts[:0], 0
	if o.buf = o.buf[:0]; cap(o.buf) > 4*flushAt {
		o.buf = nil
	}
}
