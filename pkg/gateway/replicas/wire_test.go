package replicas

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

var (
	v4 = netip.MustParseAddrPort("10.0.0.1:8000")
	v6 = netip.MustParseAddrPort("[2001:db8::1]:8000")
)

func every() []pool.Event {
	load := pool.Load{UncachedPrefill: 1234567, Decode: 256, Cached: 99, Silent: true, Long: true}
	return []pool.Event{
		{Kind: pool.Anew},
		{Kind: pool.Booked, Booking: pool.Booking{Slot: 300, Generation: 1<<32 - 1}, To: v4, Load: load, Left: 10 * time.Minute, Turn: 1_800_000_000_000_000},
		{Kind: pool.Brought, To: v6, Tokens: 64, Chain: []uint64{1, 1<<64 - 1, 3}},
		{Kind: pool.Moved, Booking: pool.Booking{Slot: 300, Generation: 1<<32 - 1}, To: v6, Load: pool.Load{Decode: 1}},
		{Kind: pool.Begun, Booking: pool.Booking{Slot: 1, Generation: 2}},
		{Kind: pool.Told, Booking: pool.Booking{Slot: 1, Generation: 2}, Tokens: 77},
		{Kind: pool.Ended, Booking: pool.Booking{Slot: 1, Generation: 2}},
	}
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	var b []byte
	for _, e := range every() {
		b = append(appendEvent(b, &e), alive)
	}
	r := reader{from: bufio.NewReader(bytes.NewReader(b))}
	for _, want := range every() {
		if got, err := r.event(); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if got, err := r.event(); err != nil || got.Kind != alive {
			t.Fatalf("got %+v, %v; want a sign of life", got, err)
		}
	}
	if _, err := r.event(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// What is beyond a bound is told as the bound, and what has no address without one: neither ends the stream.
func TestWhateverIsToldIsRead(t *testing.T) {
	load := pool.Load{UncachedPrefill: 1 << 62, Cached: -1, Decode: pool.MaxTokens + 1}
	for _, e := range []pool.Event{
		{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 1}, To: v4, Load: load, Left: 100 * 365 * 24 * time.Hour, Turn: 1<<63 - 1},
		{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 1}, To: v4, Load: load, Left: -1, Turn: -1},
		{Kind: pool.Moved, Booking: pool.Booking{Slot: 1, Generation: 1}, Load: load},
		{Kind: pool.Brought, Tokens: 1 << 40, Chain: []uint64{1}},
		{Kind: pool.Told, Booking: pool.Booking{Slot: 1, Generation: 1}, Tokens: 1 << 40},
	} {
		r := reader{from: bufio.NewReader(bytes.NewReader(appendEvent(nil, &e)))}
		got, err := r.event()
		if err != nil || got.Kind != e.Kind || got.To != e.To || got.Load.Decode > pool.MaxTokens || got.Left > leftMost {
			t.Errorf("%+v is read as %+v, %v", e, got, err)
		}
		if _, err := r.event(); err != io.EOF {
			t.Errorf("%+v: behind it stands more, %v", e, err)
		}
	}
}

func TestALongChainIsCut(t *testing.T) {
	e := pool.Event{Kind: pool.Brought, To: v4, Tokens: 64, Chain: make([]uint64, chainMost+1)}
	r := reader{from: bufio.NewReader(bytes.NewReader(appendEvent(nil, &e)))}
	if got, err := r.event(); err != nil || len(got.Chain) != chainMost {
		t.Errorf("%d blocks, %v; want %d", len(got.Chain), err, chainMost)
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		text []byte
	}{
		{"an unknown kind", []byte{200}},
		{"a slot beyond 32 bits", []byte{byte(pool.Ended), 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 1}},
		{"an address of three bytes", []byte{byte(pool.Brought), 3, 1, 2, 3}},
		{"a chain without end", append(appendAddress([]byte{byte(pool.Brought)}, v4), 64, 0xff, 0xff, 0xff, 0x7f)},
		{"a load that no prompt has", append(appendAddress([]byte{byte(pool.Moved), 1, 1}, v4), 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f)},
	} {
		r := reader{from: bufio.NewReader(bytes.NewReader(row.text))}
		if e, err := r.event(); !errors.Is(err, errNoEvent) {
			t.Errorf("%s: %+v, %v", row.name, e, err)
		}
	}
	for _, e := range every()[1:] {
		whole := appendEvent(nil, &e)
		for n := 1; n < len(whole); n++ {
			r := reader{from: bufio.NewReader(bytes.NewReader(whole[:n]))}
			if _, err := r.event(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("kind %d cut to %d of %d bytes: %v", e.Kind, n, len(whole), err)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	var all []byte
	for _, e := range every() {
		all = appendEvent(all, &e)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, text []byte) {
		r := reader{from: bufio.NewReader(bytes.NewReader(text))}
		for {
			e, err := r.event()
			if err != nil {
				return
			}
			if len(e.Chain) > chainMost {
				t.Fatalf("%d blocks", len(e.Chain))
			}
			if e.Kind == alive {
				continue
			}
			again := reader{from: bufio.NewReader(bytes.NewReader(appendEvent(nil, &e)))}
			if back, err := again.event(); err != nil || back.Kind != e.Kind || back.Booking != e.Booking || back.To != e.To || back.Load != e.Load || back.Turn != e.Turn {
				t.Fatalf("%+v came back as %+v, %v", e, back, err)
			}
		}
	})
}

// told is what one request is to the others: a prompt of 8,000 characters, its answer and its end.
func told(slot uint32) []pool.Event {
	h := pool.Booking{Slot: slot, Generation: 1}
	at := netip.MustParseAddrPort("192.0.2.1:8000")
	return []pool.Event{
		{Kind: pool.Booked, Booking: h, To: at, Load: pool.Load{UncachedPrefill: 2000, Decode: 256}, Left: time.Minute, Turn: 1_800_000_000_000_000},
		{Kind: pool.Brought, To: at, Tokens: 64, Chain: make([]uint64, 31)},
		{Kind: pool.Begun, Booking: h},
		{Kind: pool.Told, Booking: h, Tokens: 300},
		{Kind: pool.Ended, Booking: h},
	}
}

func BenchmarkTelling(b *testing.B) {
	j := newJournal(DefaultKeptBytes)
	events := told(1)
	b.ReportAllocs()
	for b.Loop() {
		for i := range events {
			j.tell(events[i])
		}
	}
	b.ReportMetric(float64(j.position())/float64(b.N), "bytes/op")
}

func BenchmarkHearing(b *testing.B) {
	var text []byte
	for _, e := range told(1) {
		text = appendEvent(text, &e)
	}
	p, m := pool.New("p", nil), pool.Mirror{}
	p.Update(1, []pool.Endpoint{{Name: "a", Addr: netip.MustParseAddrPort("192.0.2.1:8000")}})
	from := bytes.NewReader(text)
	r := reader{from: bufio.NewReader(from)}
	var events []pool.Event
	b.ReportAllocs()
	for b.Loop() {
		from.Reset(text)
		r.from.Reset(from)
		r.forget()
		events = events[:0]
		for range 5 {
			e, err := r.event()
			if err != nil {
				b.Fatal(err)
			}
			events = append(events, e)
		}
		if n := p.Hear(2, &m, events); n != 0 {
			b.Fatal(n)
		}
	}
}
