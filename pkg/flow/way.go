package flow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// bound is one of those on what waits.
type bound struct {
	by    measure
	whole bool   // of all bands and pools together
	says  string // after the number
}

// bounds are all of them.
var bounds = [...]bound{
	{byRequests, false, "requests of this priority wait already (maxRequests of its band)"},
	{byBytes, false, "bytes of requests of this priority may wait (maxBytes of its band)"},
	{byRequests, true, "requests wait already (maxRequests)"},
	{byBytes, true, "bytes of requests may wait (maxBytes)"},
}

// way is for what a request gave way.
type way struct {
	bound int   // index of the one that is reached
	most  int64 // that it lets wait
	above bool  // another band is to have the place; else another tenant
}

// most returns how much a bound lets wait; 0 for any number.
func (c *Control) most(b *Band, of bound) int64 {
	switch {
	case of.whole && of.by == byBytes:
		return c.rules().MaxBytes
	case of.whole:
		return c.rules().MaxRequests
	case of.by == byBytes:
		return b.MaxBytes
	}
	return b.MaxRequests
}

// excess returns by how much a bound is exceeded with one request more; 0 or less where it is not.
func (c *Control) excess(it *item, of bound) int64 {
	most, has := c.most(it.band, of), it.band.holds[of.by]
	if of.whole {
		has = c.holds[of.by]
	}
	if most <= 0 {
		return 0
	}
	return has + of.by.of(it) - most
}

// makeWay has others give way to one that comes, as many as the bounds demand, or says which bound it is refused by. Nobody gives
// way for one that is refused.
//
//   - Where all that wait reach a bound, those of lower bands go first, the lowest band before others; of bands that share by weight,
//     those of the band that holds most for its weight, if that is more than the band of the newcomer would.
//   - Among tenants that are told apart the one goes without that holds most, if that is more than the tenant of the newcomer would hold
//     with it; so none can take the places of the others, and one that holds none has one for as long as there are more places than
//     tenants. Flows of one priority are compared over all pools where the bound is that of all.
//
// It costs O(log n) for each that goes, and a look at each band where a bound of all is reached; a place that is taken back was given once.
func (c *Control) makeWay(now pool.Instant, it *item) (why string) {
	var from [len(bounds)]source
	for i, of := range bounds {
		if over := c.excess(it, of); over > 0 {
			if from[i] = c.source(it, of, over); from[i] == 0 {
				return fmt.Sprintf("%d %s", c.most(it.band, of), of.says)
			}
		}
	}
	for i, of := range bounds {
		for c.excess(it, of) > 0 {
			goes, above := c.goesFor(it, of, from[i])
			if goes == nil { // those that would are being decided
				return fmt.Sprintf("%d %s", c.most(it.band, of), of.says)
			}
			c.out(now, goes)
			goes.way = way{bound: i, most: c.most(it.band, of), above: above}
			c.over.add(goes, causeWay)
		}
	}
	return ""
}

// source is who may give way to a newcomer; 0 for nobody.
type source uint8

const (
	lowerBands source = 1 << iota
	heaviestBand
	tenants
)

// source returns who may be asked for over of what a newcomer needs.
func (c *Control) source(it *item, of bound, over int64) (from source) {
	size := of.by.of(it)
	if of.whole && c.rules().Weighted {
		if b := c.heaviest(it, of.by); b != nil && float64(it.band.holds[of.by]+size)/it.band.Weight <= float64(b.holds[of.by]-over)/b.Weight {
			return heaviestBand
		}
	} else if of.whole {
		for _, b := range c.lower(it.band) {
			over -= b.holds[of.by]
		}
		if from = lowerBands; over <= 0 {
			return from
		}
	}
	own, sum, flows, most := int64(0), int64(0), int64(0), int64(0)
	if f := c.holder(it); f == nil || f.holds[byRequests] == 0 {
		flows = 1
	} else {
		own = f.holds[of.by]
	}
	peers := c.peers(it.band, of.whole)
	for _, b := range peers {
		if f := b.crowds[of.by].most(); f != nil {
			most = max(most, f.holds[of.by])
		}
		sum, flows = sum+b.holds[of.by], flows+int64(len(b.crowds[of.by]))
	}
	if len(peers) > 0 && (own+size <= most-over || own+size <= (sum+size-over)/flows) {
		return from | tenants
	}
	return 0
}

// goesFor returns who gives way next, and whether for the sake of another band.
func (c *Control) goesFor(it *item, of bound, from source) (goes *item, above bool) {
	if from&lowerBands != 0 {
		for _, b := range c.lower(it.band) {
			if f := b.crowds[of.by].most(); f.holds[of.by] > 0 {
				if goes = f.gives(); goes != nil {
					return goes, true
				}
			}
		}
	}
	if from&heaviestBand != 0 {
		if b := c.heaviest(it, of.by); b != nil {
			return b.crowds[of.by].most().gives(), true
		}
	}
	if from&tenants == 0 {
		return nil, false
	}
	own, most := c.holder(it), (*Flow)(nil)
	for _, b := range c.peers(it.band, of.whole) {
		if f := b.crowds[of.by].most(); f != nil && f != own && (most == nil || f.holds[of.by] > most.holds[of.by]) {
			most = f
		}
	}
	if most == nil {
		return nil, false
	}
	return most.gives(), false
}

// holder returns the flow in which the request is to wait; nil if it is to be made.
func (c *Control) holder(it *item) *Flow {
	f := it.band.flows[tenant(it.r)]
	if f == nil && len(it.band.flows) >= c.rules().MaxFlows {
		f = it.band.flows[sharedFlow]
	}
	return f
}

// peers are the bands whose tenants share places with those of b: it alone, or those of its priority in all pools. There are none
// where tenants are not told apart.
func (c *Control) peers(b *Band, all bool) (peers []*Band) {
	if _, ok := b.Fairness.(Tenantless); ok {
		return nil
	}
	if !all {
		return []*Band{b}
	}
	for _, l := range c.lines {
		for _, o := range l.bands {
			if _, ok := o.Fairness.(Tenantless); !ok && o.Priority == b.Priority {
				peers = append(peers, o)
			}
		}
	}
	return peers
}

// lower returns the bands of all pools that are lower than b and in which somebody waits, lowest first.
func (c *Control) lower(b *Band) (lower []*Band) {
	for _, l := range c.lines {
		for i := len(l.bands) - 1; i >= 0 && l.bands[i].Priority < b.Priority; i-- {
			if l.bands[i].holds[byRequests] > 0 {
				lower = append(lower, l.bands[i])
			}
		}
	}
	slices.SortStableFunc(lower, func(a, o *Band) int { return cmp.Compare(a.Priority, o.Priority) })
	return lower
}

// heaviest returns the band, other than that of it, that holds most for its weight; nil if no other holds anything.
func (c *Control) heaviest(it *item, by measure) (most *Band) {
	for _, l := range c.lines {
		for _, b := range l.bands {
			if b != it.band && b.holds[byRequests] > 0 && (most == nil || float64(b.holds[by])/b.Weight > float64(most.holds[by])/most.Weight) {
				most = b
			}
		}
	}
	return most
}

// gaveWay is the refusal for one that did.
func (it *item) gaveWay(waited time.Duration) *reason.Refusal {
	who := "its tenant has the most of them"
	if it.way.above {
		who = "one of another priority goes before it"
	}
	id, where := reason.GaveWay, ""
	if it.line.vacant.empty {
		id, where = reason.NoEndpoint, "its pool has none, "
	}
	return reason.Refuse(id, "%sit waited %v; %d %s, and %s", where, waited, it.way.most, bounds[it.way.bound].says, who)
}
