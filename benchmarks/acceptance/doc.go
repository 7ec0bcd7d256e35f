// Package acceptance has the claims that docs/scheduling.md makes about scheduling, each as a test in virtual time with fixed
// seeds: what was asked, the figure that came out, and whether it holds. The tests have the build tag acceptance, since they
// take minutes; `make acceptance` runs them and prints a line per claim.
//
// A test plays scenarios under policies ([Play]), reads figures over the whole run or over windows of time, and ends with
// [Say]. The verdict that docs/scheduling.md records must come out again: a claim that fails is recorded as failing, in the open,
// and one that gets better is recorded anew. `make acceptance UPDATE=1` writes figures and verdicts into the page.
package acceptance
