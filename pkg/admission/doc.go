// Package admission holds the stages that say who a request is among others, and whether it is let in while endpoints are
// short. Waiting for capacity is the queue's.
package admission
