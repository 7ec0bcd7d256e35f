package flow_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// house is a scheduler with a queue, over endpoints that take one request each.
type house struct {
	t     *testing.T
	s     *exchange.Scheduler
	built *plugins.Built
	p     *pool.Pool
	now   pool.Instant
	woken []*exchange.Exchange
	model string // that requests ask for
}

type wake struct {
	h *house
	x *exchange.Exchange
}

func (w *wake) Wake() { w.h.woken = append(w.h.woken, w.x) }

const houseText = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: prefix-cache-scorer
- type: max-score-picker
- {type: load-detector, parameters: {maxRequests: 1, maxPending: 100}}
- {type: flow-control, parameters: {saturationDetectorRef: load-detector, defaultRequestTTL: 10s}}
`

func newHouse(t *testing.T, endpoints int) *house {
	built := builtFrom(t, houseText)
	h := &house{t: t, built: built, p: pool.New("default", nil), now: pool.Instant(time.Second)}
	h.members(endpoints)
	o := exchange.Defaults()
	o.Built, o.Pools, o.Seed = built, []*pool.Pool{h.p}, 3
	var err error
	if h.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) members(n int) {
	var m []pool.Endpoint
	for i := range n {
		m = append(m, pool.Endpoint{Namespace: "ns", Name: string(rune('a' + i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
	}
	h.p.Update(h.now, m)
}

func (h *house) come(by exchange.Said) (*exchange.Exchange, exchange.Action) {
	w := &wake{h: h}
	w.x = h.s.Begin(h.now, w)
	s := openai.NewSummary()
	s.Complete, s.PromptTokens, s.Model = true, 300, h.model
	return w.x, w.x.Described(h.now, s, by)
}

func (h *house) wants(a exchange.Action, do exchange.Do, status int) {
	h.t.Helper()
	if a.Do != do || status != 0 && a.Reply.Status != status {
		h.t.Fatalf("got %v %+v, want %v %d", a.Do, a.Reply, do, status)
	}
}

func (h *house) record(x *exchange.Exchange) exchange.Record {
	h.t.Helper()
	doc, ok := h.s.Decision(x.ID)
	if !ok {
		h.t.Fatal("no record")
	}
	return doc.Record
}

// A request that waited is let go in the instant in which another ends, says in its record how it waited, and its decision comes
// out the same from the record alone.
func TestARequestThatWaitedCanBeExplained(t *testing.T) {
	h := newHouse(t, 3)
	var running []*exchange.Exchange
	for range 3 {
		x, a := h.come(exchange.Said{})
		h.wants(a, exchange.Forward, 0)
		running = append(running, x)
	}
	x, a := h.come(exchange.Said{FairnessID: "team", Priority: 4})
	h.wants(a, exchange.Hold, 0)
	h.now += pool.Instant(1500 * time.Millisecond)
	running[1].End(h.now, exchange.Ending{Clean: true})
	if !slices.Contains(h.woken, x) {
		t.Fatal("it was not woken in the instant of the end")
	}
	h.wants(x.Resume(h.now), exchange.Forward, 0)

	rec := h.record(x)
	if q := rec.Queue; q == nil || *q != (plugins.Stay{Waited: 1500 * time.Millisecond, Band: 4, Flow: "team", Why: "full"}) {
		t.Errorf("the record says %+v", rec.Queue)
	}
	if n := len(rec.Profiles[0].Candidates); n != 3 {
		t.Errorf("%d candidates, want all: it might have waited on for a full one", n)
	}
	var r plugins.Request
	r.Prepare(h.built, nil)
	r.ID, r.Number, r.Target, r.PoolIndex = rec.ID, rec.Number, rec.Target, 0
	runs, err := h.built.Plans[0].Replay(rec.Profiles, &r, rec.Seed, rec.Want)
	if err != nil {
		t.Fatal(err)
	}
	was, _ := json.Marshal(rec.Profiles[0].Totals)
	is, _ := json.Marshal(runs[0].Totals)
	if string(was) != string(is) || !slices.Equal(rec.Profiles[0].Picked, runs[0].Picked) {
		t.Errorf("recorded %s %v, replayed %s %v", was, rec.Profiles[0].Picked, is, runs[0].Picked)
	}
	if h.record(running[0]).Queue != nil {
		t.Error("one that did not wait says that it did")
	}
}

func TestF01ShutdownAndTimesThroughTheExchange(t *testing.T) {
	t.Run("shutdown", func(t *testing.T) {
		for _, endpoints := range []int{0, 1} {
			h := newHouse(t, endpoints)
			if endpoints > 0 {
				h.come(exchange.Said{})
			}
			x, a := h.come(exchange.Said{})
			h.wants(a, exchange.Hold, 0)
			h.s.Drain()
			h.s.Tick(h.now)
			a = x.Resume(h.now)
			h.wants(a, exchange.Reply, 503)
			if got := a.Reply.Headers.Get("x-llm-d-request-dropped-reason"); got != "rejected-shutting-down" {
				t.Errorf("dropped for %q", got)
			}
		}
	})
	t.Run("time over", func(t *testing.T) {
		for endpoints, status := range map[int]int{0: 503, 1: 429} {
			h := newHouse(t, endpoints)
			if endpoints > 0 {
				h.come(exchange.Said{})
			}
			x, _ := h.come(exchange.Said{})
			due := h.s.Tick(h.now)
			if want := h.now + pool.Instant(10*time.Second); due != want {
				t.Errorf("the next deadline is %v, want %v", due, want)
			}
			h.now = due
			h.s.Tick(h.now)
			h.wants(x.Resume(h.now), exchange.Reply, status)
			if q := h.record(x).Queue; q == nil || q.Waited != 10*time.Second {
				t.Errorf("the record says %+v", q)
			}
		}
	})
	t.Run("the client goes", func(t *testing.T) {
		h := newHouse(t, 1)
		first, _ := h.come(exchange.Said{})
		x, _ := h.come(exchange.Said{})
		x.End(h.now, exchange.Ending{ByClient: true})
		if due := h.s.Tick(h.now); due != h.now+pool.Instant(10*time.Minute) {
			t.Errorf("the next deadline is %v, want that of the booking alone", due)
		}
		first.End(h.now, exchange.Ending{Clean: true})
		if n := h.p.Open(); n != 0 {
			t.Errorf("%d bookings are left", n)
		}
	})
	t.Run("the client goes when its turn has come", func(t *testing.T) {
		h := newHouse(t, 1)
		h.come(exchange.Said{})
		x, _ := h.come(exchange.Said{})
		ended := stays{}
		h.built.Queue().(*flow.Queue).Watch(ended)
		h.p.Watch(nil)
		h.members(2) // there is room, and nobody has asked the queue yet
		if _, _, ok := h.built.Next(heard{}, h.now); !ok {
			t.Fatal("nobody is let go")
		}
		x.End(h.now, exchange.Ending{ByClient: true})
		h.s.Tick(h.now)
		if len(ended) != 1 || ended[flow.Cancelled] != 1 {
			t.Errorf("it is counted as %v", ended)
		}
	})
}

// stays counts how stays ended.
type stays map[flow.Outcome]int

func (s stays) Left(_ *plugins.Request, stay flow.Stay) { s[stay.Outcome]++ }

// builtFrom builds what a configuration says.
func builtFrom(t *testing.T, text string) *plugins.Built {
	t.Helper()
	file, problems := config.Load([]byte(text), "house", catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	return built
}

// heard counts reasons.
type heard map[reason.ID]int

func (h heard) Note(id reason.ID, _ string) { h[id]++ }

// Where nobody tells how full endpoints are, who is refused for that is told so.
func TestSheddingWhereNobodyTells(t *testing.T) {
	const text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\nflowControl: {maxRequests: 3}\n"
	built := builtFrom(t, text)
	h := &house{t: t, built: built, p: pool.New("default", nil), now: pool.Instant(time.Second)}
	h.members(2)
	o, noted := exchange.Defaults(), heard{}
	o.Built, o.Pools, o.Sink = built, []*pool.Pool{h.p}, noted
	h.s, _ = exchange.New(o)
	_, a := h.come(exchange.Said{Priority: -1})
	h.wants(a, exchange.Reply, reason.Shed.Row().Status)
	if !strings.Contains(string(a.Reply.Body), "2 of its pool's 2 endpoints count as full, since their metrics are missing or stale") || noted[reason.FullUnread] != 1 {
		t.Errorf("it is told %s; full_unread is noted %d times", a.Reply.Body, noted[reason.FullUnread])
	}
	_, a = h.come(exchange.Said{})
	h.wants(a, exchange.Forward, 0)
}

// Who waits for an endpoint goes when there is one, at once.
func TestF13ThroughTheExchange(t *testing.T) {
	h := newHouse(t, 0)
	var all []*exchange.Exchange
	for range 3 {
		x, a := h.come(exchange.Said{})
		h.wants(a, exchange.Hold, 0)
		all = append(all, x)
	}
	h.now += pool.Instant(5 * time.Second)
	h.members(3)
	for _, x := range all {
		h.wants(x.Resume(h.now), exchange.Forward, 0)
	}
	if q := h.record(all[0]).Queue; q.Why != "empty" {
		t.Errorf("the record says %+v", q)
	}
}

// What the gate leaves behind while it is off: low priorities are refused while the pool is full, all others pass.
func TestSheddingWithoutAQueue(t *testing.T) {
	const text = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- {type: concurrency-detector, parameters: {maxConcurrency: 1}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}] # else the detector would filter, as it does in llm-d's
flowControl: {saturationDetector: {pluginRef: concurrency-detector}}
`
	built := builtFrom(t, text)
	h := &house{t: t, built: built, p: pool.New("default", nil), now: pool.Instant(time.Second)}
	h.members(1)
	o := exchange.Defaults()
	o.Built, o.Pools = built, []*pool.Pool{h.p}
	h.s, _ = exchange.New(o)
	_, a := h.come(exchange.Said{Priority: -1})
	h.wants(a, exchange.Forward, 0)
	_, a = h.come(exchange.Said{Priority: -1})
	h.wants(a, exchange.Reply, reason.Shed.Row().Status)
	_, a = h.come(exchange.Said{})
	h.wants(a, exchange.Forward, 0)
}
