package pool

import (
	"net/netip"
	"testing"
	"time"
)

func named(name, addr string, change ...func(*Endpoint)) Endpoint {
	e := Endpoint{Namespace: "n", Name: name, Addr: netip.MustParseAddrPort(addr)}
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestSlotsAreStableAndReused(t *testing.T) {
	p := New("a", nil)
	at := func(name string) (r Ref) {
		s := p.Snapshot()
		for _, id := range s.Members {
			if s.Slots[id].Name == name {
				r = s.Slots[id].Ref
			}
		}
		return r
	}
	a, b, c, d := named("a", "10.0.0.1:80"), named("b", "10.0.0.2:80"), named("c", "10.0.0.3:80"), named("d", "10.0.0.4:80")
	p.Update(0, []Endpoint{a, b, c})
	if at("a") != (Ref{0, 1}) || at("b") != (Ref{1, 1}) || at("c") != (Ref{2, 1}) {
		t.Fatalf("%v %v %v", at("a"), at("b"), at("c"))
	}
	p.Update(1, []Endpoint{c, a}) // the order is no news
	if s := p.Snapshot(); at("c") != (Ref{2, 1}) || s.Slots[1].Incarnation != 0 || len(s.Members) != 2 || s.Members[0] != 0 || s.Members[1] != 2 {
		t.Fatalf("%+v", s)
	}
	p.Update(2, []Endpoint{a, c, d})
	if at("d") != (Ref{1, 2}) {
		t.Errorf("the vacant slot is not reused: %v", at("d"))
	}
	p.Update(3, []Endpoint{a, b, c, d})
	if at("b") != (Ref{3, 1}) {
		t.Errorf("one that returns: %v", at("b"))
	}
	a.Addr = netip.MustParseAddrPort("10.0.0.9:80")
	p.Update(4, []Endpoint{a, b, c, d})
	if at("a") != (Ref{0, 2}) {
		t.Errorf("one with another address: %v", at("a"))
	}
	if _, ok := p.Snapshot().Lookup(netip.MustParseAddrPort("10.0.0.1:80")); ok {
		t.Error("the old address is still found")
	}
}

func TestASnapshotIsMadeForAChangeAlone(t *testing.T) {
	p := New("a", nil)
	if p.Snapshot().Version != 0 {
		t.Error("a pool begins with a membership")
	}
	label := func(v string) func(*Endpoint) {
		return func(e *Endpoint) { e.Labels = map[string]string{"x": v} }
	}
	drain := func(e *Endpoint) { e.Draining = true }
	steps := []struct {
		name    string
		members []Endpoint
		version uint64
	}{
		{"the first, though empty", nil, 1},
		{"the same", []Endpoint{}, 1},
		{"one joins", []Endpoint{named("a", "10.0.0.1:80", label("1"))}, 2},
		{"the same in other maps", []Endpoint{named("a", "10.0.0.1:80", label("1"))}, 2},
		{"another label", []Endpoint{named("a", "10.0.0.1:80", label("2"))}, 3},
		{"it drains", []Endpoint{named("a", "10.0.0.1:80", label("2"), drain)}, 4},
		{"another takes its place", []Endpoint{named("b", "10.0.0.1:80")}, 5},
		{"it leaves", nil, 6},
	}
	for _, s := range steps {
		before := p.Snapshot()
		p.Update(1, s.members)
		if got := p.Snapshot(); got.Version != s.version || (got != before) != (got.Version != before.Version) {
			t.Errorf("%s: version %d, want %d", s.name, got.Version, s.version)
		}
	}
}

func TestBooksAndSampleStayWithTheEndpoint(t *testing.T) {
	p := New("a", nil)
	p.Update(0, []Endpoint{named("a", "10.0.0.1:80")})
	ref := p.Snapshot().Slots[0].Ref
	h := book(p, 1, ref, Load{UncachedPrefill: 10, Decode: 10}, 1000)
	s := NoSample()
	s.At, s.Waiting = 2, 4
	p.Observe(2, ref, s)
	p.Update(3, []Endpoint{named("b", "10.0.0.2:80"), named("a", "10.0.0.1:80", func(e *Endpoint) { e.Draining = true })})
	if got := sampleOf(p, 0); got.Waiting != 4 || row(p).Requests != 1 || p.Snapshot().Slots[0].Ref != ref {
		t.Errorf("it drains: sample %+v, books %+v", got, row(p))
	}
	if got := sampleOf(p, 1); got.At != 0 || got.Waiting != -1 || got.KVUsage != -1 {
		t.Errorf("a new endpoint has the sample %+v", got)
	}
	p.Update(4, []Endpoint{named("b", "10.0.0.2:80")})
	if p.End(5, h) || p.Open() != 0 {
		t.Error("its booking outlived it")
	}
	p.Update(6, []Endpoint{named("b", "10.0.0.2:80"), named("c", "10.0.0.1:80")})
	if got := sampleOf(p, 0); got.At != 0 || row(p).Requests != 0 || row(p).Ends != 0 {
		t.Errorf("who follows in its slot has sample %+v and books %+v", got, row(p))
	}
	p.Observe(7, ref, s)
	if p.SetPrefillPerToken(ref, time.Hour); sampleOf(p, 0).At != 0 {
		t.Error("a page of the one that left counts for who follows")
	}
}

func TestUpdateMendsMembers(t *testing.T) {
	var sink noted
	p := New("a", &sink)
	p.Update(0, []Endpoint{
		named("a", "[::ffff:10.0.0.1]:80", func(e *Endpoint) { e.Ref = Ref{7, 7} }),
		named("a", "10.0.0.2:80"),
		named("b", "10.0.0.1:80"),
		named("c", "[fd00::1]:80", func(e *Endpoint) { e.Metrics = netip.MustParseAddrPort("[fd00::1]:90") }),
	})
	s := p.Snapshot()
	if len(s.Members) != 2 || len(sink) != 2 ||
		sink[0] != "discovery_refused pool a: endpoint n/a at 10.0.0.2:80: another member has the same name or address; the first counts" {
		t.Fatalf("members %v, noted %q", s.Members, sink)
	}
	if a := s.Slots[0]; a.Ref != (Ref{0, 1}) || a.Addr.String() != "10.0.0.1:80" || a.Metrics != a.Addr {
		t.Errorf("%+v", a)
	}
	if c := s.Slots[1]; c.Metrics.Port() != 90 {
		t.Errorf("%+v", c)
	}
	for _, row := range []struct {
		addr string
		id   ID
		ok   bool
	}{
		{"10.0.0.1:80", 0, true},
		{"[::ffff:10.0.0.1]:80", 0, true},
		{"[fd00::1]:80", 1, true},
		{"10.0.0.1:81", 0, false},
		{"10.0.0.2:80", 0, false},
		{"[fd00::1]:90", 0, false},
	} {
		if id, ok := s.Lookup(netip.MustParseAddrPort(row.addr)); id != row.id || ok != row.ok {
			t.Errorf("%s: %v %v", row.addr, id, ok)
		}
	}
}

func TestSampleState(t *testing.T) {
	tests := []struct {
		name string
		at   Instant
		now  Instant
		want State
	}{
		{"never asked", 0, 100, Never},
		{"just now", 100, 100, Fresh},
		{"at the bound", 100, 150, Fresh},
		{"one beyond", 100, 151, Stale},
		{"asked after now, on another processor", 101, 100, Fresh},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Sample{At: tt.at}
			if got := s.State(tt.now, 50); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if p := New("a", nil); p.StaleAfter() != 5*time.Second {
		t.Errorf("the bound is %v", p.StaleAfter())
	}
	if p := (Options{StaleAfter: time.Minute}).New("a", nil); p.StaleAfter() != time.Minute {
		t.Errorf("the bound is %v", p.StaleAfter())
	}
	p, refs := of(1, Options{})
	p.Observe(0, refs[0], Sample{}) // in virtual time an engine may be asked at 0
	if s := sampleOf(p, 0); s.State(0, time.Second) != Fresh {
		t.Errorf("asked at 0: %+v", s)
	}
}
