package server

import "time"

// Clock tells engine time, and how long to wait for an instant of it.
type Clock interface {
	// Now returns the engine time that elapsed since the clock was made. It never goes back.
	Now() time.Duration

	// Until returns how long, in wall time, the instant at is away; 0 or less if it has come.
	Until(at time.Duration) time.Duration
}

type wallClock struct {
	start time.Time
	speed float64
}

// WallClock returns a clock that begins at zero and runs speed times as fast as the wall's.
func WallClock(speed float64) Clock { return wallClock{time.Now(), speed} }

func (c wallClock) Now() time.Duration {
	return time.Duration(float64(time.Since(c.start)) * c.speed)
}

func (c wallClock) Until(at time.Duration) time.Duration {
	return time.Duration(float64(at)/c.speed) - time.Since(c.start)
}
