package server

import (
	"fmt"
	"strconv"
	"strings"
)

// Faults is what is wrong with an engine. The zero Faults are a healthy one. As JSON they are the body of POST /sim/faults,
// which replaces what was set before; GET reads them. Any engine's port serves both for another one with the query
// engine=INDEX, or engine=all.
//
// A single request is spoiled by its header x-sim-fault instead: hang (it is never answered), reset-before, reset-mid or
// status=503 (any 5xx).
type Faults struct {
	// Slow makes each step take this many times as long; 0 and 1 are the hardware's own speed.
	Slow float64 `json:"slow"`

	// Hang stops the device: requests are taken and wait without a byte of answer, running answers stand still, while health,
	// models and metrics go on. When it ends, the step that was running goes on, and so does everybody.
	Hang bool `json:"hang"`

	// Status is answered to generation requests instead of generating; 0, or 500 to 599.
	Status int `json:"status"`

	// ResetAfterChunks resets the connection after so many event-stream chunks, or so many writes of a fixed stream; an
	// answer that is no stream is reset after its headers. 0: never.
	ResetAfterChunks int `json:"resetAfterChunks"`

	// ResetBeforeFirstByte resets the connection of a generation request once its body was read.
	ResetBeforeFirstByte bool `json:"resetBeforeFirstByte"`

	// StaleMetrics freezes the metrics page as it is when the fault is set.
	StaleMetrics bool `json:"staleMetrics"`

	// MetricsOff answers 404 to GET /metrics.
	MetricsOff bool `json:"metricsOff"`

	// Refuse closes each new connection at once, and the idle ones when it is set. Answers under way go on. It is taken back
	// through another engine's port, or Fleet.SetFaults.
	Refuse bool `json:"refuse"`
}

// resetMidChunks is after how many chunks x-sim-fault: reset-mid resets.
const resetMidChunks = 2

func (f Faults) check() error {
	switch {
	case !(f.Slow >= 0 && f.Slow <= 1e6):
		return fmt.Errorf("faults: slow is %v; 0 to 1e6", f.Slow)
	case f.Status != 0 && (f.Status < 500 || f.Status > 599):
		return fmt.Errorf("faults: status is %d; 0 or 500 to 599", f.Status)
	case f.ResetAfterChunks < 0:
		return fmt.Errorf("faults: resetAfterChunks is %d; at least 0", f.ResetAfterChunks)
	}
	return nil
}

// trouble is what is wrong with one request.
type trouble struct {
	Faults
	never bool // it is not answered, whatever becomes of the engine
}

// withHeader returns what is wrong with a request with this value of x-sim-fault.
func (f Faults) withHeader(value string) (trouble, error) {
	t := trouble{Faults: f}
	switch value {
	case "":
	case "hang":
		t.never = true
	case "reset-before":
		t.ResetBeforeFirstByte = true
	case "reset-mid":
		t.ResetAfterChunks = resetMidChunks
	default:
		digits, ok := strings.CutPrefix(value, "status=")
		status, err := strconv.Atoi(digits)
		t.Status = status
		if !ok || err != nil || status == 0 || t.check() != nil {
			return t, fmt.Errorf("x-sim-fault is %q; hang, reset-before, reset-mid or status=500 to status=599", value)
		}
	}
	return t, nil
}
