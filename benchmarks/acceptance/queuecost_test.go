//go:build acceptance

package acceptance_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// counter is a scheduler with a queue over 8 endpoints that take 4 requests each, whose every timer is counted.
type counter struct {
	t    *testing.T
	s    *exchange.Scheduler
	pool *pool.Pool
	now  pool.Instant

	timers int       // that the edge was asked for by the queue: those of bookings are far away
	free   []*inLine // let go, and not ended
}

// inLine is an exchange that waits, or is on its way.
type inLine struct {
	of *counter
	x  *exchange.Exchange
}

// Wake is called when it was let go.
func (w *inLine) Wake() { w.of.free = append(w.of.free, w) }

// At counts a timer.
func (c *counter) At(at pool.Instant) {
	if at < c.now+pool.Instant(exchange.Defaults().BookingDeadline)/2 {
		c.timers++
	}
}

func newCounter(t *testing.T, more string) *counter {
	file, problems := config.Load([]byte(withQueue("saturationDetectorRef: load-detector, maxRequests: 0, defaultPriorityBand: {maxRequests: 1M}"+more,
		"{type: load-detector, parameters: {maxRequests: 4}}")), "queue", catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	c := &counter{t: t, pool: pool.New("default", nil), now: pool.Instant(time.Second)}
	var members []pool.Endpoint
	for i := range 8 {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
	}
	c.pool.Update(c.now, members)
	o := exchange.Defaults()
	o.Built, o.Pools, o.Alarm, o.MaxRequests, o.RecordEvery = built, []*pool.Pool{c.pool}, c, 0, 0
	var err error
	if c.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	return c
}

// come brings the i-th request, and reports whether it waits.
func (c *counter) come(i int) (waits bool) {
	w := &inLine{of: c}
	w.x = c.s.Begin(c.now, w)
	sum := openai.NewSummary()
	sum.Complete, sum.PromptTokens = true, 300
	switch a := w.x.Described(c.now, sum, exchange.Said{FairnessID: fmt.Sprint("tenant-", i%100)}); a.Do {
	case exchange.Forward:
		c.free = append(c.free, w)
	case exchange.Hold:
		waits = true
	default:
		c.t.Fatalf("request %d: %v", i, a)
	}
	return waits
}

// end ends the one that was let go first.
func (c *counter) end() {
	w := c.free[0]
	c.free = c.free[1:]
	if a := w.x.Resume(c.now); a.Do != exchange.Forward && a.Do != exchange.Ignore {
		c.t.Fatalf("it was not let go: %v", a)
	}
	w.x.End(c.now, exchange.Ending{Clean: true})
}

// pass is what n requests take each that need not wait, drain what they take that all wait before the first of them goes.
func (c *counter) pass(n int) time.Duration {
	start := time.Now()
	for i := range n {
		c.now += pool.Instant(time.Microsecond)
		if c.come(i) {
			c.t.Fatal("a request waits for an idle pool")
		}
		c.end()
	}
	return time.Since(start)
}

func (c *counter) drain(n int) time.Duration {
	for range 32 {
		c.come(0)
	}
	start := time.Now()
	for i := range n {
		if !c.come(i) {
			c.t.Fatal("a request does not wait for a full pool")
		}
	}
	for len(c.free) > 0 {
		c.now += pool.Instant(time.Microsecond)
		c.end()
	}
	return time.Since(start)
}

// A pool that is idle, then busy, then idle asks for no timer while nobody waits; whoever waits goes within the call in which another
// ends, if it takes any room; and 100,000 that wait, each with all that is held of it, take at most five times as long as the same number that need not.
func TestQueueCost(t *testing.T) {
	const waits = 100_000
	c := newCounter(t, ", lookAhead: 0")
	c.pass(1000)
	idle := c.timers
	c.drain(0)
	for range 32 {
		c.come(0)
	}
	for i := range 1000 {
		c.now += pool.Instant(time.Millisecond)
		c.come(i)
	}
	busy, late := c.timers, 0
	for left := 1000; len(c.free) > 0; {
		c.now += pool.Instant(time.Millisecond)
		running := len(c.free)
		if c.end(); left > 0 {
			left--
			if len(c.free) != running { // nobody went in the instant of the end
				late++
			}
		}
	}
	before := c.timers
	c.pass(1000)
	again := c.timers - before
	next := c.s.Tick(c.now)
	if busy == idle {
		t.Error("those that waited had no deadline")
	}
	best := func(run func() time.Duration) (least float64) {
		for range 3 { // the machine does other things besides
			if took := run().Seconds(); least == 0 || took < least {
				least = took
			}
		}
		return least
	}
	need := best(func() time.Duration { return c.pass(waits) })
	ratio := best(func() time.Duration { return c.drain(waits) }) / need
	choosy := best(func() time.Duration { return newCounter(t, "").drain(waits) }) / need
	left := c.pool.Open()
	acceptance.Say(t, acceptance.Is(idle == 0 && again == 0 && next == 0 && late == 0 && left == 0 && ratio < 5 && choosy < 20),
		"timers of the queue while nobody waits: %d before, %d after; %d of 1000 went later than the end that made room; 100,000 that wait cost %.1f times what the same number cost that need not, and %.0f times where each waits for the endpoint of its choice",
		idle, again+int(next), late, ratio, choosy)
}
