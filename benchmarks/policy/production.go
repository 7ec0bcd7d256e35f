package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Production decides with the production scheduler.
type Production struct {
	scheduler *exchange.Scheduler
	built     *plugins.Built
	pool      *pool.Pool
	open      map[uint64]*request
	woken     []uint64
	usage     openai.Usage // of the request that ends
	meter     exchange.Meter
	noted     map[string]int
	tenants   []string // their names, by number
	wishes    map[wish]openai.Headers
}

// wish is what a client says that it wants.
type wish struct{ ttft, itl time.Duration }

// request is one that the scheduler has not finished with.
type request struct {
	x      *exchange.Exchange
	by     *Production
	number uint64
	at     exchange.Action
}

// Wake has the request asked for in Due.
func (r *request) Wake() { r.by.woken = append(r.by.woken, r.number) }

var _ fleet.Decider = (*Production)(nil)

func newProduction(file *config.File, seed uint64, set func(*exchange.Options)) (*Production, error) {
	built, problems := file.Build()
	if built == nil {
		return nil, fmt.Errorf("policy %q: %s", file.Name, joined(problems))
	}
	if n := len(built.Plans); n != 1 {
		return nil, fmt.Errorf("policy %q: %d pools; a simulated fleet is one pool", file.Name, n)
	}
	p := &Production{built: built, noted: map[string]int{}, open: map[uint64]*request{}, wishes: map[wish]openai.Headers{}}
	p.pool = pool.New(built.Plans[0].Pool.Name, p)
	o := exchange.Defaults()
	o.Built, o.Pools, o.Seed = built, []*pool.Pool{p.pool}, seed
	o.RecordEvery, o.RecordRing = 0, 0
	o.Meter, o.Sink = meters{p}, p
	if set != nil {
		set(&o)
	}
	var err error
	p.scheduler, err = exchange.New(o)
	return p, err
}

// Note counts a reason. It implements reason.Sink.
func (p *Production) Note(id reason.ID, _ string) { p.noted[id.String()]++ }

// Noted returns how often each reason was noted, by code.
func (p *Production) Noted() map[string]int { return p.noted }

// Members tells the membership.
func (p *Production) Members(now pool.Instant, m []pool.Endpoint) { p.pool.Update(now, m) }

// Observe brings a reading.
func (p *Production) Observe(now pool.Instant, member int32, s pool.Sample) {
	snapshot := p.pool.Snapshot()
	if id, ok := snapshot.Lookup(fleet.Addr(member)); ok {
		p.pool.Observe(now, snapshot.Slots[id].Ref, s)
	}
}

// Arrive decides.
func (p *Production) Arrive(now pool.Instant, number uint64, from *fleet.Request, s *openai.Summary) fleet.Answer {
	r := &request{by: p, number: number}
	r.x = p.scheduler.Begin(now, r)
	p.open[number] = r
	return p.answer(r, r.x.Described(now, s, p.said(from)))
}

// said is what the request's headers would say.
func (p *Production) said(r *fleet.Request) exchange.Said {
	for int(r.Tenant) >= len(p.tenants) {
		p.tenants = append(p.tenants, "tenant-"+strconv.Itoa(len(p.tenants)))
	}
	out := exchange.Said{FairnessID: p.tenants[r.Tenant], Priority: r.Priority}
	if w := (wish{r.TTFT, r.ITL}); w != (wish{}) {
		h, known := p.wishes[w]
		if !known {
			for _, one := range []struct {
				name  string
				value time.Duration
			}{{"x-llm-d-slo-ttft-ms", w.ttft}, {"x-llm-d-slo-tpot-ms", w.itl}} {
				if one.value > 0 {
					h = append(h, openai.Header{Name: one.name, Value: strconv.FormatFloat(float64(one.value)/1e6, 'f', -1, 64)})
				}
			}
			p.wishes[w] = h
		}
		out.Headers = h
	}
	return out
}

func (p *Production) answer(r *request, a exchange.Action) fleet.Answer {
	switch a.Do {
	case exchange.Forward:
		r.at = a
		return fleet.Answer{Number: r.number, To: fleet.Member(a.To[0])}
	case exchange.Hold:
		return fleet.Answer{Number: r.number, Held: true}
	}
	delete(p.open, r.number)
	code := "refused"
	if a.Reply != nil && a.Reply.Details != "" {
		code = a.Reply.Details
	}
	return fleet.Answer{Number: r.number, Refused: code}
}

// Unreachable walks the list of destinations.
func (p *Production) Unreachable(now pool.Instant, number uint64, member int32) fleet.Answer {
	r := p.open[number]
	return p.answer(r, r.x.Failed(now, fleet.Addr(member), reason.UpstreamUnreachable))
}

// FirstToken says that the answer began.
func (p *Production) FirstToken(now pool.Instant, number uint64) {
	r := p.open[number]
	r.x.Response(now, nil, r.at.To[0], false)
}

// Finish says that the answer ended.
func (p *Production) Finish(now pool.Instant, number uint64, u openai.Usage, clean bool) {
	r := p.open[number]
	delete(p.open, number)
	p.usage = u
	r.x.End(now, exchange.Ending{Clean: clean, Usage: &p.usage})
}

// Due acts on deadlines and fetches what was decided for those that were woken.
func (p *Production) Due(now pool.Instant, released []fleet.Answer) ([]fleet.Answer, pool.Instant) {
	next := p.scheduler.Tick(now)
	for i := 0; i < len(p.woken); i++ {
		r := p.open[p.woken[i]]
		if r == nil {
			continue
		}
		if a := r.x.Resume(now); a.Do == exchange.Forward || a.Do == exchange.Reply {
			released = append(released, p.answer(r, a))
		}
	}
	p.woken = p.woken[:0]
	return released, next
}

// Left says what is still booked or under way, empty for nothing: after the last request of a run nothing may be.
func (p *Production) Left() string {
	var left []string
	say := func(what string, n int64) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%s %d", what, n))
		}
	}
	say("requests", int64(len(p.open)))
	say("exchanges", int64(p.scheduler.Open()))
	say("bookings", int64(p.pool.Open()))
	p.pool.Decide(func(s *pool.Snapshot, b *pool.Books) {
		for id := range s.Slots {
			at := s.Slots[id].Name + ": "
			say(at+"booked requests", int64(b.Requests[id]))
			say(at+"without first byte", int64(b.NoFirstByte[id]))
			say(at+"after the last reading", int64(b.AfterSample[id]))
			say(at+"prefill tokens", b.PrefillTokens[id])
			say(at+"decode tokens", b.DecodeTokens[id])
		}
	})
	if q, ok := p.built.Queue().(*flow.Queue); ok {
		s := q.Stats(0)
		say("queue: requests", s.Requests)
		say("queue: bytes", s.Bytes)
		say("queue: places", s.Places)
		say("queue: deadline", int64(q.Deadline()))
	}
	if !p.scheduler.Quiet() {
		left = append(left, "deadlines")
	}
	return strings.Join(left, ", ")
}

func (p *Production) production() *Production { return p }

// Built returns the configuration that decides.
func (p *Production) Built() *plugins.Built { return p.built }

// Meter has m told what the scheduler's meter is told.
func (p *Production) Meter(m exchange.Meter) { p.meter = m }

// meters passes on to the decider's meter, if it has one.
type meters struct{ of *Production }

func (m meters) Decided(r exchange.Metered, refused reason.ID, wait pool.Instant) {
	if m.of.meter != nil {
		m.of.meter.Decided(r, refused, wait)
	}
}

func (m meters) Settled(r exchange.Metered, o plugins.Outcome) {
	if m.of.meter != nil {
		m.of.meter.Settled(r, o)
	}
}

// Open returns how many requests are booked, for tests of what always holds.
func (p *Production) Open() int { return p.pool.Open() }
