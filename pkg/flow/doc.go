// Package flow holds requests that their pool has no room for, and decides who goes first when there is some.
//
//	         fresh ──► Enter ──► passes: nobody waits and there are endpoints
//	                     │
//	           bounds? ──┼──► who holds most gives way; else refused: 429, or 503 while the pool has no endpoint; the refusal names the bound
//	                     ▼
//	pool ► band (priority) ► flow (tenant) ► place (order)
//	                     │
//	Next: the pool has room for the band? ► the band's fairness names a flow ► its first goes
//	                     │                                   too late? ► refused: 429, or 503
//	                     ▼
//	Fits: still room, inside the pool's lock? ► decided ► Suits: its choice has room? ► booked in the same step
//	                     └──► no: back to its place, with its turn            └──► no: back, and those behind it are asked
//
// [Control] is the state machine: it holds no goroutine and no timer, calls bring the instant, and Deadline says when time alone
// will have something for it to do. [Queue] is the plugin around it. What is decided by policy is a plugin too: when a pool is
// full ([Detector]), how much of it a band may fill ([Ceilings]), which tenant goes first ([Fairness]), and who of its requests
// ([Ordering]).
//
// A request waits in the band of its own priority and in no other. Bands and flows that nobody waits in are forgotten after a
// while, those in which somebody waits never.
//
// Room is a matter of one pool, so that each pool has bands of its own; the bounds that are named global are those of all pools
// together.
package flow
