// Package tuning looks for the configuration that suits a workload best: many candidates, each with one seed, the better third
// with twice as many, and so on (successive halving, with a third in place of a half). The outcome is a function of its plan. What it found for the scenarios that ship
// stands in the folder results, with the commit and the date of the run.
package tuning
