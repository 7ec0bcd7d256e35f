package server

import (
	"math"
	"slices"
	"strconv"
)

// histogram counts observations in buckets, as Prometheus has them.
type histogram struct {
	bounds []float64 // ascending, without +Inf
	counts []uint64  // per bucket, not summed up; the last is above all bounds
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // the first bound that is not below v
	h.counts[i]++
	h.sum += v
}

// The buckets of vLLM 0.32.0 (vllm/v1/metrics).
func bucketsTTFT() []float64 {
	return []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

func bucketsTokenTime() []float64 {
	return []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
}

func bucketsRequestTime() []float64 {
	return []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
}

func bucketsIteration() []float64 {
	return []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
}

func bucketsPreemptions() []float64 { return []float64{1, 2, 3, 4, 5, 10, 20} }

func bucketsN() []float64 { return []float64{1, 2, 5, 10, 20} }

// bucketsTokens returns 1, 2, 5, 10, 20, 50 … up to the longest request.
func bucketsTokens(maxModelLen int32) []float64 {
	var bounds []float64
	for scale := 1.0; ; scale *= 10 {
		for _, step := range [...]float64{1, 2, 5} {
			if step*scale > float64(maxModelLen) {
				return bounds
			}
			bounds = append(bounds, step*scale)
		}
	}
}

// appendNumber appends v as Prometheus' Python client prints a float: always with a point or an exponent.
func appendNumber(dst []byte, v float64) []byte {
	if math.IsInf(v, 1) {
		return append(dst, "+Inf"...)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	for _, c := range dst[from:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
