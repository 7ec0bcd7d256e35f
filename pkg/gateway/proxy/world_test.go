package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

// notes counts reasons.
type notes struct {
	mu    sync.Mutex
	n     map[reason.ID]int
	heard chan reason.ID
}

func (n *notes) Note(id reason.ID, _ string) {
	n.mu.Lock()
	n.n[id]++
	n.mu.Unlock()
	select {
	case n.heard <- id:
	default: // nobody waits
	}
}

// wait returns when id was noted.
func (n *notes) wait(t testing.TB, id reason.ID) {
	t.Helper()
	late := time.After(10 * time.Second)
	for n.count(id) == 0 {
		select {
		case <-n.heard:
		case <-late:
			t.Fatalf("%v was not noted", id)
		}
	}
}

func (n *notes) count(id reason.ID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.n[id]
}

// inOrder picks the candidates as they come, so that the first endpoint is the primary, and the others its fallbacks.
type inOrder struct{}

func (inOrder) Pick(_ *plugins.Cycle, totals []float64, want int, best []int) []int {
	for i := range min(want, len(totals)) {
		best = append(best, i)
	}
	return best
}

// stage passes, or does what enter says, and has so much of the request read.
type stage struct {
	phase plugins.Phase
	reads plugins.Reads
	enter func(*plugins.Request) plugins.Verdict
}

func (s *stage) Phase() plugins.Phase { return s.phase }
func (s *stage) Reads() plugins.Reads { return s.reads }
func (s *stage) Enter(r *plugins.Request) plugins.Verdict {
	if s.enter == nil {
		return plugins.Verdict{}
	}
	return s.enter(r)
}

// hook is a request hook.
type hook func(r *plugins.Request, out *plugins.Outgoing)

func (h hook) Commit(r *plugins.Request, _ []plugins.Leg, out *plugins.Outgoing) { h(r, out) }

// watch is a response hook and a settler.
type watch struct {
	wants   plugins.Parts
	mu      sync.Mutex
	seen    bytes.Buffer
	outcome chan plugins.Outcome
}

func (w *watch) Wants() plugins.Parts { return w.wants }
func (w *watch) Respond(_ *plugins.Request, _ plugins.Parts, chunk []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Write(chunk)
}
func (w *watch) Settle(_ *plugins.Request, o plugins.Outcome) { w.outcome <- o }

// world is a proxy before some endpoints.
type world struct {
	t     testing.TB
	s     *exchange.Scheduler
	pool  *pool.Pool
	noted *notes
	watch *watch
	proxy *Proxy
	front *httptest.Server
	addr  string
}

// setup is what a test may change of a world.
type setup struct {
	reads      plugins.Reads
	wants      plugins.Parts
	picker     plugins.Picker // nil: inOrder
	filters    []any          // of the profile
	extra      []any
	options    func(*exchange.Options)
	headerTime time.Duration
	proxy      func(*Options)
}

func newWorld(t testing.TB, set setup, endpoints ...string) *world {
	t.Helper()
	w := &world{t: t, noted: &notes{n: map[reason.ID]int{}, heard: make(chan reason.ID, 64)}, watch: &watch{wants: set.wants, outcome: make(chan plugins.Outcome, 1<<16)}}
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Handler: "handler", Profiles: []string{"p"}}},
	}
	if set.picker == nil {
		set.picker = inOrder{}
	}
	spec.Plugins = append(spec.Plugins, instance("handler", profiles.NewSingle()), instance("picker", set.picker), instance("watch", w.watch))
	for i, v := range set.filters {
		name := fmt.Sprint("filter-", i)
		spec.Plugins = append(spec.Plugins, instance(name, v))
		spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: name})
	}
	for i, v := range append(set.extra, &stage{phase: plugins.AtDescribe, reads: set.reads}) {
		spec.Plugins = append(spec.Plugins, instance(fmt.Sprint("extra-", i), v))
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := clock.Start(time.Now())
	w.pool = pool.New("default", w.noted)
	var members []pool.Endpoint
	for i, e := range endpoints {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprintf("e%03d", i), Addr: netip.MustParseAddrPort(e)})
	}
	w.pool.Update(at.Now(), members)
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Alarm, o.Seed = built, []*pool.Pool{w.pool}, w.noted, at, 42
	if set.options != nil {
		set.options(&o)
	}
	if w.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	po := Options{Scheduler: func() *exchange.Scheduler { return w.s }, Clock: at, Sink: w.noted}
	if set.proxy != nil {
		set.proxy(&po)
	}
	w.proxy = New(po)
	w.front = &httptest.Server{Config: Server(w.proxy, Bounds{HeaderTime: set.headerTime}), Listener: listen(t)}
	w.front.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.front.Start()
	w.addr = w.front.Listener.Addr().String()
	t.Cleanup(func() {
		w.front.Close()
		w.proxy.Close()
	})
	return w
}

func instance(name string, v any) plugins.PluginSpec {
	return plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// settled waits until an exchange is settled, and checks that nothing is left in the books.
func (w *world) settled() plugins.Outcome {
	w.t.Helper()
	select {
	case o := <-w.watch.outcome:
		if n := w.pool.Open(); n != 0 {
			w.t.Errorf("%d bookings are open after the only exchange was settled", n)
		}
		return o
	case <-time.After(10 * time.Second):
		w.t.Fatal("no exchange was settled")
		return plugins.Outcome{}
	}
}

// seen is a request as an engine got it.
type seen struct {
	Method, Target, Host string
	Header, Trailer      http.Header
	Length               int64
	Encoding             []string
	Hash                 string
	Bytes                int
}

// engine is a server that notes requests and answers with what answer does, or with their body's hash.
type engine struct {
	*httptest.Server
	addr     string
	requests chan seen
	count    atomic.Int64
}

func newEngine(t testing.TB, answer http.HandlerFunc) *engine {
	t.Helper()
	e := &engine{requests: make(chan seen, 1<<16)}
	e.Server = &httptest.Server{Listener: listen(t), Config: &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.count.Add(1)
		if answer != nil {
			answer(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("engine: reading the body: %v", err)
		}
		e.requests <- seen{r.Method, r.RequestURI, r.Host, r.Header, r.Trailer, r.ContentLength, r.TransferEncoding, hash(body), len(body)}
		w.Header().Set("X-Body", hash(body))
		_, _ = io.WriteString(w, "ok")
	})}}
	e.Start()
	e.addr = e.Listener.Addr().String()
	t.Cleanup(e.Close)
	return e
}

// dead returns an address on which nobody listens.
func dead(t testing.TB) string {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// prompt is a chat completion of about n bytes.
func prompt(n int) string {
	return `{"model":"m-base","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", n/12+1)[:n] + `"}]}`
}

const chatPath = "/v1/chat/completions"

// post sends a chat completion with a content-length and returns the answer with its body read.
func (w *world) post(body string) (*http.Response, string) {
	w.t.Helper()
	resp, err := http.Post(w.front.URL+chatPath, "application/json", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(got)
}

// raw opens a connection to the proxy, writes request to it and returns it.
func (w *world) raw(request string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		w.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}
