package main

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fairlead/fairlead/benchmarks/extproc"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// emptyLimit is what a queue in which nobody waits may add to a request, and drainLimit what each may take of those that wait while
// the queue drains, in hashes of 100 kB. The design's 200 ns and 20 us (50,000 requests/s) are 0.03 and 3 of them, with the margin
// that a cycle has.
const (
	emptyLimit = 0.04
	drainLimit = 4
)

// queued builds the default profile with a queue that holds as many as come.
func queued() *plugins.Built {
	const text = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
- type: load-model-producer
- type: cost-scorer
- type: max-score-picker
- type: flow-control
  parameters: {maxRequests: 0, maxBytes: 0, defaultPriorityBand: {maxRequests: 1M, maxBytes: 1T}}
`
	file, problems := config.Load([]byte(text), "queue", catalog.Builtin())
	if file == nil {
		panic(fmt.Sprint("the configuration with a queue does not load: ", problems))
	}
	built, problems := file.Build()
	if built == nil {
		panic(fmt.Sprint("the configuration with a queue does not build: ", problems))
	}
	return built
}

// queueLines measure flow control: what it adds where nobody waits, and how fast those go who wait.
func queueLines() []extproc.Line {
	reference := make([]byte, 100_000)
	fixed := nanos(func() { xxhash.Sum64(reference) })
	var lines []extproc.Line
	for _, n := range []int{8, 100} {
		built := queued()
		p := members(n)
		built.Attach([]*pool.Pool{p}, reason.Discard{})
		c := built.Plans[0].NewCycle(reason.Discard{})
		var r plugins.Request
		r.Prepare(built, nil)
		r.Now, r.API, r.PoolIndex = pool.Instant(time.Second), openai.ChatCompletions, 0
		s := p.Snapshot()
		if no := c.Prepare(&r, s, p.StaleAfter(), 1, nil); no != nil {
			panic(no.Error())
		}
		var books *pool.Books
		p.Decide(func(_ *pool.Snapshot, b *pool.Books) { books = b }) // nobody else is here
		booked := func() {
			h := books.Book(s.Slots[0].Ref, pool.Load{UncachedPrefill: 100, Decode: 20}, 2*r.Now)
			p.FirstByte(r.Now, h)
			p.Progress(r.Now, h, 20)
			p.End(r.Now, h)
		}
		passes := func() {
			if v := built.Enter(reason.Discard{}, plugins.AtAdmit, built.QueueStage(), &r); !v.Passes() {
				panic("a request does not pass an empty queue")
			}
			if fits, no := built.Fits(reason.Discard{}, c, books); !fits || no != nil {
				panic("a request does not fit an empty pool")
			}
			booked()
			built.Admitted(reason.Discard{}, &r, s.Slots[0].Ref, pool.Load{})
		}
		name := fmt.Sprintf("flow control, nobody waits, %d endpoints", n)
		ns := max(nanos(passes)-nanos(booked), 0)
		lines = append(lines,
			atMost(name+": time", fmt.Sprintf("%.0f ns (%.3fx xxhash64 of 100 kB), design 200 ns", ns, ns/fixed), ns/fixed, emptyLimit, "x xxhash64 of 100 kB"),
			atMost(name+": allocations", fmt.Sprint(allocations(passes)), allocations(passes), 0, ""))
	}
	each := drained()
	figure := fmt.Sprintf("%.2f us each, %.0f requests/s (%.2fx xxhash64 of 100 kB), design 50,000 requests/s", each/1e3, 1e9/each, each/fixed)
	return append(lines, atMost("flow control, 100,000 that wait go one by one, decisions included", figure, each/fixed, drainLimit, "x xxhash64 of 100 kB"))
}

// waiting is an exchange that waits, or is on its way.
type waiting struct {
	x    *exchange.Exchange
	gone *[]*waiting // where it puts itself when it was let go
}

// Wake is called when it was let go.
func (w *waiting) Wake() { *w.gone = append(*w.gone, w) }

// drained has 100,000 requests of 100 tenants wait for 8 full endpoints, and ends those that run one after the other, each of which
// lets go who waits longest: the end, its accounts, the next one's turn, decision and booking. It returns what one takes of the
// processor, in nanoseconds.
func drained() float64 {
	const waits, tenants = 100_000, 100
	built, p := queued(), members(8)
	o := exchange.Defaults()
	o.Built, o.Pools, o.MaxRequests, o.RecordEvery = built, []*pool.Pool{p}, 0, 0
	s, err := exchange.New(o)
	if err != nil {
		panic(err)
	}
	now := pool.Instant(time.Second)
	var runs []*waiting
	held := 0
	for i := 0; held < waits; i++ {
		w := &waiting{gone: &runs}
		w.x = s.Begin(now, w)
		sum := openai.NewSummary()
		sum.Complete, sum.PromptTokens = true, 300
		switch a := w.x.Described(now, sum, exchange.Said{FairnessID: fmt.Sprint("tenant-", i%tenants)}); a.Do {
		case exchange.Forward:
			runs = append(runs, w)
		case exchange.Hold:
			held++
		default:
			panic(fmt.Sprintf("a request is answered with %d and not held", a.Reply.Status))
		}
	}
	ends := 0
	start := spent()
	for len(runs) > 0 {
		w := runs[0]
		runs = runs[1:]
		w.x.Resume(now)
		now += pool.Instant(time.Microsecond)
		w.x.End(now, exchange.Ending{Clean: true})
		ends++
	}
	took := spent() - start
	if p.Open() != 0 || ends < waits {
		panic(fmt.Sprintf("%d requests ended and %d bookings are left", ends, p.Open()))
	}
	return float64(took) / float64(ends)
}
