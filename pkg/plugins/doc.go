// Package plugins is the framework of the scheduling core: the extension points, the facts that plugins share, the
// builder that wires them when a configuration is loaded, and the cycle that runs one decision.
//
// A plugin is a struct whose exported fields are its parameters. It implements the interfaces of the extension points it
// serves ([Stage], [Describer], [Producer], [Filter], [Scorer], [Picker], [ProfileHandler], [RequestHook],
// [AttemptHook], [ResponseHook], [Settler], [Ticker]), says in Provision which facts it reads and makes, and stands as one line in the
// catalogue. Everything else is done once, here: instance names, weights, bounds of parameters, clamping of scores, the
// order of calls, isolation of panics, the decision record and its replay.
//
// A decision runs in this order; everything from the books down happens inside the pool's one critical section:
//
//	Describer  facts of the request            once, before admission
//	Producer   facts per endpoint              each cycle, before the lock
//	  pool     facts of samples and books      inside the lock
//	  Filter   removes candidates              per profile, in the order of the profile
//	  Scorer   a score in [0,1] per candidate  per profile; total += weight × score
//	  Picker   the best, and fallbacks         per profile
//	RequestHook, AttemptHook, ResponseHook,    after booking, on each endpoint that was tried, on the answer,
//	Settler                                    once at the end
package plugins
