package telemetry

import (
	"context"
	"errors"
	"fmt"
)

// Outcome says what became of one page. Metrics have it as a label.
type Outcome uint8

// The outcomes.
const (
	OK          Outcome = iota // there is a sample
	Unreachable                // no connection, or one that broke
	TimedOut                   // not whole in time
	BadStatus                  // another status than 200
	Redirected                 // to another host, or too often
	BadContent                 // compressed or in another format
	TooLong                    // longer than the bound
	NoSeries                   // without any series of the engine
	NumOutcomes
)

// String returns the label.
func (o Outcome) String() string {
	return [...]string{"ok", "unreachable", "timeout", "status", "redirect", "content", "too_long", "no_series"}[o]
}

// failure is an Outcome as an error.
type failure struct {
	outcome Outcome
	text    string
}

func (f *failure) Error() string { return f.text }

func failed(o Outcome, format string, args ...any) error {
	return &failure{o, fmt.Sprintf(format, args...)}
}

// outcomeOf returns what an error of a page means; nil is OK.
func outcomeOf(err error) Outcome {
	var f *failure
	switch {
	case err == nil:
		return OK
	case errors.As(err, &f):
		return f.outcome
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return Unreachable
}
