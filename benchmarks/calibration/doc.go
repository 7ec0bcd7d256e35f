// Package calibration fits a simulated engine's step times to measurements of a real one: to the stage files of
// inference-perf, or to scrapes of a vLLM server's metrics page.
//
// From each stage it takes the mean time between two tokens, the prompt tokens that arrive uncached and the requests that
// run at a time, and fits
//
//	step = base + perPrefillToken·P + perSequence·S + allExperts·touched
//
// the last of a model with experts alone, by least squares of relative errors. Errors are told apart below and above saturation, since above it a few per cent of
// capacity decide how long the queue grows: there the requests served per second are compared, not times.
package calibration
