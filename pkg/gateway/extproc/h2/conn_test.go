package h2

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
)

// TestMessages: however messages are cut into frames, each comes once and whole.
func TestMessages(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 20_000) // of several frames
	var two []byte
	two = append(append(two, message("one")...), message("two")...)
	for _, c := range []struct {
		name string
		data []byte
		cut  int // bytes of a frame
		want []string
	}{
		{"one in a frame", message("hello"), 100, []string{"hello"}},
		{"an empty one", message(""), 100, []string{""}},
		{"two in a frame", two, 100, []string{"one", "two"}},
		{"byte by byte", two, 1, []string{"one", "two"}},
		{"a long one", message(long), 16384, []string{long}},
		{"a long one and a short one", append(message(long), message("x")...), 16384, []string{long, "x"}},
		{"a short one and a long one", append(message("x"), message(long)...), 10_000, []string{"x", long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serving(t, echoing(nil))
			client.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
			client.must(client.framer.WriteWindowUpdate(0, 1<<20))
			client.open(1)
			for d := c.data; len(d) > 0; {
				n := min(len(d), c.cut)
				client.must(client.framer.WriteData(1, n == len(d), d[:n]))
				d = d[n:]
			}
			a := client.reply(1)
			if diff := cmp.Diff(c.want, a.messages); diff != "" || a.status != "0" || a.http != "200" {
				t.Errorf("status %q, -want +got:\n%.300s", a.status, diff)
			}
		})
	}
}

// TestLongAnswer: an answer beyond the limit is not sent.
func TestLongAnswer(t *testing.T) {
	o := echoing(nil)
	o.MaxAnswer = 10
	client := serving(t, o)
	client.greet()
	client.open(1)
	client.send(1, "0123456789", false)
	client.send(1, "0123456789a", true)
	if a := client.reply(1); a.status != "8" || a.text != "an answer of 11 bytes; at most 10" || len(a.messages) != 1 {
		t.Errorf("%+v", a)
	}
}

// TestRefusedStreams: what ends a stream, and leaves the connection.
func TestRefusedStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames func(c *client)
		status string
		http   string
		text   string
		reset  http2.ErrCode
	}{
		{"a method that there is not", func(c *client) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields("/s/Other"), EndHeaders: true}))
		}, "12", "200", "no method /s/Other", 0},
		{"a compressed message", func(c *client) {
			c.open(1, "grpc-encoding", "gzip")
			c.must(c.framer.WriteData(1, false, []byte{1, 0, 0, 0, 1, 'x'}))
		}, "12", "200", `a message is compressed by "gzip"; only identity is taken`, 0},
		{"a message that is too long", func(c *client) {
			c.open(1)
			c.must(c.framer.WriteData(1, false, []byte{0, 0xff, 0xff, 0xff, 0xff}))
		}, "8", "200", "a message of 4294967295 bytes; at most 1048576", 0},
		{"an end within a message", func(c *client) {
			c.open(1)
			c.must(c.framer.WriteData(1, true, []byte{0, 0, 0}))
		}, "13", "200", "the stream ended within a message", 0},
		{"no gRPC", func(c *client) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true}))
		}, "", "415", "", 0},
		{"data after the end", func(c *client) {
			c.open(1)
			c.send(1, "a", false)
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields("/s/M"), EndHeaders: true})) // trailers that are no end
		}, "", "200", "", http2.ErrCodeProtocol},
		{"an increment of 0", func(c *client) {
			c.open(1)
			c.must(c.framer.WriteWindowUpdate(1, 0))
		}, "", "", "", http2.ErrCodeProtocol},
		{"a window beyond 2^31", func(c *client) {
			c.open(1)
			c.must(c.framer.WriteWindowUpdate(1, 1<<31-1))
		}, "", "", "", http2.ErrCodeFlowControl},
		{"too many headers", func(c *client) {
			more := []string{}
			for range 30 {
				more = append(more, "x-long", strings.Repeat("a", 3000)) // once, and then by its index
			}
			block := c.fields("/s/M", more...)
			first := true
			for len(block) > 0 {
				n := min(len(block), 16384)
				if first {
					c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:n], EndHeaders: n == len(block)}))
				} else {
					c.must(c.framer.WriteContinuation(1, n == len(block), block[:n]))
				}
				first, block = false, block[n:]
			}
		}, "", "", "", http2.ErrCodeEnhanceYourCalm},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serving(t, echoing(nil))
			client.greet()
			c.frames(client)
			a := client.reply(1)
			if a.status != c.status || a.text != c.text || a.http != c.http || a.reset != c.reset {
				t.Errorf("%+v", a)
			}
			client.open(3)
			client.send(3, "still here", true)
			if a := client.reply(3); len(a.messages) != 1 || a.status != "0" {
				t.Errorf("the next stream: %+v", a)
			}
		})
	}
}

// TestBrokenConnections: what ends a connection, and with which code.
func TestBrokenConnections(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame string // after the greeting
		code  http2.ErrCode
	}{
		{"a frame that is too long", "\x00\x40\x01\x00\x00\x00\x00\x00\x01", http2.ErrCodeFrameSize},
		{"data without a stream", "\x00\x00\x00\x00\x00\x00\x00\x00\x00", http2.ErrCodeProtocol},
		{"data of a stream that was not opened", "\x00\x00\x00\x00\x00\x00\x00\x00\x01", http2.ErrCodeProtocol},
		{"a stream of an even number", "\x00\x00\x00\x01\x04\x00\x00\x00\x02", http2.ErrCodeProtocol},
		{"headers that are padding", "\x00\x00\x01\x01\x0c\x00\x00\x00\x01\x05", http2.ErrCodeProtocol},
		{"headers of a priority that ends", "\x00\x00\x01\x01\x24\x00\x00\x00\x01\x00", http2.ErrCodeFrameSize},
		{"headers that cannot be decoded", "\x00\x00\x01\x01\x04\x00\x00\x00\x01\xff", http2.ErrCodeCompression},
		{"a continuation of nothing", "\x00\x00\x00\x09\x04\x00\x00\x00\x01", http2.ErrCodeProtocol},
		{"a ping within headers", "\x00\x00\x00\x01\x00\x00\x00\x00\x01" + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", http2.ErrCodeProtocol},
		{"a push", "\x00\x00\x04\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02", http2.ErrCodeProtocol},
		{"a ping of seven bytes", "\x00\x00\x07\x06\x00\x00\x00\x00\x001234567", http2.ErrCodeFrameSize},
		{"settings of seven bytes", "\x00\x00\x07\x04\x00\x00\x00\x00\x001234567", http2.ErrCodeFrameSize},
		{"settings of a stream", "\x00\x00\x00\x04\x00\x00\x00\x00\x01", http2.ErrCodeProtocol},
		{"a window that is too large", "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\xff\xff\xff\xff", http2.ErrCodeFlowControl},
		{"frames that are too small", "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01", http2.ErrCodeProtocol},
		{"no increment", "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00", http2.ErrCodeProtocol},
		{"an increment beyond 2^31", "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff", http2.ErrCodeFlowControl},
		{"a reset of a stream that was not opened", "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08", http2.ErrCodeProtocol},
		{"a priority without a stream", "\x00\x00\x05\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", http2.ErrCodeProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serving(t, echoing(nil))
			client.greet()
			client.write([]byte(c.frame))
			if code := client.gone(); code != c.code {
				t.Errorf("ended with %v; want %v", code, c.code)
			}
		})
	}
	t.Run("another protocol", func(t *testing.T) {
		client := serving(t, echoing(nil))
		client.write([]byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"))
		if code := client.gone(); code != http2.ErrCodeNo {
			t.Errorf("ended with %v", code)
		}
	})
	t.Run("headers without end", func(t *testing.T) {
		client := serving(t, echoing(nil))
		client.greet()
		part := make([]byte, 16000)
		client.must(client.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part}))
		for range 6 {
			if client.framer.WriteContinuation(1, false, part) != nil {
				break // it is gone already
			}
		}
		if code := client.gone(); code != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("ended with %v", code)
		}
	})
	t.Run("more than the connection's window", func(t *testing.T) {
		client := serving(t, Options{Open: func(s *Stream, _ string) Handler {
			s.Pause()
			return &echo{s, make(chan struct{})}
		}})
		client.greet()
		for id := uint32(1); id < 9; id += 2 { // each its own window, of which one is overdrawn
			client.open(id)
		}
		block := make([]byte, 16384)
		for range 65 {
			client.must(client.framer.WriteData(1, false, block))
		}
		if a := client.reply(1); a.reset != http2.ErrCodeFlowControl {
			t.Errorf("%+v", a)
		}
	})
}

// TestUnknownFramesAreIgnored, priorities and the client's GOAWAY too, and pings are answered.
func TestUnknownFramesAreIgnored(t *testing.T) {
	client := serving(t, echoing(nil))
	client.greet()
	client.must(client.framer.WriteRawFrame(0x77, 0xff, 1, []byte("whatever")))
	client.must(client.framer.WritePriority(1, http2.PriorityParam{Weight: 3}))
	client.must(client.framer.WriteGoAway(0, http2.ErrCodeNo, nil))
	client.must(client.framer.WritePing(true, [8]byte{}))
	client.must(client.framer.WritePing(false, [8]byte{1, 2, 3}))
	if f, ok := client.read().(*http2.PingFrame); !ok || !f.IsAck() || f.Data != [8]byte{1, 2, 3} {
		t.Errorf("the ping was answered by %v", f)
	}
	client.must(client.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: client.fields("/s/M"), EndHeaders: true, PadLength: 7, Priority: http2.PriorityParam{StreamDep: 3, Weight: 5},
	}))
	client.must(client.framer.WriteDataPadded(1, true, message("padded"), make([]byte, 200)))
	if a := client.reply(1); len(a.messages) != 1 || a.messages[0] != "padded" {
		t.Errorf("%+v", a)
	}
}

// TestFlowControl: what the client has no room for waits, in order, and trailers come last.
func TestFlowControl(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	t.Run("of a stream", func(t *testing.T) {
		client := serving(t, echoing(nil))
		client.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		client.must(client.framer.WriteWindowUpdate(0, 1<<20))
		client.open(1)
		client.send(1, "twelve bytes", false)
		client.send(1, "more", true)
		got := 0
		for got < 10 {
			if d, ok := client.read().(*http2.DataFrame); ok {
				got += len(d.Data())
			}
		}
		if got != 10 {
			t.Fatalf("%d bytes came; there is room for 10", got)
		}
		client.must(client.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 12})) // two more
		client.must(client.framer.WriteWindowUpdate(1, 3))
		client.must(client.framer.WritePing(false, [8]byte{9}))
		for ponged := false; !ponged; {
			switch f := client.read().(type) {
			case *http2.DataFrame:
				got += len(f.Data())
			case *http2.PingFrame:
				ponged = true
			}
		}
		if got != 15 {
			t.Errorf("%d bytes came; there is room for 15", got)
		}
		client.must(client.framer.WriteWindowUpdate(1, 100))
		for {
			f := client.read()
			if d, ok := f.(*http2.DataFrame); ok {
				got += len(d.Data())
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				break
			}
		}
		if want := 2*prefix + len("twelve bytes") + len("more"); got != want {
			t.Errorf("%d bytes came; want %d", got, want)
		}
	})
	t.Run("of the connection", func(t *testing.T) {
		client := serving(t, echoing(nil))
		client.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		for id := uint32(1); id <= 5; id += 2 {
			client.open(id)
			for d := message(long); len(d) > 0; {
				n := min(len(d), 16384)
				client.must(client.framer.WriteData(id, n == len(d), d[:n]))
				d = d[n:]
			}
		}
		got := map[uint32]int{}
		for ended := 0; ended < 3; {
			switch f := client.read().(type) {
			case *http2.DataFrame:
				got[f.StreamID] += len(f.Data())
				client.must(client.framer.WriteWindowUpdate(0, uint32(len(f.Data()))))
			case *http2.MetaHeadersFrame:
				if f.StreamEnded() {
					ended++
				}
			}
		}
		for id, n := range got {
			if n != prefix+len(long) {
				t.Errorf("stream %d: %d bytes", id, n)
			}
		}
	})
	t.Run("a client that reads nothing gets no room", func(t *testing.T) {
		client := serving(t, echoing(nil))
		client.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		client.open(1)
		sent, room := 0, streamWindow
		for d := message(long); room >= len(d); room -= len(d) {
			for part := d; len(part) > 0; {
				n := min(len(part), 16384)
				client.must(client.framer.WriteData(1, false, part[:n]))
				part = part[n:]
			}
			sent += len(d)
		}
		client.must(client.framer.WritePing(false, [8]byte{}))
		given := 0
		for {
			f := client.read()
			if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 1 {
				given += int(w.Increment)
			}
			if _, ok := f.(*http2.PingFrame); ok {
				break
			}
		}
		if given > sent || given > queueLimit {
			t.Errorf("%d bytes of %d were given back", given, sent)
		}
	})
}

// TestMaxStreams: one more than the limit is refused, and there is room again when one ends.
func TestMaxStreams(t *testing.T) {
	o := echoing(nil)
	o.MaxStreams = 2
	client := serving(t, o)
	client.greet()
	client.open(1)
	client.open(3)
	client.open(5)
	if a := client.reply(5); a.reset != http2.ErrCodeRefusedStream {
		t.Errorf("%+v", a)
	}
	client.must(client.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	client.open(7)
	client.send(7, "a", true)
	if a := client.reply(7); a.status != "0" {
		t.Errorf("%+v", a)
	}
}

// TestOver: a handler hears of the end of its stream once, whoever ended it.
func TestOver(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"by the client's reset":  func(c *client) { c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel)) },
		"by the client's end":    func(c *client) { c.must(c.framer.WriteData(1, true, nil)) },
		"with the connection":    func(c *client) { _ = c.nc.Close() },
		"by a connection's fail": func(c *client) { c.write([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00")) },
		"by stopping":            func(c *client) { go c.server.Stop(expired()) },
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			client := serving(t, echoing(over))
			client.greet()
			client.open(1)
			client.send(1, "a", false)
			for {
				if _, ok := client.read().(*http2.DataFrame); ok {
					break
				}
			}
			end(client)
			select {
			case <-over:
			case <-time.After(5 * time.Second):
				t.Fatal("it was not told")
			}
		})
	}
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestGoAway: a server that leaves serves what is open, and one that stops takes nothing new and closes after the last.
func TestGoAway(t *testing.T) {
	client := serving(t, echoing(nil))
	client.greet()
	client.open(1)
	client.must(client.framer.WritePing(false, [8]byte{}))
	client.read()
	client.server.Leave()
	if g, ok := client.read().(*http2.GoAwayFrame); !ok || g.ErrCode != http2.ErrCodeNo || g.LastStreamID != 1<<31-1 {
		t.Fatalf("got %v", g)
	}
	client.open(3) // it was on its way
	client.must(client.framer.WritePing(false, [8]byte{}))
	client.read()
	stopped := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		client.server.Stop(ctx)
		close(stopped)
	}()
	if g, ok := client.read().(*http2.GoAwayFrame); !ok || g.LastStreamID != 3 {
		t.Fatalf("got %v", g)
	}
	client.open(5)
	if a := client.reply(5); a.reset != http2.ErrCodeRefusedStream {
		t.Errorf("%+v", a)
	}
	for _, id := range []uint32{3, 1} {
		client.send(id, "last words", true)
		if a := client.reply(id); len(a.messages) != 1 || a.status != "0" {
			t.Errorf("stream %d: %+v", id, a)
		}
	}
	if code := client.gone(); code != http2.ErrCodeNo {
		t.Errorf("ended with %v", code)
	}
	_ = client.nc.Close()
	<-stopped
}
