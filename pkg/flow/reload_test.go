package flow_test

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// reload puts another configuration in force over pools, and returns the names of plugins whose state is kept.
func (h *house) reload(text string, pools ...*pool.Pool) (kept []string) {
	h.t.Helper()
	file, problems := config.Load([]byte(text), "house", catalog.Builtin())
	if file == nil {
		h.t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		h.t.Fatal(problems)
	}
	kept, _ = built.Inherit(h.built)
	next, err := h.s.Current().Replace(h.now, built, pools, text, "")
	if err != nil {
		h.t.Fatal(err)
	}
	h.s, h.built = next, built
	h.s.Tick(h.now) // as the edge does
	return kept
}

// went are the names of those that were let go, in that order.
func (h *house) went(names map[*exchange.Exchange]string) string {
	var out []string
	for _, x := range h.woken {
		if x.Resume(h.now).Do == exchange.Forward {
			out = append(out, names[x])
		}
	}
	h.woken = nil
	return strings.Join(out, " ")
}

// Who waits when the configuration is replaced waits on in the order of one queue with those that come under the new one, as long as
// the queue's parameters are what they were; else under the old one, whose queue is asked first.
func TestWhoWaitsIsTakenOverByTheNextConfiguration(t *testing.T) {
	for _, r := range []struct {
		name, from, to string
		kept           bool
		wants          string
	}{
		{"another scorer", "- type: queue-scorer", "- type: kv-cache-utilization-scorer", true, "urgent old late"},
		{"another detector", "maxPending: 100", "maxPending: 99", true, "urgent old late"},
		{"another time to wait", "defaultRequestTTL: 10s", "defaultRequestTTL: 9s", false, "old urgent late"},
	} {
		t.Run(r.name, func(t *testing.T) {
			h := newHouse(t, 1)
			names := map[*exchange.Exchange]string{}
			running, _ := h.come(exchange.Said{})
			old, a := h.come(exchange.Said{})
			h.wants(a, exchange.Hold, 0)
			names[old] = "old"
			kept := h.reload(strings.Replace(houseText, r.from, r.to, 1), h.p)
			if slices.Contains(kept, "flow-control") != r.kept {
				t.Errorf("kept %v", kept)
			}
			for _, of := range []struct {
				name     string
				priority int32
			}{{"late", 0}, {"urgent", 5}} {
				x, a := h.come(exchange.Said{Priority: of.priority})
				h.wants(a, exchange.Hold, 0)
				names[x] = of.name
			}
			var got []string
			for range 3 {
				h.now += pool.Instant(time.Second)
				running.End(h.now, exchange.Ending{Clean: true})
				if len(h.woken) != 1 {
					t.Fatalf("%d were let go in the instant of an end, want 1", len(h.woken))
				}
				running = h.woken[0]
				got = append(got, h.went(names))
			}
			if got := strings.Join(got, " "); got != r.wants {
				t.Errorf("went %s, want %s", got, r.wants)
			}
			running.End(h.now, exchange.Ending{Clean: true})
			for _, q := range h.s.Queues() {
				if s := q.(*flow.Queue).Stats(h.now); s.Requests != 0 || s.Places != 0 || q.Deadline() != 0 {
					t.Errorf("left are %d that wait, %d places, and the deadline %v", s.Requests, s.Places, q.Deadline())
				}
			}
			if n := h.p.Open(); n != 0 {
				t.Errorf("%d bookings are left", n)
			}
		})
	}
}

// A detector under which there is more room lets go at once who waits since before.
func TestWhoWaitsGoesByTheRulesInForce(t *testing.T) {
	h := newHouse(t, 1)
	h.come(exchange.Said{})
	x, a := h.come(exchange.Said{})
	h.wants(a, exchange.Hold, 0)
	h.reload(strings.Replace(houseText, "{maxRequests: 1,", "{maxRequests: 2,", 1), h.p)
	h.wants(x.Resume(h.now), exchange.Forward, 0)
	// Less room than runs: who comes waits until it is true again.
	h.reload(houseText, h.p)
	y, a := h.come(exchange.Said{})
	h.wants(a, exchange.Hold, 0)
	x.End(h.now, exchange.Ending{Clean: true})
	h.wants(y.Resume(h.now), exchange.Hold, 0)
}

// What tenants were served counts on: the one that was served before the change owes the other its share.
func TestAccountsSurviveAReload(t *testing.T) {
	for _, kept := range []bool{true, false} {
		h := newHouse(t, 1)
		names := map[*exchange.Exchange]string{}
		come := func(tenant string) {
			x, a := h.come(exchange.Said{FairnessID: tenant})
			h.wants(a, exchange.Hold, 0)
			names[x] = tenant
		}
		running, _ := h.come(exchange.Said{})
		step := func(tokens int64) string {
			h.now += pool.Instant(time.Millisecond)
			running.End(h.now, exchange.Ending{Clean: true, Usage: &openai.Usage{Prompt: 300, Out: tokens}})
			if len(h.woken) != 1 {
				t.Fatalf("%d were let go, want 1", len(h.woken))
			}
			running = h.woken[0]
			return h.went(names)
		}
		for range 4 {
			come("before")
		}
		step(10)
		to := strings.Replace(houseText, "- type: queue-scorer", "- type: kv-cache-utilization-scorer", 1)
		if !kept {
			to = strings.Replace(to, "defaultRequestTTL: 10s", "defaultRequestTTL: 9s", 1)
		}
		h.reload(to, h.p)
		for range 3 {
			come("after")
		}
		got := step(20_000) + " " // of one that went before the change: its tenant owes them
		for range 3 {
			got += step(10) + " "
		}
		want := "after after after before "
		if !kept {
			want = "before before before after "
		}
		if got != want {
			t.Errorf("kept %v: went %s, want %s", kept, got, want)
		}
	}
}

// Pools may come, go and change places; those who wait for one that is gone are not forgotten.
func TestPoolsChangePlacesInAReload(t *testing.T) {
	const text = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
- {type: load-detector, parameters: {maxRequests: 1, maxPending: 100}}
- {type: flow-control, parameters: {saturationDetectorRef: load-detector, defaultRequestTTL: 10s}}
pools:
`
	list := func(names ...string) string {
		out := text
		for _, n := range names {
			out += "- {name: " + n + ", models: [{name: m-" + n + "}]}\n"
		}
		return out
	}
	file, problems := config.Load([]byte(list("a", "b")), "house", catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	h := &house{t: t, built: built, now: pool.Instant(time.Second)}
	pools := map[string]*pool.Pool{}
	for i, name := range []string{"a", "b", "c"} {
		pools[name] = pool.New(name, nil)
		pools[name].Update(h.now, []pool.Endpoint{{Namespace: "ns", Name: "e", Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)}})
	}
	o := exchange.Defaults()
	o.Built, o.Pools = built, []*pool.Pool{pools["a"], pools["b"]}
	var err error
	if h.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	via := exchange.Via{Adapter: "virtual", Sees: plugins.FirstByte, StreamLasts: true, TellsEnd: true}
	come := func(to string) (*exchange.Exchange, exchange.Action) {
		w := &wake{h: h}
		w.x = h.s.Begin(h.now, w)
		x := w.x
		a := x.Headers(h.now, openai.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/completions"}}, via, false)
		h.wants(a, exchange.Continue, 0)
		return x, x.Body(h.now, []byte(`{"model":"m-`+to+`","prompt":"hello"}`), true)
	}
	run := func(to string) *exchange.Exchange {
		x, a := come(to)
		h.wants(a, exchange.Forward, 0)
		return x
	}
	wait := func(to string) *exchange.Exchange {
		x, a := come(to)
		h.wants(a, exchange.Hold, 0)
		return x
	}
	runsA, runsB := run("a"), run("b")
	waitsA, waitsB := wait("a"), wait("b")
	h.reload(list("b", "c"), pools["b"], pools["c"])
	runsC := run("c")
	waitsC, alsoB := wait("c"), wait("b")
	for i, of := range [][2]*exchange.Exchange{{runsB, waitsB}, {waitsB, alsoB}, {runsA, waitsA}, {runsC, waitsC}} {
		of[0].End(h.now, exchange.Ending{Clean: true})
		if a := of[1].Resume(h.now); a.Do != exchange.Forward {
			t.Errorf("end %d: who waited got %v, want it to go", i, a.Do)
		}
	}
	h.reload(list("c"), pools["c"]) // nobody waits for a and b any more
	for _, x := range []*exchange.Exchange{alsoB, waitsA, waitsC} {
		x.End(h.now, exchange.Ending{Clean: true})
	}
	q := h.s.Queues()
	if s := q[len(q)-1].(*flow.Queue).Stats(h.now); s.Places != 0 || len(s.Pools) != 1 {
		t.Errorf("%d places and %d pools are left, want none and one", s.Places, len(s.Pools))
	}
}

// Requests come, wait, go and are given up on several threads while one configuration follows another: all end, and nothing is left.
func TestReloadsAmongRequests(t *testing.T) {
	const workers, each, reloads = 8, 300, 40
	h := newHouse(t, 3)
	texts := []string{
		houseText,
		strings.Replace(houseText, "- type: queue-scorer", "- type: kv-cache-utilization-scorer", 1),
		strings.Replace(houseText, "maxRequests: 1, ", "maxRequests: 2, ", 1),
		strings.Replace(houseText, "defaultRequestTTL: 10s", "defaultRequestTTL: 9s", 1),
	}
	var all sync.WaitGroup
	first := h.s
	for worker := range workers {
		all.Go(func() {
			for i := range each {
				w := make(woken, 4)
				x := first.Current().Begin(h.now, w)
				s := openai.NewSummary()
				s.Complete, s.PromptTokens = true, 300
				a := x.Described(h.now, s, exchange.Said{FairnessID: string(rune('a' + worker%3)), Priority: int32(i % 2)})
				if a.Do == exchange.Hold && (worker+i)%5 == 0 {
					x.End(h.now, exchange.Ending{ByClient: true})
					continue
				}
				for a.Do == exchange.Hold {
					<-w
					a = x.Resume(h.now)
				}
				if a.Do != exchange.Forward {
					t.Errorf("got %v %+v", a.Do, a.Reply)
				}
				x.End(h.now, exchange.Ending{Clean: true})
			}
		})
	}
	for i := range reloads {
		h.reload(texts[i%len(texts)], h.p)
		for range 20 {
			runtime.Gosched()
		}
	}
	all.Wait()
	for _, q := range h.s.Queues() {
		if s := q.(*flow.Queue).Stats(h.now); s.Requests != 0 || s.Bytes != 0 || s.Places != 0 {
			t.Errorf("left are %d that wait, %d bytes, %d places", s.Requests, s.Bytes, s.Places)
		}
	}
	if n := h.p.Open(); n != 0 {
		t.Errorf("%d bookings are left", n)
	}
}

// woken is told when its request may go.
type woken chan struct{}

// Wake never waits: one mark is enough.
func (w woken) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}
