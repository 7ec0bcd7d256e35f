package pool

import "time"

// Sample is one reading of an engine. -1 is unknown: absent from the page, or rejected. Lists must not be modified after
// Observe.
type Sample struct {
	At                  Instant // when the engine was asked; 0: never
	Refused             Instant // when it was asked first, since then, and nobody listened; 0: it was not
	Waiting, Running    int32   // requests, over all ranks behind the page
	Blocks, BlockTokens int32   // size of the KV cache, over all ranks, and tokens per block
	KVUsage             float64 // 0..1, the fullest rank's

	Adapters        []string    // LoRA adapters with running requests, sorted; nil is unknown
	AdaptersWaiting []string    // LoRA adapters with waiting requests, sorted; nil is unknown. One may stand in both
	AdaptersMax     int32       // how many different ones may run at a time
	Custom          []Attribute // what the configuration has read besides, sorted by name, each once

	// By these two a restart is noticed, the second where the first is unknown.
	ProcessStart float64 // seconds since the Unix epoch as the engine says; ≤ 0 is unknown. Another value is another process
	PromptTokens float64 // prompt tokens that the process has ever taken in; < 0 is unknown. Less than before is another process

	// What the process has counted since it began, of all requests, whoever sent them: first tokens with the time from a request's
	// arrival at the engine, the gaps between tokens, and requests that were sent back from the batch for lack of memory, < 0 is
	// unknown.
	FirstTokens, Gaps Timed
	Preemptions       float64
}

// Timed is how many of something there were, and the seconds that they took together. A Count below 0 is unknown.
type Timed struct{ Count, Seconds float64 }

// Since returns what came to t after earlier; ok is false if either is unknown, or if t is of another process.
func (t Timed) Since(earlier Timed) (d Timed, ok bool) {
	d = Timed{t.Count - earlier.Count, t.Seconds - earlier.Seconds}
	return d, t.Count >= 0 && earlier.Count >= 0 && d.Count >= 0 && d.Seconds >= 0
}

// Attribute is a number that is known of an endpoint under a name that its operator chose.
type Attribute struct {
	Name  string
	Value float64 // finite
}

// NoSample is the Sample of an endpoint that was never asked: everything is unknown.
func NoSample() Sample {
	return Sample{
		Waiting: -1, Running: -1, Blocks: -1, BlockTokens: -1, KVUsage: -1, AdaptersMax: -1, ProcessStart: -1, PromptTokens: -1,
		FirstTokens: Timed{Count: -1}, Gaps: Timed{Count: -1}, Preemptions: -1,
	}
}

// State says how far a sample can be trusted.
type State uint8

// The states of a sample.
const (
	Never State = iota // the engine has not answered yet: neither idle nor busy
	Stale              // it has, but longer ago than the bound
	Fresh
)

// String returns the state's name.
func (s State) String() string { return [...]string{"never", "stale", "fresh"}[s] }

// State returns the state of s at now: stale when it was asked for more than staleAfter ago.
func (s *Sample) State(now Instant, staleAfter time.Duration) State {
	switch {
	case s.At <= 0:
		return Never
	case time.Duration(now-s.At) > staleAfter:
		return Stale
	}
	return Fresh
}
