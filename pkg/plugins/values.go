package plugins

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Scalar is a number that may be missing; the zero Scalar is. In JSON it is a number or null.
type Scalar struct {
	Value float64 // finite
	Known bool
}

// MarshalJSON writes the number, or null.
func (s Scalar) MarshalJSON() ([]byte, error) {
	if !s.Known {
		return []byte("null"), nil
	}
	return json.Marshal(s.Value)
}

// UnmarshalJSON reads a number, or null.
func (s *Scalar) UnmarshalJSON(text []byte) error {
	*s = Scalar{}
	if string(text) == "null" {
		return nil
	}
	s.Known = true
	return json.Unmarshal(text, &s.Value)
}

// scalar reads a number as annotations and labels have it. What cannot be one costs a look at its first byte.
func scalar(text string) Scalar {
	if text == "" || (text[0] < '0' || text[0] > '9') && text[0] != '-' && text[0] != '+' && text[0] != '.' {
		return Scalar{}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return Scalar{}
	}
	return Scalar{v, true}
}

// Locality is where an endpoint runs, from the narrowest to the widest; empty is not known.
type Locality struct {
	// Host is the machine.
	Host string `json:"host,omitempty"`
	// Rack is the cabinet, or whatever else shares one switch.
	Rack string `json:"rack,omitempty"`
	// Zone is the part of a region that fails on its own.
	Zone string `json:"zone,omitempty"`
	// Region is the place of a cloud.
	Region string `json:"region,omitempty"`
}

// CapacityClass is a kind of hardware, with the speeds that are expected of it before anything was measured. Endpoints of one
// class behave alike. The zero value is that nobody said anything.
type CapacityClass struct {
	// Class names the kind, such as h100-sxm or h100-mig-3g.40gb; [UnknownClass] where that is not known.
	Class string `json:"class"`
	// Prefill is how fast prompts are computed, Decode how fast tokens are generated, and Memory how much of it there is, each
	// relative to an H100 SXM with 80 GiB.
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
	Memory  float64 `json:"memory"`
}

// UnknownClass is the class of endpoints of which it is not known on what they run.
const UnknownClass = "unknown"

// HealthState is the state of an endpoint's circuit.
type HealthState string

// The states. The zero value is that nobody watches over the endpoint.
const (
	Closed    HealthState = "closed"     // it takes its share
	Ejected   HealthState = "ejected"    // it takes nothing
	HalfOpen  HealthState = "half-open"  // a request at a time tries it
	SlowStart HealthState = "slow-start" // its share grows
)

// Health is how an endpoint is, by what was seen of the requests that were sent there.
type Health struct {
	State HealthState `json:"state"`
	Share float64     `json:"share"`           // of what it would get, 0 to 1
	Trial bool        `json:"trial,omitempty"` // a request may try it
	Why   string      `json:"why,omitempty"`   // the reason of its last ejection, while it is not closed
	// Reached: it was ejected although it can be reached, so that it is better than nothing.
	Reached bool `json:"reached,omitempty"`
}

// Nearness says how much two localities share.
type Nearness uint8

// The degrees of nearness, each nearer than those before it.
const (
	Apart Nearness = iota
	SameRegion
	SameZone
	SameRack
	SameHost
)

// Known reports whether anything is known of where l is.
func (l Locality) Known() bool { return l != Locality{} }

// Nearness returns the narrowest level that l and o share. What is not known is shared with nobody.
func (l Locality) Nearness(o Locality) Nearness {
	switch {
	case l.Host != "" && l.Host == o.Host:
		return SameHost
	case l.Rack != "" && l.Rack == o.Rack:
		return SameRack
	case l.Zone != "" && l.Zone == o.Zone:
		return SameZone
	case l.Region != "" && l.Region == o.Region:
		return SameRegion
	}
	return Apart
}

// LatencyGuess is what was known of the endpoint that a request went to when it was decided: what its latency is learned from.
type LatencyGuess struct {
	To    pool.Ref `json:"to"`
	Class string   `json:"class"`

	// TTFTFeatures and ITLFeatures are what the model predicts from, ClosedTTFT and ClosedITL what the closed form said, in
	// milliseconds.
	TTFTFeatures [7]float64 `json:"ttftFeatures"`
	ITLFeatures  [7]float64 `json:"itlFeatures"`
	ClosedTTFT   float64    `json:"closedTtft"`
	ClosedITL    float64    `json:"closedItl"`
}
