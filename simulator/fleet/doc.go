// Package fleet runs simulated engines and a scheduler together in virtual time: a loop over events, each at its instant, on
// one goroutine. The engines are those of package engine; the scheduler is whatever implements [Decider], the production
// code among others; requests come from a [Source].
//
// What happens at one instant happens in a fixed order: engines end steps, by their number; what is planned takes place;
// clients give up; engines are read, and readings arrive; the scheduler acts on its deadlines; requests arrive. So the same options give the
// same [Result], to the byte, on any machine.
//
// Every request ends as one of [Completed], [Refused], [Failed], [Aborted] or [Unfinished]; none is left out of the result.
//
// Left out of the model: the network, and the work of gateway and API server (a constant that a report may add).
package fleet
