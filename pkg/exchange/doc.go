// Package exchange is the life of a request as a state machine without I/O: calls go in, an action comes out.
//
//	Envoy (ext_proc) ─┐                       one Exchange per request, keyed by its stream
//	embedded proxy   ─┼─► headers ► body ► resolve ► describe ► admit ► schedule ► commit ► respond ► settle
//	fleet (virtual)  ─┘
//
//	phase     reads                        writes                                  may refuse or wait
//	headers   client headers               API kind, identity; control headers out 401, 403
//	body      chunks, as they come         model, flags, prompt spans              400, 413
//	resolve   model name, path             target                                  400, 404
//	describe  prompt spans, target         facts of the request                    may hold
//	admit     facts, pool state            reservation, place in the queue         429, 503; the only queue
//	schedule  candidates, facts            profile results, the choice             429, 503; may hold for other replicas
//	commit    the choice                   books, destination, headers, edits      no
//	respond   response headers, chunks     first byte, usage, served endpoint      no
//	settle    usage, end or abort          books released, record                  no
//
// An adapter carries the bytes and keeps the clock; it decides nothing. It calls the entry points of an [Exchange] in the
// order of its transport and does what the returned [Action] says. Every entry point takes the exchange's own lock, so the
// stream, an access-log entry and a deadline may come in any order from any goroutine; the first end wins.
//
// Locks are taken in the order dispatch, exchange, pool, and never back.
package exchange
