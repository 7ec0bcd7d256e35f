package h2

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
)

// waiting holds its first message back until it is let go.
type waiting struct {
	s    *Stream
	open chan *waiting
	got  []string
	held bool
}

func (w *waiting) Message(m []byte) {
	w.got = append(w.got, string(m))
	if !w.held {
		w.held = true
		w.s.Pause()
		w.open <- w
		return
	}
	w.s.Send([]byte("after "), m, false)
}
func (w *waiting) HalfClosed() { w.s.Finish(0, "") }
func (w *waiting) Over()       {}

// TestPause: what comes during a pause comes after it, and other streams go on meanwhile.
func TestPause(t *testing.T) {
	opened := make(chan *waiting, 1)
	client := serving(t, Options{Open: func(s *Stream, _ string) Handler {
		for v := range s.Metadata("x-kind") {
			if v == "echo" {
				return &echo{s, make(chan struct{})}
			}
		}
		return &waiting{s: s, open: opened}
	}})
	client.greet()
	client.open(1)
	client.send(1, "first", false)
	w := <-opened
	client.send(1, "second", false)
	client.send(1, "third", true)
	client.open(3, "x-kind", "echo")
	client.send(3, "meanwhile", true)
	if a := client.reply(3); len(a.messages) != 1 {
		t.Errorf("%+v", a)
	}
	w.s.Do(func() {
		w.s.Send([]byte("first"), nil, false)
		w.s.Continue()
	})
	a := client.reply(1)
	if diff := cmp.Diff([]string{"first", "after second", "after third"}, a.messages); diff != "" || a.status != "0" {
		t.Errorf("status %s, -want +got:\n%s", a.status, diff)
	}
	w.s.Do(func() { t.Error("a stream that is over was given something to do") })
}

// panicking fails where it is told to.
type panicking struct {
	s  *Stream
	at string
}

func (p *panicking) Message([]byte) { p.fail("message") }
func (p *panicking) HalfClosed()    { p.fail("end") }
func (p *panicking) Over()          { p.fail("over") }
func (p *panicking) fail(at string) {
	if p.at == at {
		panic(at)
	}
}

// TestPanics: a panic ends its stream with INTERNAL, is told, and nothing else ends.
func TestPanics(t *testing.T) {
	for _, at := range []string{"open", "message", "end", "over"} {
		t.Run(at, func(t *testing.T) {
			var mu sync.Mutex
			var told []any
			client := serving(t, Options{
				Failed: func(p any) { mu.Lock(); told = append(told, p); mu.Unlock() },
				Open: func(s *Stream, method string) Handler {
					if method == "/s/Other" {
						return &echo{s, make(chan struct{})}
					}
					p := &panicking{s, at}
					p.fail("open")
					return p
				},
			})
			client.greet()
			client.open(1)
			client.send(1, "a", true)
			if at == "over" {
				client.must(client.framer.WriteRSTStream(1, http2.ErrCodeCancel))
			} else if a := client.reply(1); a.status != "13" {
				t.Errorf("%+v", a)
			}
			client.must(client.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: client.fields("/s/Other"), EndHeaders: true}))
			client.send(3, "b", true)
			if a := client.reply(3); a.status != "0" {
				t.Errorf("the next stream: %+v", a)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 1 || told[0] != at {
				t.Errorf("told of %v", told)
			}
		})
	}
}

// keeping keeps what it gets and answers with all of it at the end.
type keeping struct {
	s    *Stream
	kept [][]byte
}

func (k *keeping) Message(m []byte) { k.kept = append(k.kept, k.s.Keep(m)) }
func (k *keeping) HalfClosed() {
	for _, m := range k.kept {
		k.s.Send(nil, m, true)
	}
	k.s.Finish(0, "")
}
func (k *keeping) Over() {}

// TestKeep: what is kept stays as it was, whatever comes after it.
func TestKeep(t *testing.T) {
	client := serving(t, Options{Open: func(s *Stream, _ string) Handler { return &keeping{s: s} }})
	client.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
	client.must(client.framer.WriteWindowUpdate(0, 1<<24))
	client.open(1)
	var want []string
	var all []byte
	for i := range 60 {
		m := strings.Repeat(fmt.Sprint(i%10), (i*7919)%40_000)
		want = append(want, m)
		all = append(all, message(m)...)
	}
	go func() {
		for len(all) > 0 {
			n := min(len(all), 16384)
			_ = client.framer.WriteData(1, n == len(all), all[:n])
			all = all[n:]
		}
	}()
	a := client.reply(1)
	if len(a.messages) != len(want) {
		t.Fatalf("%d messages; want %d", len(a.messages), len(want))
	}
	for i := range want {
		if a.messages[i] != want[i] {
			t.Errorf("message %d of %d bytes is another", i, len(want[i]))
		}
	}
}

// canned is a connection whose writes are counted and thrown away.
type canned struct {
	net.Conn
	written int
}

func (c *canned) Write(b []byte) (int, error)      { c.written += len(b); return len(b), nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }
func (c *canned) Close() error                     { return nil }

// looped is a connection of an echo server whose reading the caller does, with one stream open.
func looped(t testing.TB) (*conn, *canned) {
	t.Helper()
	s := New(Options{Open: echoing(nil).Open, Failed: func(p any) { t.Errorf("%v", p) }, MaxMessage: 1 << 20, MaxAnswer: 1 << 20, MaxStreams: 10})
	nc := &canned{}
	c := newConn(s, nc)
	helper := client{t: t}
	var block bytes.Buffer
	helper.framer = http2.NewFramer(&block, nil)
	helper.encoder = hpackEncoder(&helper.block)
	helper.must(helper.framer.WriteWindowUpdate(0, 1<<31-1-defaultWindow))
	helper.open(1)
	helper.must(helper.framer.WriteWindowUpdate(1, 1<<31-1-defaultWindow))
	c.w = copy(c.in, block.Bytes())
	if !c.turn() || c.streams[1] == nil {
		t.Fatal("the stream is not open")
	}
	return c, nc
}

// TestNoAllocations: a message that comes and its answer cost none.
func TestNoAllocations(t *testing.T) {
	c, nc := looped(t)
	m := message(strings.Repeat("x", 200))
	frame := append(appendHeader(nil, len(m), frameData, 0, 1), m...)
	before := nc.written
	n := testing.AllocsPerRun(1000, func() {
		c.r, c.w = 0, copy(c.in, frame)
		if !c.turn() {
			t.Fatal("the connection has ended")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
	if nc.written-before < 1000*len(frame) {
		t.Errorf("%d bytes were written", nc.written-before)
	}
}

func BenchmarkMessage(b *testing.B) {
	c, _ := looped(b)
	m := message(strings.Repeat("x", 200))
	frame := append(appendHeader(nil, len(m), frameData, 0, 1), m...)
	b.ReportAllocs()
	for b.Loop() {
		c.streams[1].room, c.room = 1<<30, 1<<30
		c.r, c.w = 0, copy(c.in, frame)
		c.turn()
	}
}

// FuzzFrames: whatever comes after the preface, nothing panics, and what is gathered and held is bounded by what came.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	helper := client{t: f}
	helper.framer = http2.NewFramer(&b, nil)
	helper.encoder = hpackEncoder(&helper.block)
	helper.must(helper.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20}))
	helper.open(1)
	helper.send(1, "hello", false)
	helper.must(helper.framer.WriteWindowUpdate(1, 100))
	helper.must(helper.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	helper.open(3)
	helper.send(3, strings.Repeat("a", 5000), true)
	helper.must(helper.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: helper.fields("/s/M")[:4]}))
	helper.must(helper.framer.WriteContinuation(5, true, helper.fields("/s/M")[4:]))
	f.Add(b.Bytes(), uint8(3))
	f.Add([]byte("\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, hold uint8) {
		s := New(Options{Failed: func(p any) { t.Errorf("%v", p) }, MaxMessage: 1 << 20, MaxAnswer: 1 << 20, MaxStreams: 10, Open: func(s *Stream, m string) Handler {
			if uint8(s.id)&hold != 0 {
				s.Pause()
			}
			return &keeping{s: s}
		}})
		c := newConn(s, &canned{})
		for on := true; on && len(data) > 0; {
			n := copy(c.in[c.w:], data)
			data = data[n:]
			c.w += n
			on = c.turn()
			c.w = copy(c.in, c.in[c.r:c.w])
			c.r = 0
		}
		if len(c.streams) > 10 {
			t.Errorf("%d streams", len(c.streams))
		}
		for _, s := range c.streams {
			if cap(s.in) > 2*streamWindow+firstGrowth {
				t.Errorf("%d bytes are held for a stream", cap(s.in))
			}
			s.Do(s.Continue)
		}
		c.shut()
	})
}
