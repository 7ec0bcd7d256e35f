package replicas

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// network is one in memory, in which every host has an address.
type network struct {
	mu    sync.Mutex
	hosts map[netip.Addr]chan net.Conn
}

// host listens at an address.
type host struct {
	at   netip.Addr
	come chan net.Conn
	gone chan struct{}
	once sync.Once
}

func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.come:
		return c, nil
	case <-h.gone:
		return nil, net.ErrClosed
	}
}
func (h *host) Close() error   { h.once.Do(func() { close(h.gone) }); return nil }
func (h *host) Addr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(h.at, 9004)) }

func (n *network) listen(at netip.Addr) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &host{at: at, come: make(chan net.Conn), gone: make(chan struct{})}
	n.hosts[at] = h.come
	return h
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	come := n.hosts[netip.MustParseAddrPort(address).Addr()]
	n.mu.Unlock()
	if come == nil {
		return nil, errors.New("no such host")
	}
	here, there := net.Pipe()
	select {
	case come <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) lookup(context.Context, string) (out []netip.Addr, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at := range n.hosts {
		out = append(out, at)
	}
	return out, nil
}

// replica is one process.
type replica struct {
	s        *exchange.Scheduler
	pool     *pool.Pool
	clock    *clock.Clock
	listener *Listener
	host     *host
	stop     func() // as a process that ends

	mu    sync.Mutex
	noted map[reason.ID]int
}

func (r *replica) Note(id reason.ID, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noted[id]++
}

func (r *replica) times(id reason.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noted[id]
}

// start begins replica number i, which hears of all.
func (n *network) start(t *testing.T, i byte) *replica {
	t.Helper()
	file, problems := config.Load([]byte(config.DefaultText), "default", catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	r := &replica{clock: clock.Start(time.Now()), noted: map[reason.ID]int{}}
	r.anotherPool()
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Alarm, o.Seed = built, []*pool.Pool{r.pool}, r, r.clock, uint64(i)
	var err error
	if r.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	self := Self{ID: fmt.Sprint("replica-", i), Scheduler: r.s.Current, Clock: r.clock.Now, Sink: r}
	ctx, cancel := context.WithCancel(t.Context())
	server := Server(NewTeller(self, DefaultKeptBytes), log.Default())
	r.host = n.listen(netip.AddrFrom4([4]byte{10, 0, 0, i}))
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(r.host) })
	r.listener = NewListener(ListenerOptions{Self: self, Names: []string{"replicas:9004"}, Log: slog.New(slog.DiscardHandler), Lookup: n.lookup, Dial: n.dial})
	all.Go(func() { r.listener.Run(ctx) })
	all.Go(func() { r.clock.Drive(ctx, r.s.Current) })
	r.stop = func() {
		n.mu.Lock()
		delete(n.hosts, r.host.at)
		n.mu.Unlock()
		cancel()
		server.Close()
		all.Wait()
	}
	return r
}

// anotherPool makes a pool of the same name and members.
func (r *replica) anotherPool() {
	r.pool = pool.New("default", r)
	var members []pool.Endpoint
	for k := range 4 {
		members = append(members, pool.Endpoint{Name: fmt.Sprint("pod-", k), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(k + 1)}), 8000)})
	}
	r.pool.Update(r.clock.Now(), members)
}

// ask has a prompt of so many blocks decided, and returns the exchange and where it goes.
func (r *replica) ask(t *testing.T, prompt uint64, blocks int) (*exchange.Exchange, netip.AddrPort) {
	t.Helper()
	x := r.s.Begin(r.clock.Now(), nil)
	a := x.Described(r.clock.Now(), summary(prompt, blocks), exchange.Said{})
	if a.Do != exchange.Forward {
		t.Fatalf("not forwarded: %+v", a)
	}
	return x, a.To[0]
}

// summary is a prompt of so many blocks.
func summary(prompt uint64, blocks int) *openai.Summary {
	s := openai.NewSummary()
	s.Complete, s.Stream, s.Model = true, true, "m"
	s.PromptTokens, s.BlockTokens = int64(64*blocks+1), 64
	for b := range uint64(blocks) {
		s.BlockHashes = append(s.BlockHashes, (prompt*1000+b+1)*0x9e3779b97f4a7c15)
	}
	return s
}

// held is a request whose adapter waits to be woken.
type held struct {
	*exchange.Exchange
	r     *replica
	woken chan struct{}
	a     exchange.Action
}

func (h *held) Wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// begin has a prompt decided that may be held.
func (r *replica) begin(prompt uint64, blocks int) *held {
	h := &held{r: r, woken: make(chan struct{}, 1)}
	h.Exchange = r.s.Begin(r.clock.Now(), h)
	h.a = h.Described(r.clock.Now(), summary(prompt, blocks), exchange.Said{})
	return h
}

// goes waits until it may, and returns where.
func (h *held) goes(t *testing.T) netip.AddrPort {
	t.Helper()
	for h.a.Do == exchange.Hold {
		<-h.woken
		h.a = h.Resume(h.r.clock.Now())
	}
	if h.a.Do != exchange.Forward {
		t.Fatalf("not forwarded: %+v", h.a)
	}
	return h.a.To[0]
}

// askFor has a request decided that asks for so many answers.
func (r *replica) askFor(t *testing.T, answers int64) {
	t.Helper()
	s := openai.NewSummary()
	s.Complete, s.Stream, s.Model, s.PromptTokens, s.MaxTokens, s.N = true, true, "m", 10, 1<<40, answers
	if a := r.s.Begin(r.clock.Now(), nil).Described(r.clock.Now(), s, exchange.Said{}); a.Do != exchange.Forward {
		t.Fatalf("not forwarded: %+v", a)
	}
}

// requests is what the books of a replica have, of all and of others.
func (r *replica) requests() (all, heard int32) {
	r.pool.Decide(func(_ *pool.Snapshot, b *pool.Books) {
		for id := range b.Requests {
			all += b.Requests[id]
			heard += b.Heard[id]
		}
	})
	return all, heard
}

func expect(t *testing.T, when string, r *replica, all, heard int32) {
	t.Helper()
	if a, h := r.requests(); a != all || h != heard {
		t.Errorf("%s: %d requests in the books, %d of others; want %d and %d", when, a, h, all, heard)
	}
}

// settle lets what was told arrive.
func settle() {
	<-time.After(20 * time.Millisecond)
	synctest.Wait()
}

func TestReplicasTellEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a := n.start(t, 1)
		defer func() { a.stop() }()
		early, _ := a.ask(t, 1, 20)
		b := n.start(t, 2)
		<-time.After(2 * lookup)
		synctest.Wait()
		expect(t, "what was open when they met", b, 1, 1)
		if x, y := a.listener.Heard(), b.listener.Heard(); x != 1 || y != 1 {
			t.Errorf("they hear %d and %d streams, want 1 each, and not their own", x, y)
		}

		late, to := b.ask(t, 2, 100)
		settle()
		expect(t, "what was booked since", a, 2, 1)
		late.Response(b.clock.Now(), openai.Headers{{Name: ":status", Value: "200"}}, netip.AddrPort{}, false)
		settle()
		if _, again := a.ask(t, 2, 100); again != to {
			t.Errorf("a prompt that the other sent to %v goes to %v", to, again)
		}
		settle()
		expect(t, "what both booked", b, 3, 2)

		for _, x := range []struct {
			r *replica
			x *exchange.Exchange
		}{{a, early}, {b, late}} {
			x.x.Response(x.r.clock.Now(), openai.Headers{{Name: ":status", Value: "200"}}, netip.AddrPort{}, false)
			x.x.End(x.r.clock.Now(), exchange.Ending{Clean: true})
		}
		settle()
		expect(t, "after two ended", a, 1, 0)
		expect(t, "after two ended", b, 1, 1)

		a.stop()
		settle()
		expect(t, "after one has gone", b, 0, 0)
		if b.times(reason.ReplicaLost) == 0 {
			t.Error("nobody noted that it has gone")
		}
		a = n.start(t, 1)
		_, _ = a.ask(t, 3, 20)
		<-time.After(3 * lookup)
		synctest.Wait()
		expect(t, "after it is back", b, 1, 1)
		b.stop()
		if n := b.times(reason.HearsayUnknown) + a.times(reason.HearsayUnknown); n != 0 {
			t.Errorf("%d tales were of no use", n)
		}
	})
}

// What is told right after something else goes together with what follows for a millisecond, but a booking at once: until it arrives
// others choose without it.
func TestABookingIsToldAtOnce(t *testing.T) {
	end := func(_ *testing.T, a *replica, open *exchange.Exchange) { open.End(a.clock.Now(), exchange.Ending{}) }
	book := func(t *testing.T, a *replica, _ *exchange.Exchange) { a.ask(t, 2, 20) }
	type deed func(t *testing.T, a *replica, open *exchange.Exchange)
	tests := []struct {
		name     string
		then     []deed
		at, soon int32 // requests in the books of the other at once, and after the pause
	}{
		{"a booking", []deed{book}, 2, 2},
		{"an end", []deed{end}, 1, 0},
		{"an end, and a booking after it", []deed{end, book}, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{hosts: map[netip.Addr]chan net.Conn{}}
				a, b := n.start(t, 1), n.start(t, 2)
				defer b.stop()
				defer a.stop()
				<-time.After(2 * lookup)
				settle()
				open, _ := a.ask(t, 1, 20)
				synctest.Wait()
				expect(t, "after a rest", b, 1, 1)
				for _, what := range tt.then {
					what(t, a, open)
				}
				synctest.Wait()
				expect(t, "at once", b, tt.at, tt.at)
				<-time.After(pause)
				synctest.Wait()
				expect(t, "after the pause", b, tt.soon, tt.soon)
			})
		})
	}
}

// Two that decide in one instant do not take the same endpoint, whatever chance says, and are held for no longer than it takes.
func TestTwoThatDecideAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a, b := n.start(t, 1), n.start(t, 2)
		defer b.stop()
		defer a.stop()
		<-time.After(2 * lookup)
		settle()
		const rounds = 40
		anew := 0
		for round := range uint64(rounds) {
			began := time.Now()
			x, y := a.begin(2*round, 100), b.begin(2*round+1, 100)
			to, other := x.goes(t), y.goes(t)
			if took := time.Since(began); took > 3*time.Millisecond {
				t.Errorf("round %d: held for %v", round, took)
			}
			if to == other && round > 0 { // in the first, nobody has heard that another books
				t.Errorf("round %d: both go to %v", round, to)
			}
			anew = a.times(reason.DecidedAnew) + b.times(reason.DecidedAnew)
			for _, h := range []*held{x, y} {
				h.Response(h.r.clock.Now(), openai.Headers{{Name: ":status", Value: "200"}}, netip.AddrPort{}, false)
				h.End(h.r.clock.Now(), exchange.Ending{Clean: true})
			}
			settle()
			expect(t, "after a round", a, 0, 0)
			expect(t, "after a round", b, 0, 0)
		}
		if anew == 0 || a.times(reason.DecidedAnew) > 0 {
			t.Errorf("of %d rounds %d were decided anew, %d of them by the one whose name is first", rounds, anew, a.times(reason.DecidedAnew))
		}
	})
}

// A replica that hangs, its connections open, is no longer counted on.
func TestSilenceIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{hosts: map[netip.Addr]chan net.Conn{}}
		a := n.start(t, 1)
		defer a.stop()
		h := n.listen(netip.AddrFrom4([4]byte{10, 0, 0, 9}))
		defer h.Close()
		go func() {
			for {
				c, err := h.Accept()
				if err != nil {
					return
				}
				go func() {
					buffer := make([]byte, 4096)
					_, _ = c.Read(buffer)
					e := pool.Event{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 1}, To: netip.MustParseAddrPort("192.0.2.1:8000"), Left: time.Hour}
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: other\r\n\r\n%s", Header, appendEvent(nil, &e))
				}()
			}
		}()
		<-time.After(lookup + time.Second)
		synctest.Wait()
		expect(t, "while it is heard", a, 1, 1)
		<-time.After(patience)
		synctest.Wait()
		if a.times(reason.ReplicaLost) == 0 {
			t.Error("its silence was not noted")
		}
	})
}

func TestWhoIsNotHeard(t *testing.T) {
	refuse := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = fmt.Fprint(c, text)
			c.Close()
		}
	}
	for _, row := range []struct {
		name  string
		serve func(net.Conn)
		want  reason.ID
	}{
		{"somebody else's server", refuse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), reason.ReplicaRefused},
		{"a replica without the pool", refuse("HTTP/1.1 404 Not Found\r\n" + Header + ": other\r\nContent-Length: 0\r\n\r\n"), reason.ReplicaRefused},
		{"no HTTP", refuse("hello\r\n"), reason.ReplicaRefused},
		{"a stream that is none", refuse("HTTP/1.1 200 OK\r\n" + Header + ": other\r\n\r\n\xffhello"), reason.ReplicaLost},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{hosts: map[netip.Addr]chan net.Conn{}}
				h := n.listen(netip.AddrFrom4([4]byte{10, 0, 0, 9}))
				defer h.Close()
				go func() {
					for {
						c, err := h.Accept()
						if err != nil {
							return
						}
						row.serve(c)
					}
				}()
				a := n.start(t, 1)
				defer a.stop()
				<-time.After(time.Second)
				synctest.Wait()
				if a.times(row.want) == 0 || a.listener.Heard() != 0 {
					t.Errorf("%v noted %d times, %d heard", row.want, a.times(row.want), a.listener.Heard())
				}
				expect(t, "after it", a, 0, 0)
			})
		})
	}
}

func TestTheJournalKeepsItsEnd(t *testing.T) {
	j := newJournal(64)
	e := pool.Event{Kind: pool.Ended, Booking: pool.Booking{Slot: 7, Generation: 9}} // three bytes
	hears := newEar()
	if !j.read(hears) {
		t.Error("the first reader is not the first")
	}
	at := j.position()
	for range 21 {
		j.tell(e)
	}
	b, next, all := j.since(at, nil)
	if !all || len(b) != 63 || next != 63 || len(hears.woken) != 1 || len(hears.booked) != 0 {
		t.Fatalf("%d bytes to %d, all %v, woken %d, booked %d", len(b), next, all, len(hears.woken), len(hears.booked))
	}
	j.tell(e)
	if b, _, all = j.since(next, nil); !all || string(b) != string(appendEvent(nil, &e)) {
		t.Errorf("over the ring's end: % x, all %v", b, all)
	}
	if _, next, all = j.since(at, nil); all || next != 66 {
		t.Errorf("what is not kept was given; next %d", next)
	}
	if !j.left(hears) {
		t.Error("the last reader is not the last")
	}
}

func TestTellingAllocatesNothing(t *testing.T) {
	j := newJournal(1 << 16)
	booked := every()[1]
	brought := pool.Event{Kind: pool.Brought, To: v4, Tokens: 64, Chain: make([]uint64, 100)}
	j.tell(brought)
	if n := testing.AllocsPerRun(100, func() { j.tell(booked); j.tell(brought) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
