package adapters

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// clock stands still until somebody steps it, so that both sides see the same instants.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() pool.Instant    { return pool.Instant(c.now.Load()) }
func (c *clock) step(d time.Duration) { c.now.Add(int64(d)) }

// side is one scheduler behind one adapter, and everything that is known of what happened there.
type side struct {
	t         *testing.T
	clock     *clock
	scheduler *exchange.Scheduler
	pools     []*pool.Pool
	plugins   *testPlugins
	front     string // the address that clients connect to

	mu       sync.Mutex
	requests []string          // as engines got them
	answers  []string          // as clients got them
	metered  []string          // what the meter heard
	noted    map[reason.ID]int // what the sink heard
	decided  int

	began   int             // exchanges that clients began
	gotByte chan struct{}   // closed when the client has the first bytes of the current answer
	arrived chan string     // an engine's letter, when it has the headers of a request
	taken   chan string     // likewise, when it has the whole request
	visits  atomic.Int64    // requests that engines have not done with
	idle    func() bool     // the adapter has nothing open
	close   []func()        // in reverse order
	pieces  int             // bytes of a read of a client's bytes; 0: as they come
	engines map[byte]string // letter → address

	mirror pool.Mirror // of another replica, where a row has one
}

// Note implements reason.Sink.
func (s *side) Note(id reason.ID, detail string) {
	if strings.Contains(detail, "CANARY") || len(detail) > 1000 { // it is logged
		s.t.Errorf("%v: the detail is %.200s", id, detail)
	}
	s.mu.Lock()
	s.noted[id]++
	s.mu.Unlock()
}

// Decided and Settled implement exchange.Meter.
func (s *side) Decided(m exchange.Metered, refused reason.ID, wait pool.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided++
	code := ""
	if refused != 0 {
		code = refused.String()
	}
	s.metered = append(s.metered, fmt.Sprintf("decided: pool %q, %s, refused %q, after %v, model %q as %q, stream %v, to %s", m.Target.Pool, m.API, code, time.Duration(wait), m.Model, m.Target.Model, m.Stream, m.To))
}

func (s *side) Settled(m exchange.Metered, o plugins.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metered = append(s.metered, fmt.Sprintf("settled: pool %q, %s, model %q as %q, %+v", m.Target.Pool, m.API, m.Model, m.Target.Model, o))
}

// At implements exchange.Alarm: a deadline that has passed by the time it is told is acted on at once.
func (s *side) At(at pool.Instant) {
	if at <= s.clock.Now() {
		go s.scheduler.Tick(s.clock.Now())
	}
}

func (s *side) done() {
	for _, f := range slices.Backward(s.close) {
		f()
	}
}

// newSide builds a scheduler for a row: its configuration, with the members that the row names.
func newSide(t *testing.T, r *row, h *house, full bool) *side {
	s := &side{
		t: t, clock: &clock{}, noted: map[reason.ID]int{}, arrived: make(chan string, 64), taken: make(chan string, 64), plugins: newTestPlugins(),
		engines: h.addresses(), idle: func() bool { return true },
	}
	s.clock.step(time.Hour) // instants begin later than any age of a sample
	text := r.config
	if text == "" {
		text = defaultProfile
	}
	file, problems := config.Load([]byte(text), "row", append(catalog.Builtin(), s.plugins.entries()...))
	if file == nil {
		t.Fatalf("the row's configuration does not load: %v", problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatalf("the row's configuration does not build: %v", problems)
	}
	o := exchange.Defaults()
	for _, plan := range built.Plans {
		s.pools = append(s.pools, pool.New(plan.Pool.Name, s))
	}
	for i, letters := range strings.Split(r.members(), "|") {
		s.pools[i].Update(s.clock.Now(), h.members(letters))
	}
	o.Built, o.Pools, o.Sink, o.Meter, o.Alarm, o.Seed = built, s.pools, s, s, s, 20260101
	o.Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o.ConfigText, o.ConfigDigest = string(file.Effective()), file.Digest()
	o.Full = full
	if r.options != nil {
		r.options(&o)
	}
	var err error
	if s.scheduler, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	if r.world != nil {
		r.world(s)
	}
	return s
}

// behindProxy serves the side by the embedded proxy.
func behindProxy(s *side) {
	p := proxy.New(proxy.Options{Scheduler: func() *exchange.Scheduler { return s.scheduler }, Clock: s.clock, Sink: s})
	var open atomic.Int64
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		p.ServeHTTP(w, r)
	}), func(h http.Handler) *http.Server { return proxy.Server(h, proxy.Bounds{}) })
	s.idle = func() bool { return open.Load() == 0 }
	s.close = append(s.close, p.Close)
}

// serve opens the side's port for clients.
func (s *side) serve(h http.Handler, with func(http.Handler) *http.Server) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	front := &httptest.Server{Config: with(h), Listener: &slowListener{l, s}}
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	s.front = l.Addr().String()
	s.close = append(s.close, front.Close)
}

// slowListener gives connections of which a read returns at most so many bytes as the side says.
type slowListener struct {
	net.Listener
	s *side
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.s.pieces == 0 {
		return c, err
	}
	return &slowConn{c, l.s.pieces}, nil
}

type slowConn struct {
	net.Conn
	pieces int
}

func (c *slowConn) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), c.pieces)]) }

// pass lets time pass, and has the scheduler act on what is due by then.
func (s *side) pass(d time.Duration) {
	s.clock.step(d)
	s.scheduler.Tick(s.clock.Now())
}

// settle waits until everything that began here is over.
func (s *side) settle() {
	s.t.Helper()
	s.until("the exchanges are not over", func() bool {
		s.mu.Lock()
		decided := s.decided
		s.mu.Unlock()
		return decided == s.began && s.scheduler.Quiet() && s.idle() && s.visits.Load() == 0
	})
}

// until waits for what only other goroutines' sockets can bring about, and give no sign of.
func (s *side) until(not string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s within 20 s", not)
		}
	}
}

// observe gives the endpoint behind a letter a sample.
func (s *side) observe(letter byte, sample pool.Sample) {
	at := netip.MustParseAddrPort(s.engines[letter])
	for _, p := range s.pools {
		if id, ok := p.Snapshot().Lookup(at); ok {
			sample.At = s.clock.Now()
			p.Observe(s.clock.Now(), p.Snapshot().Slots[id].Ref, sample)
		}
	}
}
