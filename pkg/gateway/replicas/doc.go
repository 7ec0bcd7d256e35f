// Package replicas has the replicas of a picker tell each other what they book, so that each knows of all requests, and of all
// prompts that engines have cached.
//
// Every replica serves a stream of its own bookings per pool over HTTP ([Teller]), and follows those of the others ([Listener]),
// whom it finds by name. A stream begins with what is open, and goes on with each change, a millisecond later. What is heard goes
// into the books of the pool as bookings of another picker, and into the index of prefixes. When a stream ends, what it told of
// bookings is forgotten; when it is back, it begins anew. A booking is told at once, with a turn by which those who chose the same endpoint
// before they heard of each other agree on who stays. Replicas are equal, none leads, and each decides on its own: where they
// cannot hear each other they decide as if they were alone.
package replicas
