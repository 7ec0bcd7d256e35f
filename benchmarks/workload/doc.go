// Package workload makes the requests of a simulated run from a description in YAML: how they arrive, how long they are, and
// what they share.
//
// A [Spec] has streams. A stream has arrivals (an open process, or a number of users that each wait for their answers), one
// kind of content (shared prefixes, conversations, documents, independent prompts, a trace) and labels (tenant, class,
// priority, adapters). Contents are not text: a prompt is a list of segments with lengths and identities, and two prompts
// share cached blocks exactly as far as they begin with the same segments.
//
// Everything is a function of spec and seed. Arrivals, lengths, choices and waits draw from streams of their own, so that
// two policies see the same requests at the same instants, and another rate does not change who asks what.
//
// The files of inference-perf are read too; see [FromInferencePerf].
package workload
