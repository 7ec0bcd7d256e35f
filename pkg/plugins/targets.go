package plugins

import (
	"math"
	"strconv"
)

// The headers in which a client says how long it will wait, in milliseconds, and their older names.
const (
	HeaderTTFTTarget    = "x-llm-d-slo-ttft-ms"
	HeaderITLTarget     = "x-llm-d-slo-tpot-ms"
	headerTTFTTargetOld = "x-slo-ttft-ms"
	headerITLTargetOld  = "x-slo-tpot-ms"
)

// mostTarget is a day, in milliseconds: who would wait longer has no target.
const mostTarget = 24 * 60 * 60 * 1000

func fillTTFTTarget(r *Request, h RequestValue[float64]) {
	h.Set(r, TargetTTFT(r))
}

func fillITLTarget(r *Request, h RequestValue[float64]) {
	h.Set(r, TargetITL(r))
}

// TargetTTFT returns the client's target for the time to the first token, in milliseconds; Unknown without one.
func TargetTTFT(r *Request) float64 { return target(r, HeaderTTFTTarget, headerTTFTTargetOld) }

// OddTTFTTarget reports whether the client named a target for the time to the first token that is none, as OddTarget does.
func OddTTFTTarget(r *Request) bool { return odd(r, HeaderTTFTTarget, headerTTFTTargetOld) }

// TargetITL returns the client's target for the time between tokens, in milliseconds; Unknown without one.
func TargetITL(r *Request) float64 { return target(r, HeaderITLTarget, headerITLTargetOld) }

// target reads one of a client's targets.
func target(r *Request, name, old string) float64 {
	text := r.Headers.Get(name)
	if text == "" {
		text = r.Headers.Get(old)
	}
	if text == "" {
		return Unknown
	}
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(ms) || ms <= 0 || ms > mostTarget {
		return Unknown
	}
	return ms
}

// OddTarget reports whether the client named a target that is none: no number, not above 0, or more than a day.
func OddTarget(r *Request) bool {
	return OddTTFTTarget(r) || odd(r, HeaderITLTarget, headerITLTargetOld)
}

func odd(r *Request, name, old string) bool {
	return (r.Headers.Get(name) != "" || r.Headers.Get(old) != "") && target(r, name, old) == Unknown
}
