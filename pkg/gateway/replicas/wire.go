package replicas

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// A stream is a sequence of events without anything between them. An event is its kind, one byte, and what that kind has, in this
// order: the slot and generation of its booking; an address, its length in bytes (6 or 18, 2 without one), the address and the port; the three
// parts of a load and a byte of flags; what is left until the deadline, in microseconds, and the turn; a number of tokens; a
// chain, its length and its hashes, eight bytes each. Numbers are unsigned varints, hashes and ports little endian. Another form
// would have another path.

// alive is what stands in a stream where nothing happened for a while.
const alive = 0

// The flags of a load.
const (
	isSilent = 1 << iota
	isLong
)

// chainMost bounds the blocks of a prompt that are told; those beyond are not.
const chainMost = 2048

// errNoEvent says that what was read is no event of ours.
var errNoEvent = errors.New("not an event of a picker's bookings")

// appendEvent appends e to b. Numbers beyond the bounds that the other side keeps are told as these: what one client asks for must
// not end a stream.
func appendEvent(b []byte, e *pool.Event) []byte {
	b = append(b, byte(e.Kind))
	switch e.Kind {
	case pool.Anew:
		return b
	case pool.Brought:
		chain := e.Chain[:min(len(e.Chain), chainMost)]
		b = appendAddress(b, e.To)
		b = number(b, e.Tokens, pool.MaxTokens)
		b = number(b, int64(len(chain)), chainMost)
		for _, h := range chain {
			b = binary.LittleEndian.AppendUint64(b, h)
		}
		return b
	}
	b = number(b, int64(e.Booking.Slot), math.MaxUint32)
	b = number(b, int64(e.Booking.Generation), math.MaxUint32)
	switch e.Kind {
	case pool.Booked, pool.Moved:
		b = appendAddress(b, e.To)
		b = number(b, e.Load.UncachedPrefill, pool.MaxTokens)
		b = number(b, e.Load.Cached, pool.MaxTokens)
		b = number(b, e.Load.Decode, pool.MaxTokens)
		flags := byte(0)
		if e.Load.Silent {
			flags |= isSilent
		}
		if e.Load.Long {
			flags |= isLong
		}
		b = append(b, flags)
		if e.Kind == pool.Booked {
			b = number(b, e.Left.Microseconds(), int64(leftMost/time.Microsecond))
			b = number(b, e.Turn, pool.MaxTurn)
		}
	case pool.Told:
		b = number(b, e.Tokens, pool.MaxTokens)
	}
	return b
}

func number(b []byte, n, most int64) []byte {
	return binary.AppendUvarint(b, uint64(min(max(n, 0), most)))
}

func appendAddress(b []byte, a netip.AddrPort) []byte {
	ip := a.Addr().AsSlice()
	b = append(b, byte(len(ip)+2))
	b = append(b, ip...)
	return binary.LittleEndian.AppendUint16(b, a.Port())
}

// reader reads events. Their chains stand in memory that forget uses again.
type reader struct {
	from   *bufio.Reader
	hashes []uint64
	err    error
}

// forget gives the chains of all events that were read up for use again.
func (r *reader) forget() { r.hashes = r.hashes[:0] }

// event reads one, which has the zero Kind where a stream only says that it is alive.
func (r *reader) event() (e pool.Event, err error) {
	r.err = nil
	kind, err := r.from.ReadByte()
	if err != nil {
		return e, err
	}
	e.Kind = pool.EventKind(kind)
	switch e.Kind {
	case alive, pool.Anew:
		return e, nil
	case pool.Brought:
		e.To = r.address()
		e.Tokens = r.number(pool.MaxTokens)
		e.Chain = r.chain(int(r.number(chainMost)))
		return e, r.failed(kind)
	case pool.Booked, pool.Moved, pool.Begun, pool.Told, pool.Ended:
	default:
		return e, fmt.Errorf("%w: kind %d", errNoEvent, kind)
	}
	e.Booking.Slot = uint32(r.number(math.MaxUint32))
	e.Booking.Generation = uint32(r.number(math.MaxUint32))
	switch e.Kind {
	case pool.Booked, pool.Moved:
		e.To = r.address()
		e.Load.UncachedPrefill = r.number(pool.MaxTokens)
		e.Load.Cached = r.number(pool.MaxTokens)
		e.Load.Decode = r.number(pool.MaxTokens)
		flags := r.number(isSilent | isLong)
		e.Load.Silent, e.Load.Long = flags&isSilent != 0, flags&isLong != 0
		if e.Kind == pool.Booked {
			e.Left = time.Duration(r.number(int64(leftMost/time.Microsecond))) * time.Microsecond
			e.Turn = r.number(pool.MaxTurn)
		}
	case pool.Told:
		e.Tokens = r.number(pool.MaxTokens)
	}
	return e, r.failed(kind)
}

// leftMost bounds the deadline of a booking that is heard of.
const leftMost = 30 * 24 * time.Hour

func (r *reader) failed(kind byte) error {
	if r.err == nil {
		return nil
	}
	if errors.Is(r.err, io.EOF) {
		r.err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("event of kind %d: %w", kind, r.err)
}

// number reads one of at most most, 0 where something is wrong.
func (r *reader) number(most int64) int64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(r.from)
	if err == nil && n > uint64(most) {
		err = fmt.Errorf("%w: %d where at most %d stands", errNoEvent, n, most)
	}
	if err != nil {
		r.err = err
		return 0
	}
	return int64(n)
}

func (r *reader) address() (a netip.AddrPort) {
	n := r.number(18)
	if r.err != nil {
		return a
	}
	if n != 2 && n != 6 && n != 18 {
		r.err = fmt.Errorf("%w: an address of %d bytes", errNoEvent, n)
		return a
	}
	var b [18]byte
	if _, r.err = io.ReadFull(r.from, b[:n]); r.err != nil {
		return a
	}
	ip, _ := netip.AddrFromSlice(b[:n-2])
	return netip.AddrPortFrom(ip, binary.LittleEndian.Uint16(b[n-2:n]))
}

func (r *reader) chain(n int) []uint64 {
	if r.err != nil {
		return nil
	}
	start := len(r.hashes)
	var b [8]byte
	for range n {
		if _, r.err = io.ReadFull(r.from, b[:]); r.err != nil {
			return nil
		}
		r.hashes = append(r.hashes, binary.LittleEndian.Uint64(b[:]))
	}
	return r.hashes[start:len(r.hashes):len(r.hashes)]
}
