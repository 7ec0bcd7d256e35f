package exchange_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

// wholeBody has the decision wait for the end of the body.
type wholeBody struct{}

func (wholeBody) Phase() plugins.Phase                   { return plugins.AtDescribe }
func (wholeBody) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

// rebuilt returns another configuration over the world's pools.
func (w *world) rebuilt(extra ...plugins.PluginSpec) *plugins.Built {
	w.t.Helper()
	extra = append(extra, instance("reads", wholeBody{}))
	spec := plugins.Spec{
		Plugins:  append([]plugins.PluginSpec{instance("handler", profiles.NewSingle()), instance("picker", pickers.NewRandom())}, extra...),
		Profiles: []plugins.ProfileSpec{{Name: "other", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Handler: "handler", Profiles: []string{"other"}}},
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return built
}

// replace puts another configuration in force and has the world's next exchanges begin under it.
func (w *world) replace(digest string, extra ...plugins.PluginSpec) (old *exchange.Scheduler) {
	w.t.Helper()
	old = w.s
	next, err := old.Replace(w.now, w.rebuilt(extra...), w.pools, "text of "+digest, digest)
	if err != nil {
		w.t.Fatal(err)
	}
	if next != old.Current() || next != next.Current() {
		w.t.Error("the one that Replace returns is not in force")
	}
	w.s = next
	return old
}

func TestRunningExchangesEndUnderTheConfigurationTheyBeganWith(t *testing.T) {
	w := newWorld(t, func(o *exchange.Options) { o.ConfigText, o.ConfigDigest = "text of one", "one" }, nil)
	w.s.LogOpened()
	x, a := w.forwarded(static)
	reading := w.begin()
	reading.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	old := w.replace("two")
	if old.Quiet() || len(w.s.Running()) != 2 {
		t.Error("the old one has two exchanges and is forgotten")
	}
	w.wantOpen(1)

	b := reading.Body(w.now, []byte(chat), true)
	if b.Do != exchange.Forward {
		t.Fatalf("got %v, want forward", b.Do)
	}
	reading.Response(w.now, nil, b.To[0], false)
	reading.End(w.now, exchange.Ending{Clean: true})

	x.Response(w.now, nil, a.To[0], false)
	x.End(w.now, exchange.Ending{})
	w.wantOpen(1)
	w.s.Ended(w.now, x.ID, exchange.Ending{ByClient: true}) // the entry comes to the scheduler in force
	w.wantNoted(reason.UnknownLogEntry, 0)
	w.wantOpen(0)
	if got := w.outcome(x); got != "client_aborted" {
		t.Errorf("ended as %q", got)
	}
	if !old.Quiet() || len(w.s.Running()) != 1 {
		t.Error("the old one is not quiet, though nothing runs")
	}

	fresh, _ := w.forwarded(proxied)
	fresh.End(w.now, exchange.Ending{ByClient: true})
	for id, want := range map[string]string{x.ID: "one", reading.ID: "one", fresh.ID: "two"} {
		doc, ok := w.s.Decision(id)
		if !ok || doc.Record.Config != want || doc.Configuration != "text of "+want {
			t.Errorf("kept %t, configuration %q with text %q; want %q", ok, doc.Record.Config, doc.Configuration, want)
		}
	}
}

func TestWhoeverStillHoldsAReplacedSchedulerBeginsUnderTheOneInForce(t *testing.T) {
	w := newWorld(t, nil, nil)
	old := w.replace("two")
	x := old.Begin(w.now, nil)
	if !old.Quiet() {
		t.Error("it began under the old one, which nobody ticks any more")
	}
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	x.Body(w.now, []byte(chat), true)
	if doc, ok := w.s.Decision(x.ID); !ok || doc.Record.Config != "two" {
		t.Errorf("kept %t, configuration %q", ok, doc.Record.Config)
	}
}

func TestDecisionsDoNotRepeatAfterAReplacement(t *testing.T) {
	w := newWorld(t, nil, nil)
	seen := map[string]bool{}
	for round := range 3 {
		for range 100 {
			x := w.begin()
			if seen[x.ID] {
				t.Fatalf("round %d: decision %s repeats", round, x.ID)
			}
			seen[x.ID] = true
			x.End(w.now, exchange.Ending{ByClient: true})
		}
		w.replace(fmt.Sprint(round))
	}
}

func TestAnEndUnderOneConfigurationLetsGoWhoWaitsUnderAnother(t *testing.T) {
	q := &oneAtATime{limit: 1}
	w := newWorld(t, nil, nil, instance("queue", q))
	running := w.begin()
	running.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	running.Body(w.now, []byte(chat), true)
	w.s.Tick(w.now)
	if a := running.Resume(w.now); a.Do != exchange.Forward {
		t.Fatalf("got %v, want forward", a.Do)
	}
	waits := w.begin()
	waits.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	if a := waits.Body(w.now, []byte(chat), true); a.Do != exchange.Hold {
		t.Fatalf("got %v, want hold", a.Do)
	}
	old := w.replace("without a queue")
	later, b := w.forwarded(proxied)
	running.End(w.now, exchange.Ending{Clean: true})
	q.Settle(nil, plugins.Outcome{}) // as the queue's own signal that there is room again
	later.Response(w.now, nil, b.To[0], true)
	if a := waits.Resume(w.now); a.Do != exchange.Forward {
		t.Fatalf("the one that waited got %v, want forward", a.Do)
	}
	waits.End(w.now, exchange.Ending{Clean: true})
	w.wantOpen(0)
	if !old.Quiet() {
		t.Error("the old one is not quiet")
	}
}

// A hold that ends at the instant of its deadline goes on with another one, which has not come.
func TestADeadlineThatWasMovedIsNotTakenForTheOldOne(t *testing.T) {
	for range 200 {
		hold := plugins.Verdict{Until: pool.Instant(3 * time.Second), Late: reason.LookupTimeout}
		w := newWorld(t, nil, nil, instance("asks", &stage{phase: plugins.AtDescribe, verdicts: []plugins.Verdict{hold}}))
		x := w.begin()
		x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
		x.Body(w.now, []byte(chat), true)
		var both sync.WaitGroup
		both.Go(func() { w.s.Tick(hold.Until) })
		both.Go(func() { x.Resume(hold.Until - 1) })
		both.Wait()
		w.wantNoted(reason.BookingExpired, 0)
		x.End(w.now, exchange.Ending{Clean: true})
		w.wantOpen(0)
	}
}

// The configurations of records that are kept are kept, others are not.
func TestTextsOfConfigurationsGoWithTheirRecords(t *testing.T) {
	w := newWorld(t, func(o *exchange.Options) { o.RecordRing = 4 }, nil)
	var ids []string
	for i := range 100 {
		w.replace(fmt.Sprintf("%03d", i))
		x, _ := w.forwarded(proxied)
		x.End(w.now, exchange.Ending{Clean: true})
		ids = append(ids, x.ID)
	}
	for i, id := range ids[96:] {
		if doc, ok := w.s.Decision(id); !ok || !strings.HasSuffix(doc.Configuration, fmt.Sprintf("%03d", 96+i)) {
			t.Errorf("record %d is kept %t, with text %q", 96+i, ok, doc.Configuration)
		}
	}
	if n := exchange.ConfigsKept(w.s); n > 9 {
		t.Errorf("%d texts are kept for 4 records", n)
	}
}

// TestX20ReplacedUnderLoad replaces the configuration again and again while thousands of exchanges come and go in every way.
func TestX20ReplacedUnderLoad(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.replace("zero")
	w.s.LogOpened()
	const workers, each, times = 8, 500, 60
	var running sync.WaitGroup
	var ids sync.Map
	first := w.s
	for k := range workers {
		running.Go(func() {
			for i := range each {
				via := []exchange.Via{proxied, static}[(i+k)%2]
				x := first.Current().Begin(w.now, nil)
				if _, twice := ids.LoadOrStore(x.ID, true); twice {
					t.Errorf("decision %s was begun twice", x.ID)
				}
				x.Headers(w.now, post("/v1/chat/completions"), via, false)
				if i%7 == 0 {
					x.End(w.now, exchange.Ending{ByClient: true})
					continue
				}
				a := x.Body(w.now, []byte(chat), true)
				if a.Do != exchange.Forward {
					t.Errorf("got %v, want forward", a.Do)
					continue
				}
				if i%5 != 0 {
					x.Response(w.now, nil, a.To[0], false)
				}
				x.End(w.now, exchange.Ending{Clean: i%3 == 0})
				first.Current().Ended(w.now, x.ID, exchange.Ending{Clean: true})
			}
		})
	}
	for i := range times {
		next, err := first.Replace(w.now, w.rebuilt(), w.pools, "", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		next.Tick(w.now)
	}
	running.Wait()
	current := first.Current()
	current.Tick(w.now + pool.Instant(time.Minute))
	w.wantOpen(0)
	if n := len(current.Running()); n != 1 || !current.Quiet() {
		t.Errorf("%d schedulers run, quiet %t", n, current.Quiet())
	}
	w.wantNoted(reason.BookingExpired, 0)
}
