package reasons

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// heard is a sink that keeps what it hears, and says so.
type heard struct {
	mu   sync.Mutex
	n    map[reason.ID]int
	more chan struct{}
}

func newHeard() *heard { return &heard{n: map[reason.ID]int{}, more: make(chan struct{}, 1)} }

// Note implements reason.Sink.
func (h *heard) Note(id reason.ID, _ string) {
	h.mu.Lock()
	h.n[id]++
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *heard) times(id reason.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n[id]
}

// wait waits until id was heard.
func (h *heard) wait(t *testing.T, id reason.ID) {
	t.Helper()
	late := time.After(10 * time.Second)
	for h.times(id) == 0 {
		select {
		case <-h.more:
		case <-late:
			t.Fatalf("%v was not heard within 10 s", id)
		}
	}
}

// world is a scheduler under a configuration, and its pools.
type world struct {
	*heard
	t     *testing.T
	s     *exchange.Scheduler
	pools []*pool.Pool
	now   pool.Instant
}

// start is the time at which a world begins.
const start = pool.Instant(time.Hour)

// head begins every configuration.
const head = "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"

// The configurations of rows. Without schedulingProfiles the plugins that are listed make one.
const (
	byChance  = head + "- type: random-picker\n- type: test-stage\n"
	byQueue   = head + "- type: queue-scorer\n- type: max-score-picker\n"
	byLatency = head + "- type: latency-scorer\n- type: max-score-picker\n"
	twoPools  = head + `- type: random-picker
pools:
- {name: one, models: [{name: m, aliases: [alias]}]}
- {name: two, models: [{name: n}]}
`
)

// with is byChance with one more plugin.
func with(typ string) string { return byChance + "- type: " + typ + "\n" }

// newWorld builds a world whose pools have the endpoints 192.0.2.1:8000 and 192.0.2.2:8000, or those at the addresses given.
func newWorld(t *testing.T, text string, set func(*exchange.Options), addresses ...string) *world {
	t.Helper()
	w := &world{heard: newHeard(), t: t, now: start}
	file, problems := config.Load([]byte(text), t.Name(), append(catalog.Builtin(), testPlugins()...))
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	if addresses == nil {
		addresses = []string{"192.0.2.1:8000", "192.0.2.2:8000"}
	}
	var members []pool.Endpoint
	for i, at := range addresses {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Addr: netip.MustParseAddrPort(at)})
	}
	for _, plan := range built.Plans {
		p := pool.New(plan.Pool.Name, w)
		p.Update(w.now, members)
		w.pools = append(w.pools, p)
	}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Seed = built, w.pools, w, 7
	if set != nil {
		set(&o)
	}
	var err error
	if w.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// seesHeaders is a gateway that shows the headers of answers, seesAll one that shows all of them.
var (
	seesHeaders = exchange.Via{Adapter: "test", Fallbacks: true, Walks: true, Sees: plugins.FirstByte, StreamLasts: true}
	seesAll     = exchange.Via{Adapter: "test", Fallbacks: true, Walks: true, Sees: plugins.FirstByte | plugins.Usage | plugins.Chunks, StreamLasts: true}
)

// plainProxy is the embedded proxy.
var plainProxy = exchange.Via{Adapter: "test", Fallbacks: true, Sees: plugins.FirstByte, StreamLasts: true, TellsEnd: true}

// ask brings a chat completion, in one piece, and returns what is to be done with it.
func (w *world) ask(via exchange.Via, body string, fields ...string) (*exchange.Exchange, exchange.Action) {
	w.t.Helper()
	return w.send(via, "POST", "/v1/chat/completions", body, fields...)
}

func (w *world) send(via exchange.Via, method, path, body string, fields ...string) (*exchange.Exchange, exchange.Action) {
	x := w.s.Begin(w.now, nil)
	h := openai.Headers{{Name: ":method", Value: method}, {Name: ":path", Value: path}}
	for i := 0; i < len(fields); i += 2 {
		h = append(h, openai.Header{Name: fields[i], Value: fields[i+1]})
	}
	a := x.Headers(w.now, h, via, body == "")
	if a.Do == exchange.Continue {
		a = x.Body(w.now, []byte(body), true)
	}
	return x, a
}

// refuses checks that the request is answered with what the table says of id.
func (w *world) refuses(id reason.ID, a exchange.Action) {
	w.t.Helper()
	row := id.Row()
	if a.Do != exchange.Reply {
		w.t.Fatalf("the request is not refused: %v", a.Do)
	}
	w.answers(id, a.Reply.Status, a.Reply.Body)
	if got := a.Reply.Headers.Get("x-llm-d-request-dropped-reason"); got != row.Dropped {
		w.t.Errorf("the dropped reason is %q, want %q", got, row.Dropped)
	}
}

// answers checks an answer against the table.
func (w *world) answers(id reason.ID, status int, body []byte) {
	w.t.Helper()
	var shaped struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(body, &shaped); err != nil {
		w.t.Fatalf("%v in %s", err, body)
	}
	row := id.Row()
	if status != row.Status || shaped.Error.Code != row.Code || !strings.HasPrefix(shaped.Error.Message, row.Means) {
		w.t.Errorf("answered with %d and %+v; want %d and %s", status, shaped.Error, row.Status, row.Code)
	}
}

// forwarded checks that the request goes on.
func (w *world) forwarded(x *exchange.Exchange, a exchange.Action) (*exchange.Exchange, exchange.Action) {
	w.t.Helper()
	if a.Do != exchange.Forward {
		w.t.Fatalf("the request is not forwarded: %v %+v", a.Do, a.Reply)
	}
	return x, a
}

// proxied sends a chat completion through the embedded proxy.
func (w *world) proxied() (status int, body []byte) {
	w.t.Helper()
	p := proxy.New(proxy.Options{Scheduler: func() *exchange.Scheduler { return w.s }, Clock: clock.Start(time.Now()), Sink: w})
	w.t.Cleanup(p.Close)
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
	got := httptest.NewRecorder()
	p.ServeHTTP(got, r)
	return got.Code, got.Body.Bytes()
}

// engine is a model server; its address is taken from it.
func engine(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	e := httptest.NewServer(h)
	t.Cleanup(e.Close)
	return e.Listener.Addr().String()
}

// dead is an address on which nobody listens any more.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// testPlugins are plugins that do what no built-in one does.
func testPlugins() []plugins.Entry {
	return []plugins.Entry{
		plugins.Plugin("test-stage", func() *stage { return &stage{} }),
		plugins.Plugin("test-lost-stage", func() *lostStage { return &lostStage{} }),
		plugins.Plugin("test-bad-scorer", func() *badScorer { return &badScorer{} }),
		plugins.Plugin("test-bad-hook", func() *badHook { return &badHook{} }),
		plugins.Plugin("test-usage-hook", func() *usageHook { return &usageHook{} }),
		plugins.Plugin("test-in-order", func() *inOrder { return &inOrder{} }),
		plugins.Plugin("test-silent-prophet", func() *silentProphet { return &silentProphet{} }),
		plugins.Plugin("test-classes", func() *readsClasses { return &readsClasses{} }),
	}
}

// stage does what the header "do" of a request says. Queues, look-ups and policies will be such stages.
type stage struct{}

func (*stage) Phase() plugins.Phase { return plugins.AtAdmit }

func (*stage) Enter(r *plugins.Request) plugins.Verdict {
	switch r.Headers.Get("do") {
	case "forbid":
		return plugins.Verdict{Refusal: reason.Refuse(reason.ForbiddenHeader, "x-role")}
	case "fill":
		return plugins.Verdict{Refusal: &reason.Refusal{ID: reason.QueueFull, RetryAfter: time.Second}}
	case "queue":
		return plugins.Verdict{Until: start + pool.Instant(time.Second), Late: reason.QueueTimeout}
	case "look up":
		return plugins.Verdict{Until: start + pool.Instant(time.Second), Late: reason.LookupTimeout}
	case "panic":
		panic("stage")
	}
	return plugins.Verdict{}
}

// silentProphet is there to foretell the length of answers, and does not.
type silentProphet struct{}

func (*silentProphet) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.ExpectedOutput)
	return nil
}

func (*silentProphet) Describe(*plugins.Request) {}

// lostStage resolves a request that wants it to a pool that is not there, which no stage may.
type lostStage struct{}

func (*lostStage) Phase() plugins.Phase { return plugins.AtResolve }

func (*lostStage) Enter(r *plugins.Request) plugins.Verdict {
	if r.Headers.Get("do") == "get lost" {
		r.Target.Pool = "nowhere"
	}
	return plugins.Verdict{}
}

type badScorer struct{}

func (*badScorer) Score(_ *plugins.Cycle, out []float64) { out[0] = math.Inf(1) }

type badHook struct{}

func (*badHook) Commit(*plugins.Request, []plugins.Leg, *plugins.Outgoing) { panic("hook") }

type usageHook struct{}

func (*usageHook) Wants() plugins.Parts                            { return plugins.Usage }
func (*usageHook) Respond(*plugins.Request, plugins.Parts, []byte) {}

// inOrder picks the first endpoint, with the others as its fallbacks.
type inOrder struct{}

func (*inOrder) Pick(_ *plugins.Cycle, totals []float64, want int, best []int) []int {
	for i := range min(want, len(totals)) {
		best = append(best, i)
	}
	return best
}

// readsClasses needs to know on what endpoints run.
type readsClasses struct{}

func (*readsClasses) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.CapacityClasses)
	return nil
}

func (*readsClasses) Score(*plugins.Cycle, []float64) {}
