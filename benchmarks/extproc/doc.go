// Package extproc measures what a decision costs an ext_proc server, and the floor that it is compared with.
//
// A [Load] plays Envoy: each request is one Process stream in FULL_DUPLEX_STREAMED mode, with the headers, chunk sizes and
// order of messages that an Envoy 1.40 sends, and every byte that comes back is compared with what was sent. A [NoOp] is
// the cheapest server that keeps the protocol: it holds the body to its end, picks round robin and echoes the body without
// looking at it. A [Comparison] runs both as processes of their own, in turn, within one run, so that a budget stated as a
// multiple of the floor does not depend on the machine.
//
// How far to trust the figures: the floor compared with itself, on two cores shared with compilers, gave CPU ratios of 0.93
// to 1.06 over five rounds of one second, and allocations and bytes equal to 2 %. Throughput and p99 varied by 30 % and
// more. Generator and server share the machine, so decisions per second are those of the two together.
//
//	prompts.go     the bodies: conversations with shared prefixes, a pure function of seed, size and number
//	framing.go     how a body is cut into messages
//	headers.go     the headers of a request and of its answer
//	answers.go     what a server may answer, and what is wrong with what it did answer
//	player.go      one exchange, message by message
//	load.go        many of them, at a rate or at a concurrency
//	meter.go       CPU, memory and allocations of the server's process
//	noop.go        the floor
//	compare.go     both in turn, ratios and budget lines
package extproc
