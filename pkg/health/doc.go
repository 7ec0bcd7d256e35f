// Package health keeps requests away from endpoints that would fail them or take far too long, by what is seen of the
// requests that were sent there: a passive check, which asks the engines for nothing.
//
// Each endpoint is in one of four states. A closed circuit lets everything through. An endpoint that fails, or is many times
// slower than its like, is ejected, for longer each time. Then the circuit is half open: one request at a time tries whether
// it is better. If so it takes a share that grows (slow start), and is closed again.
//
// What the plugins remember reaches a decision as facts, so that its record tells why somebody was left out.
package health
