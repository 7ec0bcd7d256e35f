// Package pool holds what is known of the endpoints of one pool: who they are (Snapshot), what their engines last said
// (Sample) and what we have sent them ourselves (Books). All that a decision reads and writes stands under one lock, so
// that a burst decided on one snapshot sees its own bookings.
package pool

import (
	"maps"
	"net/netip"
	"time"
)

// Instant is elapsed time since the run began: monotonic in a process, virtual in a fleet. Wall time stands in records
// alone.
type Instant time.Duration

// ID is a dense slot of one pool, stable while the endpoint lives, reused later. Ref is for whatever outlives a cycle.
type ID int32

// Ref names an endpoint for longer than a cycle. Incarnation rises when the slot is filled anew or the engine behind it
// restarts; a Ref with an older one is stale, and calls with it do nothing. The zero Ref names nobody.
type Ref struct {
	ID          ID
	Incarnation uint32
}

// Endpoint is one address that serves: a pod and port, or a rank. It is immutable: neither we nor the one that handed it
// to Update may change its maps afterwards.
type Endpoint struct {
	Ref                        // written by the pool
	Namespace, Name     string // together unique in a pool
	Node, Group         string // where it runs, and with whom it forms a replica; empty: not said
	Addr                netip.AddrPort
	Metrics             netip.AddrPort // where its page of metrics is; Addr if not given
	Rank                int32          // data-parallel rank
	Draining            bool           // keeps what is pinned to it, takes nothing new
	Labels, Annotations map[string]string
}

// same reports whether two endpoints of one identity say the same but for Ref.
func (e *Endpoint) same(o *Endpoint) bool {
	return e.Namespace == o.Namespace && e.Name == o.Name && e.Node == o.Node && e.Group == o.Group &&
		e.Addr == o.Addr && e.Metrics == o.Metrics && e.Rank == o.Rank && e.Draining == o.Draining &&
		maps.Equal(e.Labels, o.Labels) && maps.Equal(e.Annotations, o.Annotations)
}

// Snapshot is the membership at one moment, immutable. It also changes when an engine restarts, since its Ref does.
type Snapshot struct {
	Version uint64     // rises by one with each snapshot of the pool; 0: no membership was ever given
	Slots   []Endpoint // by ID; a vacant slot has Incarnation 0
	Members []ID       // the filled slots, ascending
	Open    []ID       // those of them that don't drain

	byAddr map[netip.AddrPort]ID
}

// Lookup returns the member with this address. IPv4 and IPv4-mapped IPv6 addresses are the same.
func (s *Snapshot) Lookup(addr netip.AddrPort) (ID, bool) {
	id, ok := s.byAddr[unmapped(addr)]
	return id, ok
}

// Alive reports whether of names a member of this snapshot.
func (s *Snapshot) Alive(of Ref) bool {
	return of.Incarnation != 0 && of.ID >= 0 && int(of.ID) < len(s.Slots) && s.Slots[of.ID].Incarnation == of.Incarnation
}

func (s *Snapshot) index() {
	s.Members, s.Open = make([]ID, 0, len(s.Slots)), make([]ID, 0, len(s.Slots))
	s.byAddr = make(map[netip.AddrPort]ID, len(s.Slots))
	for i := range s.Slots {
		if e := &s.Slots[i]; e.Incarnation != 0 {
			s.Members = append(s.Members, e.ID)
			if !e.Draining {
				s.Open = append(s.Open, e.ID)
			}
			s.byAddr[e.Addr] = e.ID
		}
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
