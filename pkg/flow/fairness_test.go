package flow

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// run serves n requests, one after the other, and returns the tokens that each tenant was served, outputs weighted.
func (w *world) run(n int, each func(r *request)) map[string]int64 {
	served := map[string]int64{}
	for range n {
		r := w.went[len(w.went)-1]
		if !r.runs {
			break
		}
		if each != nil {
			each(r)
		}
		w.pass(100 * time.Millisecond)
		served[r.Target.Subscription] += r.tokens + 2*r.output
		w.end(r)
	}
	return served
}

func ratio(served map[string]int64, a, b string) float64 {
	x, y := float64(served[a]), float64(served[b])
	return max(x, y) / min(x, y)
}

// One tenant offers ten times as much as the other. While both wait they are served the same number of tokens, whatever the sizes
// of their requests.
func TestTenantsThatOfferTenToOneAreServedTheSame(t *testing.T) {
	for _, r := range []struct {
		name         string
		loud, quiet  set
		loudN        int
		quietN, runs int
	}{
		{"requests of one size", tokens(500, 200), tokens(500, 200), 2000, 200, 380},
		{"long prompts against short ones", tokens(4000, 100), tokens(200, 150), 1000, 1000, 700},
		{"long answers against long prompts", tokens(100, 900), tokens(3000, 20), 1000, 300, 500},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) {
				s.Default.Fairness, s.Default.MaxRequests, s.Default.TTL = NewTokenDeficit(), 0, 0
			}), 1)
			w.come(tenantIs("first"))
			for range r.loudN {
				w.come(tenantIs("loud"), r.loud)
			}
			for range r.quietN {
				w.come(tenantIs("quiet"), r.quiet)
			}
			served := w.run(r.runs, nil)
			if len(w.c.lines[0].bands[0].waiting) != 2 {
				t.Fatal("both must wait to the end")
			}
			if got := ratio(served, "loud", "quiet"); got > 1.1 {
				t.Errorf("served %v, a ratio of %.2f", served, got)
			}
		})
	}
}

// Answers that take long to end do not let their tenant run ahead, though all are booked for as many tokens: what comes of an answer
// is charged when it goes, and those that went are not forgotten.
func TestLongAnswersDoNotRunAhead(t *testing.T) {
	const running, spans, each = 100, 12, 150
	for _, expects := range []int64{0, 20, 256, 4000} {
		w := newWorld(t, settings(func(s *Settings) {
			s.Detector = &ConcurrencyDetector{MaxConcurrency: running, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
			s.Default.Fairness, s.Default.MaxRequests, s.Default.TTL = NewTokenDeficit(), 0, 0
		}), 1)
		booked := func(r *request) { r.expects = expects }
		for range 3000 {
			w.come(tenantIs("long"), tokens(100, 500), booked)
			w.come(tenantIs("short"), tokens(1000, 60), booked)
		}
		served := map[string]int64{}
		for span := range spans {
			clear(served)
			for range each {
				i := slices.IndexFunc(w.went, func(r *request) bool { return r.runs })
				w.end(w.went[i]) // the one that went first
				r := w.went[len(w.went)-1]
				served[r.Target.Subscription] += r.tokens + 2*r.output
			}
			if got := ratio(served, "long", "short"); span >= spans/2 && !(got < 1.3) {
				t.Errorf("booked for %d tokens each, span %d: served %v, a ratio of %.2f", expects, span, served, got)
			}
		}
	}
}

// The bound that the comment of TokenDeficit states: who waits is served again before the others were served more than
// n·(quantum + largest request) tokens.
func TestNobodyStarvesUnderTokenDeficit(t *testing.T) {
	const tenants, largest = 8, 6000
	p := NewTokenDeficit()
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness, s.Default.MaxRequests, s.Default.TTL = p, 0, 0 }), 1)
	w.come(tenantIs("first"))
	for i := range 400 {
		for n := range tenants {
			in := int64(1 + (i*7919+n*104729)%largest)
			w.come(tenantIs(string(rune('a'+n))), tokens(in, 0))
		}
	}
	since := map[string]int64{}
	bound := tenants * (p.QuantumTokens + largest)
	w.run(tenants*200, func(r *request) {
		id := r.Target.Subscription
		if id == "first" {
			return // it does not wait
		}
		for other := range since {
			if other != id {
				since[other] += r.tokens
				if since[other] > bound {
					t.Fatalf("%s waits while the others are served %d tokens, more than %d", other, since[other], bound)
				}
			}
		}
		since[id] = 0
	})
}

func TestWeightsOfTenants(t *testing.T) {
	p := NewTokenDeficit()
	p.Weights = map[string]float64{"gold": 3}
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness, s.Default.MaxRequests, s.Default.TTL = p, 0, 0 }), 1)
	w.come(tenantIs("first"))
	for range 600 {
		w.come(tenantIs("gold"), tokens(700, 0))
		w.come(tenantIs("plain"), tokens(700, 0))
	}
	served := w.run(400, nil)
	if got := float64(served["gold"]) / float64(served["plain"]); got < 2.7 || got > 3.3 {
		t.Errorf("gold was served %.2f times as much as plain, want 3", got)
	}
}

// Who comes back after a while has no credit from the time when it did not wait.
func TestCreditIsNotBanked(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness, s.Default.MaxRequests, s.Default.TTL = NewTokenDeficit(), 0, 0 }), 1)
	w.come(tenantIs("busy"))
	for range 300 {
		w.come(tenantIs("busy"), tokens(1000, 0))
	}
	w.come(tenantIs("rare"), tokens(10, 0))
	w.run(200, nil) // rare went long ago
	for range 50 {
		w.come(tenantIs("rare"), tokens(1000, 0))
	}
	served := w.run(40, nil)
	if got := ratio(served, "busy", "rare"); got > 1.6 {
		t.Errorf("served %v: rare took what it had not used before", served)
	}
}

// A tenant that had more than its share of an endpoint goes elsewhere while others wait.
func TestAnEndpointIsSharedWhileOthersWait(t *testing.T) {
	p := NewTokenDeficit()
	p.EndpointQuantumTokens = 3000
	f := &Flow{ID: "a"}
	here, there := pool.Ref{ID: 0, Incarnation: 1}, pool.Ref{ID: 1, Incarnation: 1}
	for range 4 {
		p.Booked(f, here, pool.Load{UncachedPrefill: 1000}, 0)
	}
	if !p.Barred(f, here, 2) || p.Barred(f, there, 2) {
		t.Error("4000 tokens at one endpoint bar it and no other")
	}
	if p.Barred(f, here, 1) {
		t.Error("the only endpoint is barred")
	}
	p.Relent(f)
	if p.Barred(f, here, 2) {
		t.Error("it is barred still")
	}
}

func TestOrders(t *testing.T) {
	slo := func(ms string) set { return header("x-llm-d-slo-ttft-ms", ms) }
	old := func(ms string) set { return header("x-slo-ttft-ms", ms) }
	for _, r := range []struct {
		name  string
		by    Ordering
		sets  []set
		wants []int // indexes in the order in which they go
	}{
		{"first come, first served", NewFCFS(), []set{slo("900"), slo("100"), tokens(1, 1)}, []int{0, 1, 2}},
		{"earliest deadline first is the order of arrival within a band", NewEDF(), []set{slo("900"), slo("100"), tokens(1, 1)}, []int{0, 1, 2}},
		{"by the first token that is wanted", NewSLODeadline(), []set{tokens(1, 1), slo("900"), slo("100"), slo("junk")}, []int{2, 1, 0, 3}},
		{"the header's older name", NewSLODeadline(), []set{slo("900"), old("100"), tokens(1, 1)}, []int{1, 0, 2}},
		{"less than a millisecond is a target", NewSLODeadline(), []set{slo("900"), slo("1"), slo("0.5"), slo("0")}, []int{2, 1, 0, 3}},
		{"a number that is too large asks for nothing", NewSLODeadline(), []set{slo("9223372036854775807"), slo("1e300"), slo("-5"), slo("NaN"), slo("5000")}, []int{4, 0, 1, 2, 3}},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) { s.Default.Ordering = r.by }), 1)
			w.come()
			var all []*request
			for _, s := range r.sets {
				all = append(all, w.come(s))
			}
			w.run(len(all)+1, nil)
			for i, want := range r.wants {
				if w.went[i+1] != all[want] {
					t.Errorf("place %d is not that of request %d", i, want)
				}
			}
		})
	}
}

// A request whose first token is wanted by a time that has passed is not served for nothing.
func TestWhoIsLateIsDroppedWhenItsTurnComes(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.DropLate = true }), 1)
	first := w.come()
	late, soon := w.come(header("x-llm-d-slo-ttft-ms", "500")), w.come(header("x-llm-d-slo-ttft-ms", "5000"))
	w.pass(time.Second)
	w.end(first)
	if late.no == nil || late.no.ID.Row().Status != 429 || !soon.runs {
		t.Errorf("the late one got %v, the other runs: %v", late.no, soon.runs)
	}
	w.wantWaiting(0)
}

func TestProgramsThatWereServedLeastGoFirst(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness = NewProgramAware() }), 1)
	light := w.come(tenantIs("light"), tokens(10, 10)) // neither waits, and both count
	w.end(light)
	heavy := w.come(tenantIs("heavy"), tokens(9000, 900))
	w.end(heavy)
	first := w.come()
	a, b := w.come(tenantIs("heavy")), w.come(tenantIs("light"))
	w.end(first)
	if a.runs || !b.runs {
		t.Error("the one that was served more went first")
	}
}

// Who goes first among programs, by what each was served some time ago and how long each has waited. a comes before b by name.
func TestProgramsByServiceAndWaiting(t *testing.T) {
	type program struct {
		served int64         // tokens
		ago    time.Duration // when
		waits  time.Duration
	}
	for _, r := range []struct {
		name   string
		change func(*ProgramAware)
		a, b   program
		wants  string
	}{
		{"equals, by their names", nil, program{}, program{}, "a"},
		{"less was served", nil, program{served: 2000}, program{served: 1000}, "b"},
		{"who waits long makes up for a little", nil, program{served: 2000, waits: 10 * time.Second}, program{served: 1800, waits: time.Second}, "a"},
		{"but not for much", nil, program{served: 2000, waits: 10 * time.Second}, program{served: 200, waits: time.Second}, "b"},
		{"waiting has no weight", func(p *ProgramAware) { p.LASWeightHeadWait = 0 }, program{served: 2000, waits: 10 * time.Second}, program{served: 1800, waits: time.Second}, "b"},
		{"waiting alone has", func(p *ProgramAware) { p.LASWeightService = 0 }, program{served: 9000, waits: 10 * time.Second}, program{waits: time.Second}, "a"},
		{"what was served is halved in a minute", nil, program{served: 3000}, program{served: 5000, ago: time.Minute}, "b"},
		{"by its half-life", func(p *ProgramAware) { p.LASHalfLifeSeconds = 600 }, program{served: 3000}, program{served: 5000, ago: time.Minute}, "a"},
		{"without one it lasts", func(p *ProgramAware) { p.LASHalfLifeSeconds = 0 }, program{served: 3000}, program{served: 5000, ago: 59 * time.Minute}, "a"},
		{"until it is forgotten", func(p *ProgramAware) { p.LASHalfLifeSeconds = 0 }, program{served: 3000}, program{served: 5000, ago: 61 * time.Minute}, "b"},
		{"which may be sooner", func(p *ProgramAware) { p.LASHalfLifeSeconds, p.EvictionTTLSeconds = 0, 60 }, program{served: 3000}, program{served: 5000, ago: 61 * time.Second}, "b"},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := NewProgramAware()
			if r.change != nil {
				r.change(p)
			}
			now := pool.Instant(3 * time.Hour)
			b := &Band{}
			for id, of := range map[string]program{"a": r.a, "b": r.b} {
				f := &Flow{ID: id}
				p.Settled(f, Served{Prompt: of.served}, now-pool.Instant(of.ago))
				f.heap = []*item{{at: now - pool.Instant(of.waits)}}
				b.stands(f)
			}
			if got := p.Next(b, now, 0); got.ID != r.wants {
				t.Errorf("%s goes first, want %s", got.ID, r.wants)
			}
		})
	}
}

// What a program was served is remembered for as long as its policy says, though none of its requests waits meanwhile.
func TestAProgramIsRemembered(t *testing.T) {
	for passes, heavier := range map[time.Duration]bool{50 * time.Minute: true, 70 * time.Minute: false} {
		p := NewProgramAware()
		p.LASHalfLifeSeconds = 0
		w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness = p }), 1)
		w.end(w.come(tenantIs("a"), tokens(9000, 900)))
		w.end(w.come(tenantIs("b"), tokens(10, 10)))
		w.pass(passes)
		running := w.come()
		w.cancel(w.come(tenantIs("c"))) // the sweep runs
		a, b := w.come(tenantIs("a")), w.come(tenantIs("b"))
		w.end(running)
		if b.runs != heavier || a.runs == heavier {
			t.Errorf("after %v: a runs %v, b runs %v; a was served more, which is remembered for an hour", passes, a.runs, b.runs)
		}
	}
}

// A debt halves with each minute in which its tenant does not wait, and a credit is not kept.
func TestADebtIsForgivenByItsAge(t *testing.T) {
	p := NewTokenDeficit()
	for _, r := range []struct {
		was     int64
		minutes float64
		wants   int64
	}{
		{-8000, 0.9, -8000}, {-8000, 1, -4000}, {-8000, 3.5, -1000}, {-8000, 1000, 0}, {500, 0, 0}, {500, 2, 0},
	} {
		f := &Flow{ID: "a", deficit: r.was, emptied: second}
		p.Came(f, second+pool.Instant(r.minutes*float64(time.Minute)))
		if f.deficit != r.wants {
			t.Errorf("%d after %v minutes is %d, want %d", r.was, r.minutes, f.deficit, r.wants)
		}
	}
}

// A tenant whose every endpoint with room had its share of it goes all the same, and what it was served there is forgotten.
func TestATenantThatHadItsShareEverywhereGoes(t *testing.T) {
	p := NewTokenDeficit()
	p.EndpointQuantumTokens = 1000
	w := newWorld(t, settings(func(s *Settings) {
		s.Default.Fairness, s.Detector, s.Patient = p, &LoadDetector{MaxPending: 1, MaxKVUsage: 1}, true
		s.LookAhead, s.MostPassed, s.Patience = 4, 4, time.Hour
	}), 2)
	w.come(bestAt(1))
	first := w.come(bestAt(2))
	a, _ := w.come(tenantIs("a"), tokens(5000, 0), bestAt(2)), w.come(tenantIs("b"), tokens(10, 0))
	f := w.c.lines[0].bands[0].flows["a"]
	for _, e := range w.p.Snapshot().Slots {
		f.at = append(f.at, spent{e.Ref, 5000})
	}
	w.end(first)
	if !a.runs {
		t.Fatal("it does not run though there is room")
	}
	if len(f.at) != 1 || f.at[0].tokens != 5000 {
		t.Errorf("it counts as served %v, want what it was served now alone", f.at)
	}
}

// Weights at their bounds and answers of any length do not overflow an account.
func TestAccountsDoNotOverflow(t *testing.T) {
	p := NewTokenDeficit()
	p.QuantumTokens, p.OutputWeight, p.Weights = 1<<20, 100, map[string]float64{"a": mostWeight, "b": leastWeight}
	for shift := range 40 {
		b := &Band{}
		a, c := &Flow{ID: "a", deficit: -1, heap: []*item{{}}}, &Flow{ID: "b", deficit: -(1<<20 + 12345<<shift), heap: []*item{{}}}
		b.stands(a)
		b.stands(c)
		a.park(7) // so that the other sets the number of rounds
		if got := p.Next(b, 0, 7); got != c || a.deficit != p.quantum(a) || c.deficit <= 0 {
			t.Errorf("1<<%d: next is %v, with %d and %d", shift, got, a.deficit, c.deficit)
		}
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness = NewRoundRobin() }), 1)
	w.come(tenantIs("z"))
	for range 3 {
		for _, id := range []string{"b", "a", "c"} {
			w.come(tenantIs(id))
		}
	}
	w.run(10, nil)
	got := ""
	for _, r := range w.went[1:] {
		got += r.Target.Subscription
	}
	if got != "abcabcabc" {
		t.Errorf("went %s, want abcabcabc", got)
	}
}
