// Package clock is the time of a serving process: elapsed time as the core reads it, and the one timer that calls the
// core back at its deadlines.
package clock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Clock counts from an epoch by the monotonic clock: a step of the wall clock moves no deadline. It is an
// [exchange.Alarm]. All methods may be called from any goroutine.
type Clock struct {
	base   time.Time     // with a monotonic reading
	offset time.Duration // of base from the epoch
	speed  float64       // seconds of this clock per second of the wall

	asked atomic.Int64 // the earliest instant that At named and Drive has not looked at; 0 for none
	poke  chan struct{}
}

var _ exchange.Alarm = (*Clock)(nil)

// Start returns a clock whose Instant 0 is the wall time epoch, commonly time.Now().
func Start(epoch time.Time) *Clock {
	base := time.Now()
	return &Clock{base: base, offset: base.Sub(epoch), speed: 1, poke: make(chan struct{}, 1)}
}

// StartFast returns a clock that runs so many times as fast as the wall from now on: that of engines which are simulated faster than
// real time. What waits for an instant waits for a speed-th of the time.
func StartFast(epoch time.Time, speed float64) *Clock {
	c := Start(epoch)
	c.speed = speed
	return c
}

// Now returns the time since the epoch.
func (c *Clock) Now() pool.Instant {
	elapsed := time.Since(c.base)
	if c.speed != 1 {
		elapsed = time.Duration(float64(elapsed) * c.speed)
	}
	return pool.Instant(c.offset + elapsed)
}

// Wall returns how long a span of this clock takes on the wall.
func (c *Clock) Wall(d time.Duration) time.Duration {
	if c.speed != 1 {
		return time.Duration(float64(d) / c.speed)
	}
	return d
}

// At has Drive call Tick at this instant, if nothing earlier makes it; one in the past means at once. It never blocks, and without Drive it is
// remembered until Drive begins.
func (c *Clock) At(at pool.Instant) {
	at = max(at, 1) // 0 is the mark of none
	for {
		old := c.asked.Load()
		if old != 0 && old <= int64(at) {
			return // Drive has not looked yet, and will find the earlier one
		}
		if c.asked.CompareAndSwap(old, int64(at)) {
			break
		}
	}
	select {
	case c.poke <- struct{}{}:
	default: // one is on its way
	}
}

// Drive calls Tick of the scheduler in force at the deadlines that it returns, and at the instants that At names, until
// ctx is done. One that was replaced is ticked on until its last exchange is over. There is one call at a time; it starts with
// one.
func (c *Clock) Drive(ctx context.Context, scheduler func() *exchange.Scheduler) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := pool.Instant(0) // when the timer fires; 0: it does not
	<-timer.C
	tick := true
	for {
		if tick {
			armed = c.tick(scheduler().Running())
		}
		c.arm(timer, armed)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			tick = true
		case <-c.poke:
			asked := pool.Instant(c.asked.Swap(0))
			tick = asked != 0 && asked <= c.Now()
			if !tick && asked != 0 && (armed == 0 || asked < armed) {
				armed = asked
			}
		}
	}
}

// tick ticks all and returns the earliest of their next deadlines, 0 for none.
func (c *Clock) tick(running []*exchange.Scheduler) pool.Instant {
	next := pool.Instant(0)
	for _, s := range running {
		if n := s.Tick(c.Now()); n != 0 && (next == 0 || n < next) {
			next = n
		}
	}
	return next
}

// arm has the timer fire at this instant; 0 stops it. A deadline of the past fires at once: Tick has seen it or will.
func (c *Clock) arm(timer *time.Timer, at pool.Instant) {
	timer.Stop()
	if at != 0 {
		timer.Reset(max(c.Wall(time.Duration(at-c.Now())), 0))
	}
}
