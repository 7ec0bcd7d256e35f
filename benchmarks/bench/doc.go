// Package bench runs scenarios in virtual time and turns what happened into figures.
//
// Goodput counts over what was offered: a request that was refused, failed or never ended is as little good as one that was
// late. A run whose backlog grows until the end of its arrivals is saturated, and its latencies say how long it ran and
// nothing else.
package bench
