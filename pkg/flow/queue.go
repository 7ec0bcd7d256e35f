package flow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Queue holds requests while their pool is full, and lets them go by priority, tenant and order when there is room. A request
// whose pool has room passes at once.
//
// Higher priorities go first; those of a priority wait in its band. Within a band the tenants that wait share by a fairness
// policy, and the requests of a tenant go in the order of an ordering policy. A request is decided when its turn comes, with
// what is known then.
//
// Everything is bounded: a request that finds a bound reached, and nobody that gives way to it, is refused with 429, and with 503 while
// its pool has no endpoint; so is one that gives way, and one that waits too long. The refusal names the bound and says when to try again.
type Queue struct {
	// MaxRequests bounds the requests that wait, in all bands together. Beyond it lower priorities give way to higher ones, and of one
	// priority the tenant that has most to one that has less than its share; who finds nobody that gives way is refused. 0 is no bound.
	MaxRequests plugins.Quantity `json:"maxRequests" schema:"min=0"`

	// MaxBytes bounds the bytes of their bodies, likewise. 0 is no bound.
	MaxBytes plugins.Quantity `json:"maxBytes" schema:"min=0"`

	// DefaultRequestTTL is how long a request waits for room; then it is refused with 429. The time in which its pool has no endpoint,
	// and so nobody to wait for, does not count. 0s is no bound.
	DefaultRequestTTL time.Duration `json:"defaultRequestTTL" schema:"min=0s"`

	// NoEndpointRequestTTL is how long it waits in all, for room and for an endpoint, while its pool has none; then it is refused with
	// 503. Not given, it is DefaultRequestTTL, or a minute where that is no bound. 0s is no bound.
	NoEndpointRequestTTL *time.Duration `json:"noEndpointRequestTTL,omitempty" schema:"min=0s"`

	// HoldWhenEmpty has requests wait while their pool has no endpoint, as while it is scaled to zero; else they are refused at
	// once.
	HoldWhenEmpty bool `json:"holdWhenEmpty"`

	// PriorityBands are bands that are always there, and so are those of the priorities that objectives have, and of 0, which requests
	// have that name no objective. A request of another priority waits in a band that is made for it.
	PriorityBands []QueueBand `json:"priorityBands,omitempty" schema:"max=100"`

	// DefaultPriorityBand is what bands that are made on demand are like, and what a band of the list has where it says nothing.
	DefaultPriorityBand QueueDefaults `json:"defaultPriorityBand"`

	// DefaultNegativePriorityBand is the same for priorities below 0, as far as it says something.
	DefaultNegativePriorityBand QueueDefaults `json:"defaultNegativePriorityBand"`

	// MaxPriorityBands is how many bands a pool may have, besides those of objectives.
	MaxPriorityBands int32 `json:"maxPriorityBands" schema:"min=1,max=1000"`

	// MaxFlowsPerBand is how many tenants of a band are told apart; further ones share one turn.
	MaxFlowsPerBand int32 `json:"maxFlowsPerBand" schema:"min=2,max=100000"`

	// BandSharing says how bands share a pool: strict lets a lower one go when no request of a higher one may; weighted
	// shares what is let go, in tokens, by the bands' weights, so that a lower one is never shut out.
	BandSharing string `json:"bandSharing" schema:"enum=strict|weighted"`

	// SaturationDetectorRef names the plugin that says when a pool is full; without one it is a load-detector with its defaults.
	SaturationDetectorRef string `json:"saturationDetectorRef,omitempty" schema:"max=253"`

	// UsageLimitPolicyRef names the plugin that says how much of a pool a band may fill; without one all may fill it.
	UsageLimitPolicyRef string `json:"usageLimitPolicyRef,omitempty" schema:"max=253"`

	// YieldAfter is how long a request waits before it goes behind those of its tenant that came later. Under an overload that lasts, all
	// would wait equally long, and nobody be in time; so the latest are, and who is late already goes when no other of its tenant
	// waits, or when it is refused. 0s is never.
	YieldAfter time.Duration `json:"yieldAfter" schema:"min=0s"`

	// LateBinding has requests go when their endpoint has room, where the detector knows of each whether it has, and wait where a
	// decision finds all endpoints too busy for this request. Its place stays the first of its tenant, and others go meanwhile.
	// Otherwise the decision is what it would be without a queue, and such a request is refused.
	LateBinding bool `json:"lateBinding"`

	// LookAhead has a request decided among all endpoints, those included that have no room: what is cached at a full one may be
	// worth waiting for. Where the choice is full the request keeps its place, and those behind it are asked, up to so many of a
	// tenant's first. 0 has requests decided among the endpoints with room. It has effect with lateBinding alone.
	LookAhead int32 `json:"lookAhead" schema:"min=0,max=256" unit:"requests"`

	// Patience is how long a request waits for the endpoint of its choice while others have room, from when its turn came first. Then it
	// takes any room.
	Patience time.Duration `json:"patience" schema:"min=1ms"`

	// MaxOvertaken is how many of its tenant's later requests may go before a request that waits for the endpoint of its choice.
	// Then it takes any room before they go on.
	MaxOvertaken int32 `json:"maxOvertaken" schema:"min=1" unit:"requests"`

	// DropLate refuses a request whose header asks for its first token by a time that has passed when its turn comes; one that yields
	// is refused within a second of that time.
	DropLate bool `json:"dropLate"`

	// EnableEviction has requests of a priority below 0 taken back that run, while their pool is too full for requests of a
	// higher priority that wait: the lowest priority first, and of it the newest. Their clients get 429 evicted, and their
	// engines see them go. That is possible until the answer's headers come, and never in the midst of an answer; engines send
	// the headers of an event stream at once, so that it is requests without stream that can be taken back while they run. Where
	// a gateway shows no response headers it is not possible, which is noted as not_revocable.
	EnableEviction bool `json:"enableEviction"`

	// RetryAfterMin is the least that refusals say in Retry-After, which is worked out from how fast the queue drains.
	RetryAfterMin time.Duration `json:"retryAfterMin" schema:"min=1s"`

	// RetryAfterMax is the most that they say, and what they say while nobody goes.
	RetryAfterMax time.Duration `json:"retryAfterMax" schema:"min=1s"`

	*Control
}

// QueueDefaults are what is said of bands that are not in the list.
type QueueDefaults struct {
	// MaxRequests bounds the requests of the band that wait for one pool. Beyond it the tenant that has most gives way to one that has
	// less than its share. 0 is the default, which is 5000 if nobody says another.
	MaxRequests plugins.Quantity `json:"maxRequests,omitempty" schema:"min=0"`

	// MaxBytes bounds the bytes of their bodies, likewise. 0 is the default, which is 1G if nobody says another.
	MaxBytes plugins.Quantity `json:"maxBytes,omitempty" schema:"min=0"`

	// FairnessPolicyRef names the plugin that says whose turn it is among the band's tenants. Without one it is a
	// token-deficit-fairness-policy with its defaults.
	FairnessPolicyRef string `json:"fairnessPolicyRef,omitempty" schema:"max=253"`

	// OrderingPolicyRef names the plugin that says who of a tenant's requests goes first. Without one it is an
	// fcfs-ordering-policy.
	OrderingPolicyRef string `json:"orderingPolicyRef,omitempty" schema:"max=253"`

	// RequestTTL is how long its requests wait for room; not given it is that of all.
	RequestTTL *time.Duration `json:"requestTTL,omitempty" schema:"min=0s"`

	// Weight is the band's share where bands share by weight; 0 is 1.
	Weight float64 `json:"weight,omitempty" schema:"min=0,max=1000000"`
}

// QueueBand is a band of the list.
type QueueBand struct {
	// Priority is that of the requests that wait in it.
	Priority int32 `json:"priority" schema:"required"`

	QueueDefaults
}

// The bounds of a band where nobody says otherwise.
const (
	bandRequests = 5000
	bandBytes    = 1_000_000_000
)

var (
	_ plugins.Queue       = (*Queue)(nil)
	_ plugins.Settler     = (*Queue)(nil)
	_ plugins.Evictor     = (*Queue)(nil)
	_ plugins.Provisioner = (*Queue)(nil)
	_ plugins.Heir        = (*Queue)(nil)
)

// NewQueue returns a Queue with its defaults.
func NewQueue() *Queue {
	return &Queue{
		MaxRequests: 20_000, MaxBytes: 2_000_000_000, DefaultRequestTTL: time.Minute, HoldWhenEmpty: true,
		MaxPriorityBands: 64, MaxFlowsPerBand: 1024, BandSharing: "strict", LateBinding: true, DropLate: true,
		LookAhead: 32, Patience: 10 * time.Second, MaxOvertaken: 64,
		RetryAfterMin: time.Second, RetryAfterMax: 30 * time.Second,
	}
}

// How long bands and flows are remembered in which nobody waits.
const (
	bandIdle = 10 * time.Minute
	flowIdle = 10 * time.Minute
)

// Provision finds the policies and lays out the bands.
func (q *Queue) Provision(b *plugins.Builder) error {
	s := Settings{
		MaxRequests: int64(q.MaxRequests), MaxBytes: int64(q.MaxBytes), MaxBands: int(q.MaxPriorityBands), MaxFlows: int(q.MaxFlowsPerBand),
		BandIdle: bandIdle, FlowIdle: flowIdle, Weighted: q.BandSharing == "weighted",
		Detector: NewLoadDetector(), Ceilings: NewStaticLimit(), Patient: q.LateBinding, DropLate: q.DropLate, HoldEmpty: q.HoldWhenEmpty,
		LookAhead: int(q.LookAhead), MostPassed: q.MaxOvertaken, Patience: q.Patience,
		Evict: q.EnableEviction, RetryMin: q.RetryAfterMin, RetryMax: q.RetryAfterMax,
	}
	if q.RetryAfterMin > q.RetryAfterMax {
		return fmt.Errorf("retryAfterMin is %v, above retryAfterMax %v; exchange the two", q.RetryAfterMin, q.RetryAfterMax)
	}
	if len(q.PriorityBands) > int(q.MaxPriorityBands) {
		return fmt.Errorf("maxPriorityBands is %d, and %d bands are listed; raise it", q.MaxPriorityBands, len(q.PriorityBands))
	}
	var err error
	if q.SaturationDetectorRef != "" {
		if s.Detector, err = plugins.Refer[Detector](b, q.SaturationDetectorRef); err != nil {
			return fmt.Errorf("saturationDetectorRef: %w", err)
		}
	}
	if q.UsageLimitPolicyRef != "" {
		if s.Ceilings, err = plugins.Refer[Ceilings](b, q.UsageLimitPolicyRef); err != nil {
			return fmt.Errorf("usageLimitPolicyRef: %w", err)
		}
	}
	top := BandSettings{MaxRequests: bandRequests, MaxBytes: bandBytes, TTL: q.DefaultRequestTTL, EmptyTTL: q.emptyTTL(), YieldAfter: q.YieldAfter, Weight: 1,
		Fairness: NewTokenDeficit(), Ordering: NewFCFS()}
	if s.Default, err = q.DefaultPriorityBand.over(b, top, "defaultPriorityBand"); err != nil {
		return err
	}
	if s.DefaultNegative, err = q.DefaultNegativePriorityBand.over(b, s.Default, "defaultNegativePriorityBand"); err != nil {
		return err
	}
	for i, band := range q.PriorityBands {
		if j := slices.IndexFunc(q.PriorityBands, func(o QueueBand) bool { return o.Priority == band.Priority }); j < i {
			return fmt.Errorf("priorityBands[%d]: priority %d is that of priorityBands[%d]; keep one of the two", i, band.Priority, j)
		}
		base := s.Default
		if band.Priority < 0 {
			base = s.DefaultNegative
		}
		base.Priority = band.Priority
		if base, err = band.over(b, base, fmt.Sprintf("priorityBands[%d]", i)); err != nil {
			return err
		}
		s.Bands = append(s.Bands, base)
	}
	s.named(b.Objectives)
	q.warn(b)
	q.Control = NewControl(s)
	return nil
}

// named adds the bands of priorities that requests may have by the configuration and that are not listed, so that each has its rank
// before the first request of it comes: by that alone the lowest does not fill the room that is kept for others.
func (s *Settings) named(objectives []plugins.Objective) {
	listed := len(s.Bands)
	for _, o := range append([]plugins.Objective{{}}, objectives...) {
		if slices.ContainsFunc(s.Bands, func(b BandSettings) bool { return b.Priority == o.Priority && (b.Pool == "" || b.Pool == o.Pool) }) {
			continue
		}
		band := s.like(o.Priority)
		band.Pool = o.Pool
		s.Bands = append(s.Bands, band)
	}
	s.MaxBands += len(s.Bands) - listed
}

// warn tells of parameters that change nothing beside the others.
func (q *Queue) warn(b *plugins.Builder) {
	if q.BandSharing != "weighted" {
		weights := map[string]float64{"defaultPriorityBand": q.DefaultPriorityBand.Weight, "defaultNegativePriorityBand": q.DefaultNegativePriorityBand.Weight}
		for i, band := range q.PriorityBands {
			weights[fmt.Sprintf("priorityBands[%d]", i)] = band.Weight
		}
		for _, name := range slices.Sorted(maps.Keys(weights)) {
			if weights[name] != 0 {
				b.Warn(name+".weight", "%s.weight has no effect while bandSharing is strict; write bandSharing: weighted, or remove it", name)
			}
		}
	}
	why, plain := "", NewQueue()
	if !q.LateBinding {
		why = "lateBinding is false"
	} else if q.LookAhead == 0 {
		why = "lookAhead is 0"
	}
	for _, p := range [...]struct {
		name  string
		given bool
	}{{"lookAhead", q.LookAhead != plain.LookAhead && !q.LateBinding}, {"patience", q.Patience != plain.Patience}, {"maxOvertaken", q.MaxOvertaken != plain.MaxOvertaken}} {
		if p.given && why != "" {
			b.Warn(p.name, "%s has no effect while %s; remove it", p.name, why)
		}
	}
	if !q.HoldWhenEmpty {
		b.Warn("noEndpointRequestTTL", "noEndpointRequestTTL holds for those alone that wait when their pool becomes empty: holdWhenEmpty is false, and who comes to an empty pool is refused at once; "+
			"remove it, or write holdWhenEmpty: true")
	}
}

func (q *Queue) emptyTTL() time.Duration {
	switch {
	case q.NoEndpointRequestTTL != nil:
		return *q.NoEndpointRequestTTL
	case q.DefaultRequestTTL == 0:
		return time.Minute
	}
	return q.DefaultRequestTTL
}

// over returns base with what d says in its place.
func (d *QueueDefaults) over(b *plugins.Builder, base BandSettings, where string) (_ BandSettings, err error) {
	if d.MaxRequests > 0 {
		base.MaxRequests = int64(d.MaxRequests)
	}
	if d.MaxBytes > 0 {
		base.MaxBytes = int64(d.MaxBytes)
	}
	if d.RequestTTL != nil {
		base.TTL, base.OwnTTL = *d.RequestTTL, true
	}
	if d.Weight > 0 {
		base.Weight = d.Weight
	}
	if d.FairnessPolicyRef != "" {
		if base.Fairness, err = plugins.Refer[Fairness](b, d.FairnessPolicyRef); err != nil {
			return base, fmt.Errorf("%s: fairnessPolicyRef: %w", where, err)
		}
	}
	if d.OrderingPolicyRef != "" {
		if base.Ordering, err = plugins.Refer[Ordering](b, d.OrderingPolicyRef); err != nil {
			return base, fmt.Errorf("%s: orderingPolicyRef: %w", where, err)
		}
	}
	return base, nil
}

// Inherit has requests that wait, and what tenants were served, stay through a change of the configuration.
func (q *Queue) Inherit(from any, _ []int) { q.Control.Inherit(from.(*Queue).Control) }

// Phase says that it runs when limits and tenants are known.
func (q *Queue) Phase() plugins.Phase { return plugins.AtAdmit }

// Enter passes a request, holds it, or refuses it.
func (q *Queue) Enter(r *plugins.Request) plugins.Verdict { return q.Control.Enter(r.Now, r) }

// Admitted charges a request that goes.
func (q *Queue) Admitted(r *plugins.Request, to pool.Ref, load pool.Load) {
	q.Control.Booked(r.Now, r, to, load)
	if q.EnableEviction {
		q.Control.runs(r)
	}
}

// Evicts reports whether running requests may be taken back.
func (q *Queue) Evicts() bool { return q.EnableEviction }

// Wants says that it looks at first bytes, from where on a request is not taken back.
func (q *Queue) Wants() plugins.Parts {
	if q.EnableEviction {
		return plugins.FirstByte
	}
	return 0
}

// Respond hears of the first byte.
func (q *Queue) Respond(r *plugins.Request, _ plugins.Parts, _ []byte) { q.Control.began(r) }

// Nobody has a request wait whose endpoints are too busy.
func (q *Queue) Nobody(r *plugins.Request, why *reason.Refusal) bool {
	return q.Control.Nobody(r.Now, r, why)
}

// Leave forgets a request that goes away.
func (q *Queue) Leave(r *plugins.Request) { q.Control.Leave(r.Now, r) }

// Settle charges the tokens of its answer.
func (q *Queue) Settle(r *plugins.Request, o plugins.Outcome) {
	began := r.Now
	if it, ok := r.Place.(*item); ok {
		began = it.at
	}
	if q.EnableEviction {
		q.Control.began(r)
	}
	output := o.Out
	if o.Ending == reason.Evicted {
		output = 0
	}
	q.Control.Settle(began+pool.Instant(o.Total), r, o.Prompt, output)
}
