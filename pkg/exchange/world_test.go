package exchange_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

// world is one pool of three endpoints under a small configuration.
type world struct {
	t     *testing.T
	s     *exchange.Scheduler
	pools []*pool.Pool
	now   pool.Instant
	noted *notes
	alarm *alarm
	woken chan struct{}
}

// notes counts reasons.
type notes struct {
	mu sync.Mutex
	n  map[reason.ID]int
}

func (n *notes) Note(id reason.ID, _ string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.n[id]++
}

func (n *notes) count(id reason.ID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.n[id]
}

type alarm struct {
	mu sync.Mutex
	at []pool.Instant
}

func (a *alarm) At(at pool.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, at)
}

type waker chan struct{}

func (w waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// instance makes a PluginSpec of a value.
func instance(name string, v any) plugins.PluginSpec {
	return plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }}
}

// newWorld builds a scheduler over extra plugins and pools (one, named default, if none is given), each with endpoints
// a, b, c at 192.0.2.(pool*10+1…3):8000. set may change the options.
func newWorld(t *testing.T, set func(*exchange.Options), pools []plugins.PoolSpec, extra ...plugins.PluginSpec) *world {
	t.Helper()
	if pools == nil {
		pools = []plugins.PoolSpec{{Name: "default"}}
	}
	// Unless a table of models has it read no further than the model, somebody reads the whole body.
	if len(pools) == 1 {
		extra = append(extra, instance("reads", wholeBody{}))
	}
	spec := plugins.Spec{
		Plugins:  append([]plugins.PluginSpec{instance("handler", profiles.NewSingle()), instance("picker", pickers.NewRandom())}, extra...),
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    pools,
	}
	for _, e := range extra {
		v, _ := e.Construct()
		switch v.(type) {
		case plugins.Filter, plugins.Scorer:
			spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: e.Name, Weight: 1})
		}
	}
	w := &world{t: t, now: pool.Instant(time.Second), noted: &notes{n: map[reason.ID]int{}}, alarm: &alarm{}, woken: make(chan struct{}, 8)}
	for i := range spec.Pools {
		spec.Pools[i].Handler, spec.Pools[i].Profiles = "handler", []string{"p"}
		p := pool.New(spec.Pools[i].Name, w.noted)
		var members []pool.Endpoint
		for j, name := range []string{"a", "b", "c"} {
			members = append(members, pool.Endpoint{Namespace: "ns", Name: name, Addr: address(i, j)})
		}
		p.Update(w.now, members)
		w.pools = append(w.pools, p)
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Alarm, o.Seed = built, w.pools, w.noted, w.alarm, 42
	if set != nil {
		set(&o)
	}
	w.s, err = exchange.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func address(poolIndex, endpoint int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:8000", poolIndex*10+endpoint+1))
}

func (w *world) begin() *exchange.Exchange { return w.s.Begin(w.now, waker(w.woken)) }

func (w *world) pass(d time.Duration) { w.now += pool.Instant(d) }

// proxied is what the embedded proxy says of itself; static is an Envoy that shows response headers alone.
var (
	proxied = exchange.Via{Adapter: "proxy", Fallbacks: true, Sees: plugins.FirstByte | plugins.Usage | plugins.Chunks, Chooses: true, StreamLasts: true, TellsEnd: true}
	static  = exchange.Via{Adapter: "ext_proc", Sees: plugins.FirstByte}
)

func post(path string, more ...openai.Header) openai.Headers {
	return append(openai.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: path},
		{Name: "content-type", Value: "application/json"}}, more...)
}

const chat = `{"model":"m-base","messages":[{"role":"user","content":"hello there"}]}`

// forwarded sends a chat completion and expects it to be forwarded.
func (w *world) forwarded(via exchange.Via) (*exchange.Exchange, exchange.Action) {
	w.t.Helper()
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), via, false)
	a := x.Body(w.now, []byte(chat), true)
	if a.Do != exchange.Forward {
		w.t.Fatalf("got %v (%v), want forward", a.Do, a.Reply)
	}
	return x, a
}

// open is the number of bookings of all pools.
func (w *world) open() (n int) {
	for _, p := range w.pools {
		n += p.Open()
	}
	return n
}

func (w *world) wantOpen(n int) {
	w.t.Helper()
	if got := w.open(); got != n {
		w.t.Errorf("%d bookings are open, want %d", got, n)
	}
}

func (w *world) wantNoted(id reason.ID, n int) {
	w.t.Helper()
	if got := w.noted.count(id); got != n {
		w.t.Errorf("%v was noted %d times, want %d", id, got, n)
	}
}

// outcome returns the code of the record's ending, "" for clean; it fails if the exchange has not settled.
func (w *world) outcome(x *exchange.Exchange) string {
	w.t.Helper()
	doc, ok := w.s.Decision(x.ID)
	if !ok || doc.Record.Outcome == nil {
		w.t.Fatalf("exchange %s has no outcome", x.ID)
	}
	return doc.Record.Outcome.EndingCode
}
