package flow

import (
	"math"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// drain counts who went, in two windows, for the rate at which a pool's queue drains.
type drain struct {
	begins    pool.Instant // of the present window
	now, last int64        // in it, and in the one before
}

// drainWindow is the length of a window.
const drainWindow = pool.Instant(5 * time.Second)

func (d *drain) turn(now pool.Instant) {
	switch age := now - d.begins; {
	case age >= 2*drainWindow:
		d.begins, d.now, d.last = now, 0, 0
	case age >= drainWindow:
		d.begins, d.now, d.last = d.begins+drainWindow, 0, d.now
	}
}

func (d *drain) count(now pool.Instant) {
	d.turn(now)
	d.now++
}

// rate returns how many went per second lately; 0 where nobody did.
func (d *drain) rate(now pool.Instant) float64 {
	d.turn(now)
	span := now - d.begins
	if d.last > 0 {
		span += drainWindow
	}
	if d.now+d.last == 0 || span <= 0 {
		return 0
	}
	return float64(d.now+d.last) / max(time.Duration(span).Seconds(), 1)
}

// retry is when one who comes again will find room, at the rate at which those drain who wait: between RetryMin and RetryMax,
// in whole seconds. RetryMax where nobody goes.
func (c *Control) retry(now pool.Instant, l *line) time.Duration {
	rate := l.rate.rate(now)
	if rate <= 0 {
		return c.rules().RetryMax
	}
	seconds := math.Ceil(float64(l.waiting.Load()+1) / rate)
	if seconds >= c.rules().RetryMax.Seconds() {
		return c.rules().RetryMax
	}
	return max(time.Duration(seconds)*time.Second, c.rules().RetryMin)
}
