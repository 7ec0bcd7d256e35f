package server

import "fmt"

// Faults is what is wrong with an engine. The zero Faults are a healthy one. As JSON they are the body of POST /sim/faults,
// which replaces what was set before; GET reads them. Any engine's port serves both for another one with the query
// engine=INDEX, or engine=all.
//
// A single request is spoiled by its header x-sim-fault instead: hang, reset-before, reset-mid or status=503 (any 5xx).
type Faults struct {
	// Slow makes each step take this many times as long; 0 and 1 are the hardware's own speed.
	Slow float64 `json:"slow"`

	// Hang stops the device: requests are taken and never answered, running answers stand still, while health, models and
	// metrics go on. When it ends, the step that was running goes on.
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

// withHeader returns the faults that hold for a request with this value of x-sim-fault.
func (f Faults) withHeader(value string) (Faults, error) {
	switch value {
	case "":
	case "hang":
		f.Hang = true
	case "reset-before":
		f.ResetBeforeFirstByte = true
	case "reset-mid":
		f.ResetAfterChunks = resetMidChunks
	default:
		var rest string
		n, _ := fmt.Sscanf(value, "status=%d%s", &f.Status, &rest)
		if n != 1 || f.check() != nil || f.Status == 0 {
			return f, fmt.Errorf("x-sim-fault is %q; hang, reset-before, reset-mid or status=500 to status=599", value)
		}
	}
	return f, nil
}
