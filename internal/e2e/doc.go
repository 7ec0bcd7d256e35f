// Package e2e drives the built binary behind a real Envoy with the shipped configurations, in front of simulated engines,
// by the official OpenAI SDKs and by load with faults. Requests wait in a queue in front of full pods, go in its order, outlive a reload
// and a pool that is scaled to zero, and are taken back while they run. Its tests stand under the build tag e2e; `make e2e` installs Envoy
// and the SDKs into the cache and runs them.
//
// Every body is hashed at both ends; the last line says how many were compared and how many differed.
package e2e
