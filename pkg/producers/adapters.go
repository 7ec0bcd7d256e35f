package producers

import (
	"slices"
	"sync"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Adapters says where the LoRA adapter of a request is at work, and where there is room for one more. An engine runs a few adapters at
// a time (vLLM: max_loras); a request of another one waits until the last of theirs has ended.
//
// Engines list on their metrics pages the adapters that have requests there (vLLM: lora_requests_info). A list is as old as the last
// scrape, and in that time several requests of one adapter may each go to an engine of their own. So own requests count from the
// decision to the end: an adapter is at work where the list has it or an own request is open, and no longer where the last own request has
// ended since a list was made of an engine that served nobody else. What others send is known by the lists alone, and so is that a name
// is that of an adapter.
type Adapters struct {
	model   plugins.RequestValue[string]
	running plugins.EndpointValues[[]string]
	waiting plugins.EndpointValues[[]string]
	most    plugins.EndpointValues[int32]

	here   plugins.EndpointValues[bool]
	places plugins.EndpointValues[int32]
	claims plugins.RequestValue[plugins.AdapterClaim]

	pools []*adapterPool // by the pool's place in the configuration
}

var (
	_ plugins.Observer = (*Adapters)(nil)
	_ plugins.Claimer  = (*Adapters)(nil)
	_ plugins.Settler  = (*Adapters)(nil)
	_ plugins.Heir     = (*Adapters)(nil)
)

// NewAdapters returns an Adapters.
func NewAdapters() *Adapters { return &Adapters{} }

// Provision says what it reads and makes.
func (a *Adapters) Provision(b *plugins.Builder) error {
	a.model = plugins.Needs(b, plugins.RequestedModel)
	a.running, a.waiting, a.most = plugins.Needs(b, plugins.RunningAdapters), plugins.Needs(b, plugins.WaitingAdapters), plugins.Needs(b, plugins.MaxAdapters)
	a.here, a.places = plugins.Provides(b, plugins.AdapterHere), plugins.Provides(b, plugins.AdapterPlaces)
	a.claims = plugins.Provides(b, plugins.AdapterClaims)
	a.pools = make([]*adapterPool, len(b.Pools))
	for i := range a.pools {
		a.pools[i] = &adapterPool{numbers: map[string]int32{}}
	}
	return nil
}

// Inherit shares what is known of each pool that stays.
func (a *Adapters) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			a.pools[i] = from.(*Adapters).pools[was]
		}
	}
}

// Produce has nothing to add before the books are open.
func (*Adapters) Produce(*plugins.Cycle) {}

// Observe reads the lists that are new, and looks up the request's adapter.
func (a *Adapters) Observe(c *plugins.Cycle, books *pool.Books) {
	a.claims.Set(c.Request, plugins.AdapterClaim{})
	p := a.pools[c.PoolIndex]
	p.mu.Lock()
	defer p.mu.Unlock()
	running, waiting, most := a.running.Of(c), a.waiting.Of(c), a.most.Of(c)
	for _, id := range c.Candidates {
		if running[id] == nil && waiting[id] == nil {
			continue
		}
		if e := p.engine(c.Snapshot.Slots[id].Ref); e.listedAt != books.Samples[id].At {
			e.listedAt, e.most = books.Samples[id].At, most[id]
			e.alone = alone(books, id)
			p.list(e, running[id], waiting[id])
		}
	}
	number, known := p.numbers[a.model.Of(c.Request)]
	if !known {
		return
	}
	a.claims.Set(c.Request, plugins.AdapterClaim{Adapter: number})
	here, places := a.here.Of(c), a.places.Of(c)
	for _, id := range c.Candidates {
		e := p.engine(c.Snapshot.Slots[id].Ref)
		if e.most <= 0 {
			continue
		}
		this, all := e.atWork(number, running[id] != nil || waiting[id] != nil)
		here[id], places[id] = this, max(e.most-all, 0)
	}
}

// alone reports whether an engine has no requests but own ones, as far as its last sample and the books tell.
func alone(books *pool.Books, id pool.ID) bool {
	s := &books.Samples[id]
	return books.Heard[id] == 0 && s.Running >= 0 && s.Waiting >= 0 && s.Running+s.Waiting <= books.Requests[id]
}

// Claim counts the request at the engines that it goes to.
func (a *Adapters) Claim(r *plugins.Request, legs []plugins.Leg, _ *pool.Books) {
	claim := a.claims.Of(r)
	if claim.Adapter == 0 {
		return
	}
	p := a.pools[r.PoolIndex]
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, leg := range legs[:min(len(legs), len(claim.To))] {
		if len(leg.Endpoints) > 0 {
			claim.To[i] = r.Snapshot.Slots[leg.Endpoints[0]].Ref
			p.engine(claim.To[i]).own(claim.Adapter).requests++
		}
	}
	a.claims.Set(r, claim)
}

// Unclaim takes it back.
func (a *Adapters) Unclaim(r *plugins.Request) { a.release(r, 0) }

// Settle counts the request no more.
func (a *Adapters) Settle(r *plugins.Request, o plugins.Outcome) { a.release(r, o.At) }

func (a *Adapters) release(r *plugins.Request, at pool.Instant) {
	claim := a.claims.Of(r)
	if claim.Adapter == 0 {
		return
	}
	p := a.pools[r.PoolIndex]
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, to := range claim.To {
		if to.Incarnation == 0 {
			continue
		}
		claim.To[i] = pool.Ref{}
		if int(to.ID) < len(p.engines) && p.engines[to.ID].incarnation == to.Incarnation {
			own := p.engines[to.ID].own(claim.Adapter)
			own.requests--
			own.ended = max(own.ended, at)
		}
	}
	a.claims.Set(r, claim)
}

// adapterPool is what is known of the adapters of one pool.
type adapterPool struct {
	mu      sync.Mutex
	numbers map[string]int32 // of the names that engines have listed, from 1
	engines []adapterEngine  // by pool.ID
}

// adapterNames bounds how many names of adapters are remembered in a pool; engines tell them, not clients. ownsKept is from how many on the
// own adapters of an engine without requests are forgotten although no list has come.
const (
	adapterNames = 1 << 16
	ownsKept     = 64
)

type adapterEngine struct {
	incarnation uint32
	most        int32        // adapters at a time; 0 is not known
	listedAt    pool.Instant // when the list was made
	listed      []int32      // the adapters on it, each once
	alone       bool         // nobody else had requests there then
	owns        []ownAdapter
}

// ownAdapter counts own requests of an adapter at one engine. It stays without any until a list is younger than the last one's end.
type ownAdapter struct {
	adapter, requests int32
	ended             pool.Instant
}

// engine returns the state of an engine, a new one if it is another than the one that stood there.
func (p *adapterPool) engine(of pool.Ref) *adapterEngine {
	for int(of.ID) >= len(p.engines) {
		p.engines = append(p.engines, adapterEngine{})
	}
	e := &p.engines[of.ID]
	if e.incarnation != of.Incarnation {
		*e = adapterEngine{incarnation: of.Incarnation, listed: e.listed[:0], owns: e.owns[:0]}
	}
	return e
}

// list takes over an engine's lists, and forgets the own adapters of which they know all.
func (p *adapterPool) list(e *adapterEngine, running, waiting []string) {
	e.listed = e.listed[:0]
	for _, names := range [...][]string{running, waiting} {
		for _, name := range names {
			number, known := p.numbers[name]
			switch {
			case !known && len(p.numbers) < adapterNames:
				number = int32(len(p.numbers) + 1)
				p.numbers[name] = number
			case !known:
				continue
			}
			if !slices.Contains(e.listed, number) {
				e.listed = append(e.listed, number)
			}
		}
	}
	e.owns = slices.DeleteFunc(e.owns, func(o ownAdapter) bool { return o.requests == 0 && o.ended <= e.listedAt })
}

// own returns the count of own requests of an adapter.
func (e *adapterEngine) own(adapter int32) *ownAdapter {
	i := slices.IndexFunc(e.owns, func(o ownAdapter) bool { return o.adapter == adapter })
	if i < 0 {
		if len(e.owns) >= ownsKept {
			e.owns = slices.DeleteFunc(e.owns, func(o ownAdapter) bool { return o.requests == 0 })
		}
		i = len(e.owns)
		e.owns = append(e.owns, ownAdapter{adapter: adapter})
	}
	return &e.owns[i]
}

// atWork says whether an adapter is at work, and how many are; the list counts if it is fresh.
func (e *adapterEngine) atWork(adapter int32, fresh bool) (this bool, all int32) {
	for _, o := range e.owns {
		if o.requests > 0 {
			this, all = this || o.adapter == adapter, all+1
		}
	}
	if !fresh {
		return this, all
	}
	for _, number := range e.listed {
		i := slices.IndexFunc(e.owns, func(o ownAdapter) bool { return o.adapter == number })
		if i < 0 || e.owns[i].requests == 0 && !(e.alone && e.owns[i].ended > e.listedAt) {
			this, all = this || number == adapter, all+1
		}
	}
	return this, all
}
