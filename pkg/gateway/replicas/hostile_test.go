package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// stranger answers every request at an address with what say writes, and counts them.
func (n *network) stranger(at byte, say func(c net.Conn)) (h *host, asked *int) {
	h, asked = n.listen(netip.AddrFrom4([4]byte{10, 0, 0, at})), new(int)
	go func() {
		for {
			c, err := h.Accept()
			if err != nil {
				return
			}
			*asked++
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					say(c)
				}
			}()
		}
	}()
	return h, asked
}

const begun = "HTTP/1.1 200 OK\r\n" + Header + ": other\r\n\r\n"

// Who always ends soon, as a replica of another version might, is asked more and more seldom.
func TestAStreamThatAlwaysEndsIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		h, asked := n.stranger(9, func(c net.Conn) { fmt.Fprint(c, begun+"\x63") })
		defer h.Close()
		a := n.start(t, 1)
		defer a.stop()
		<-time.After(time.Minute)
		synctest.Wait()
		if *asked < 5 || *asked > 30 {
			t.Errorf("it was asked %d times in a minute", *asked)
		}
	})
}

// Whatever a replica tells, nothing is left of it when it has gone, and nothing breaks.
func TestNothingIsLeftOfNonsense(t *testing.T) {
	huge := pool.Load{UncachedPrefill: pool.MaxTokens, Cached: pool.MaxTokens, Decode: pool.MaxTokens}
	for _, row := range []struct {
		name string
		tell func(rng *rand.Rand, b []byte) []byte
	}{
		{"huge loads", func(rng *rand.Rand, b []byte) []byte {
			l := huge
			l.Silent = rng.IntN(2) == 0
			e := pool.Event{Kind: pool.Booked, Booking: pool.Booking{Slot: rng.Uint32N(pool.MaxMirrored + 2), Generation: 1}, To: someone(rng), Load: l, Left: leftMost}
			return appendEvent(b, &e)
		}},
		{"any events", func(rng *rand.Rand, b []byte) []byte {
			e := pool.Event{Kind: pool.EventKind(rng.IntN(8)), Booking: pool.Booking{Slot: rng.Uint32N(50), Generation: rng.Uint32N(3)}, To: someone(rng),
				Load: pool.Load{UncachedPrefill: rng.Int64N(pool.MaxTokens), Decode: rng.Int64N(pool.MaxTokens), Cached: rng.Int64N(pool.MaxTokens), Silent: rng.IntN(2) == 0},
				Left: time.Duration(rng.Int64N(int64(time.Second))), Tokens: rng.Int64N(pool.MaxTokens), Chain: make([]uint64, rng.IntN(40))}
			return appendEvent(b, &e)
		}},
		{"prompts without blocks and blocks without tokens", func(rng *rand.Rand, b []byte) []byte {
			e := pool.Event{Kind: pool.Brought, To: someone(rng), Chain: make([]uint64, rng.IntN(2)*chainMost)}
			return appendEvent(b, &e)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{hosts: map[netip.Addr]chan net.Conn{}}
				h, _ := n.stranger(9, func(c net.Conn) {
					rng := rand.New(rand.NewPCG(1, 2))
					fmt.Fprint(c, begun)
					for range 50 {
						var b []byte
						for range 40 {
							b = row.tell(rng, b)
						}
						if _, err := c.Write(b); err != nil {
							return
						}
						<-time.After(20 * time.Millisecond)
					}
				})
				a := n.start(t, 1)
				defer a.stop()
				x, _ := a.ask(t, 1, 3)
				<-time.After(500 * time.Millisecond)
				a.ask(t, 2, 3)
				<-time.After(4 * time.Second)
				n.mu.Lock()
				delete(n.hosts, h.at)
				n.mu.Unlock()
				h.Close()
				<-time.After(10 * time.Second)
				synctest.Wait()
				expect(t, "when it has gone", a, 2, 0)
				_ = x
				a.pool.Decide(func(s *pool.Snapshot, b *pool.Books) {
					prompts, answers := int64(0), int64(0)
					for id := range s.Slots {
						prompts += b.ContextTokens[id]
						answers += b.DecodeTokens[id]
						if b.PrefillTokens[id] < 0 || b.PrefillTokens[id] > 400 || b.NoFirstByte[id] > 2 || b.BacklogEnds[id] > a.clock.Now()+pool.Instant(time.Minute) {
							t.Errorf("endpoint %d has %d tokens to compute of %d requests until %v", id, b.PrefillTokens[id], b.NoFirstByte[id], b.BacklogEnds[id])
						}
					}
					if prompts != 2*193 {
						t.Errorf("%d tokens of prompts are left, want 386", prompts)
					}
				})
			})
		})
	}
}

func someone(rng *rand.Rand) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(6))}), 8000)
}

// A name of any length is no replica's.
func TestALongNameIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		h, _ := n.stranger(9, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n"+Header+": "+strings.Repeat("x", idMost+1)+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, c) // until it is left
		})
		defer h.Close()
		a := n.start(t, 1)
		defer a.stop()
		<-time.After(500 * time.Millisecond)
		if a.times(reason.ReplicaRefused) == 0 || a.listener.Heard() != 0 {
			t.Errorf("refused %d times, %d heard", a.times(reason.ReplicaRefused), a.listener.Heard())
		}
	})
}

// The bound is of all names together.
func TestAddressesOfAllNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a := n.start(t, 1)
		defer a.stop()
		dialled := map[string]bool{}
		var names []string
		for i := range 3 {
			names = append(names, fmt.Sprintf("name-%d:9004", i))
		}
		lock := make(chan struct{}, 1)
		l := NewListener(ListenerOptions{Self: a.listener.Self, Names: names, Log: a.listener.Log,
			Lookup: func(_ context.Context, host string) (out []netip.Addr, _ error) {
				for i := range 40 {
					out = append(out, netip.AddrFrom4([4]byte{10, 1, host[5] - '0', byte(i)}))
				}
				return out, nil
			},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				lock <- struct{}{}
				dialled[address] = true
				<-lock
				return nil, errors.New("nobody")
			}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		<-time.After(time.Minute)
		cancel()
		<-done
		if len(dialled) != MaxReplicas {
			t.Errorf("%d addresses were followed, want %d", len(dialled), MaxReplicas)
		}
	})
}

// A configuration that takes a pool away, and one that brings it back, make another pool of the same name: that is told and heard of.
func TestAnotherPoolOfTheSameNameIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a, b := n.start(t, 1), n.start(t, 2)
		defer a.stop()
		defer b.stop()
		<-time.After(2 * lookup)
		for _, r := range []*replica{a, b} {
			file, _ := config.Load([]byte(config.DefaultText), "default", catalog.Builtin())
			built, problems := file.Build()
			if built == nil {
				t.Fatal(problems)
			}
			r.anotherPool()
			next, err := r.s.Replace(r.clock.Now(), built, []*pool.Pool{r.pool}, "", "")
			if err != nil {
				t.Fatal(err)
			}
			r.s = next
		}
		<-time.After(3 * lookup)
		a.ask(t, 1, 20)
		settle()
		expect(t, "after a configuration with another pool", b, 1, 1)
		if x, y := a.listener.Heard(), b.listener.Heard(); x != 1 || y != 1 {
			t.Errorf("they hear %d and %d streams, want 1 each", x, y)
		}
	})
}

// Connections on which nobody asks are closed, so that they keep no replica out.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a := n.start(t, 1)
		defer a.stop()
		for _, text := range []string{"", "GET " + Path + "?pool=none HTTP/1.1\r\nHost: a\r\n\r\n"} {
			c, err := n.dial(t.Context(), "tcp", "10.0.0.1:9004")
			if err != nil {
				t.Fatal(err)
			}
			go fmt.Fprint(c, text)
			gone := make(chan struct{})
			go func() { _, _ = io.Copy(io.Discard, c); close(gone) }()
			<-time.After(2 * patience)
			synctest.Wait()
			select {
			case <-gone:
			default:
				t.Errorf("after %q the connection stays", text)
			}
			c.Close()
		}
	})
}

// What a client asks for does not end the stream between replicas.
func TestNoRequestEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a, b := n.start(t, 1), n.start(t, 2)
		defer a.stop()
		defer b.stop()
		<-time.After(2 * lookup)
		for _, answers := range []int64{1, 1 << 24, 1 << 40, 1<<63 - 1} {
			a.askFor(t, answers)
		}
		settle()
		expect(t, "after four", b, 4, 4)
		if n := b.times(reason.ReplicaLost); n != 0 {
			t.Errorf("the stream was lost %d times", n)
		}
	})
}

// A replica with two addresses is heard at one of them, and at the other as soon as the first has gone.
func TestTheOtherAddressOfAReplicaIsHeardInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		gone := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		var heard [2]atomic.Int32 // streams that were told a booking and stay
		for i := range gone {
			h, _ := n.stranger(byte(8+i), func(c net.Conn) {
				e := pool.Event{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 1}, To: netip.MustParseAddrPort("192.0.2.1:8000"), Left: time.Hour}
				heard[i].Add(1)
				defer heard[i].Add(-1)
				for text := begun + string(appendEvent(nil, &e)); ; text = "\x00" {
					if _, err := fmt.Fprint(c, text); err != nil {
						return
					}
					select {
					case <-gone[i]:
						return
					case <-time.After(quiet):
					}
				}
			})
			defer h.Close()
		}
		a := n.start(t, 1)
		defer func() { a.stop(); <-time.After(2 * quiet) }() // until strangers have seen that nobody reads
		<-time.After(2 * time.Second)
		synctest.Wait()
		expect(t, "of two addresses", a, 1, 1)
		first := 0
		if heard[1].Load() > 0 {
			first = 1
		}
		n.mu.Lock()
		delete(n.hosts, netip.AddrFrom4([4]byte{10, 0, 0, byte(8 + first)}))
		n.mu.Unlock()
		close(gone[first])
		settle()
		expect(t, "of the one that is left", a, 1, 1)
	})
}
