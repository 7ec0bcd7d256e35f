package bench

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Number is a figure that may be unknown: NaN, and null in JSON.
type Number float64

// Unknown is a figure that nobody could measure.
var Unknown = Number(math.NaN())

// Known reports whether the figure is known.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes null for what is unknown.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 9, 64), nil
}

// UnmarshalJSON reads null as unknown.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Unknown
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Spread is a distribution in short, in seconds. All are unknown of nothing.
type Spread struct {
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P90  Number `json:"p90"`
	P95  Number `json:"p95"`
	P99  Number `json:"p99"`
	Max  Number `json:"max"`
	N    int    `json:"n"`
}

// SpreadOf sorts values and returns what they are in short.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, 0}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	p := func(q float64) Number { return Number(Quantile(values, q)) }
	return Spread{Number(sum / float64(len(values))), p(0.5), p(0.9), p(0.95), p(0.99), Number(values[len(values)-1]), len(values)}
}

// Quantile returns the q-quantile of sorted values, interpolated between neighbours; NaN of nothing.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}

// Group is one tenant's or class's part.
type Group struct {
	Name    string `json:"name"`
	Offered int    `json:"offered"`
	Refused int    `json:"refused"`
	Failed  int    `json:"failed,omitempty"`
	Aborted int    `json:"aborted,omitempty"`
	Goodput Number `json:"goodput"` // share of what it offered

	// Tokens are those that it was served: prompt and answer of completed requests. Reasons are those of refusals and failures.
	Tokens  int64          `json:"servedTokens"`
	Reasons map[string]int `json:"reasons,omitempty"`

	TTFT Spread `json:"ttftSeconds"`
	ITL  Spread `json:"itlSeconds"`
}

// Figures are a run, or what was measured of one.
type Figures struct {
	Offered    int            `json:"offered"`
	Completed  int            `json:"completed"`
	Refused    int            `json:"refused"`
	Failed     int            `json:"failed"`
	Aborted    int            `json:"aborted,omitempty"` // by their clients; none of them is good
	Unfinished int            `json:"unfinished"`
	Reasons    map[string]int `json:"reasons,omitempty"` // of those that were refused or failed
	Good       int            `json:"good"`

	// MissedTTFT and MissedITL count answers that came to their end beyond a target; one may miss both.
	MissedTTFT int `json:"missedTTFT"`
	MissedITL  int `json:"missedITL"`

	// Goodput is good over offered. OfferedRate and GoodRate are per second of arrivals.
	Goodput     Number `json:"goodput"`
	OfferedRate Number `json:"offeredPerSecond"`
	GoodRate    Number `json:"goodPerSecond"`

	// OutputRate is generated tokens per second from the first arrival to the last end, InputRate prompt tokens of completed
	// requests, cached ones included.
	InputRate  Number `json:"inputTokensPerSecond"`
	OutputRate Number `json:"outputTokensPerSecond"`

	TTFT    Spread `json:"ttftSeconds"`
	ITL     Spread `json:"itlSeconds"`
	E2E     Spread `json:"e2eSeconds"`
	Gap     Spread `json:"longestGapSeconds"` // the longest time between two tokens of each answer
	Queue   Spread `json:"queueSeconds"`      // from the arrival to the engine's batch
	Prefill Spread `json:"prefillSeconds"`    // from there to the first token

	// Delay is how late the client sent, in wall-clock time; nil in virtual time.
	Delay *Spread `json:"scheduleDelaySeconds,omitempty"`

	// HitRate is cached over all prompt tokens of completed requests.
	HitRate Number `json:"hitRate"`

	// Imbalance is the busiest pod's time over the mean; Jain is Jain's index over the tenants' goodput, 1 where all fare
	// alike.
	Imbalance   Number `json:"imbalance"`
	Jain        Number `json:"jain"`
	Preemptions int64  `json:"preemptions"`

	// EventBatches are the messages of cache events that engines published to a policy that hears them, EventBatchesLost those of
	// them that did not arrive; 0 with a policy that does not.
	EventBatches     int64 `json:"eventBatches,omitempty"`
	EventBatchesLost int64 `json:"eventBatchesLost,omitempty"`

	// Saturated: the backlog grew until the arrivals ended. Latencies then measure the length of the run.
	Saturated bool `json:"saturated"`

	Classes []Group `json:"classes,omitempty"`
	Tenants []Group `json:"tenants,omitempty"`
}

// Good reports whether an answer met its targets.
func Good(o *fleet.Outcome, t scenarios.Targets) bool {
	ttft, itl := missed(o, t)
	return o.Status == fleet.Completed && !ttft && !itl
}

// missed reports which targets an answer that came to its end missed.
func missed(o *fleet.Outcome, t scenarios.Targets) (ttft, itl bool) {
	if o.Status != fleet.Completed {
		return false, false
	}
	bound := t.TTFT
	if t.LongPrompt > 0 && o.Prompt >= t.LongPrompt {
		bound = t.LongTTFT
	}
	first, ok := o.TTFT()
	ttft = bound > 0 && (!ok || first > bound)
	between, ok := o.ITL()
	return ttft, t.ITL > 0 && ok && between > t.ITL
}

// collected are the values of a set of outcomes.
type collected struct {
	offered, good                       int
	refused, failed, aborted            int
	reasons                             map[string]int
	ttft, itl, gap, e2e, queue, prefill []float64
	prompt, cached, generated, finished int64
}

func (c *collected) add(o *fleet.Outcome, t scenarios.Targets) {
	c.offered++
	switch o.Status {
	case fleet.Refused:
		c.refused++
	case fleet.Failed:
		c.failed++
	case fleet.Aborted:
		c.aborted++
	}
	if o.Status == fleet.Refused || o.Status == fleet.Failed {
		if c.reasons == nil {
			c.reasons = map[string]int{}
		}
		c.reasons[o.Reason]++
	}
	if Good(o, t) {
		c.good++
	}
	if ttft, ok := o.TTFT(); ok {
		c.ttft = append(c.ttft, ttft.Seconds())
	}
	if itl, ok := o.ITL(); ok {
		c.itl = append(c.itl, itl.Seconds())
	}
	if o.LongestGap > 0 {
		c.gap = append(c.gap, o.LongestGap.Seconds())
	}
	c.generated += int64(o.Generated)
	if o.Status != fleet.Completed {
		return
	}
	c.finished++
	c.prompt += int64(o.Prompt)
	c.cached += int64(o.Cached)
	c.e2e = append(c.e2e, seconds(o.End-o.Arrived))
	if o.Admitted != 0 { // a client in wall-clock time does not know
		c.queue = append(c.queue, seconds(o.Admitted-o.Arrived))
		c.prefill = append(c.prefill, seconds(o.FirstToken-o.Admitted))
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func seconds(t pool.Instant) float64 { return time.Duration(t).Seconds() }

func share(part, of int64) Number {
	if of == 0 {
		return Unknown
	}
	return Number(float64(part) / float64(of))
}

func (c *collected) group(name string) Group {
	return Group{
		Name: name, Offered: c.offered, Refused: c.refused, Failed: c.failed, Aborted: c.aborted, Goodput: share(int64(c.good), int64(c.offered)),
		Tokens: c.prompt + c.generated, Reasons: c.reasons, TTFT: SpreadOf(c.ttft), ITL: SpreadOf(c.itl),
	}
}

// Figures returns the figures of a run of the setup, without the requests that arrived during its warm-up.
func (s *Setup) Figures(r *fleet.Result) *Figures {
	return s.FiguresBetween(r, pool.Instant(s.Warmup), 0)
}

// FiguresBetween returns the figures of the requests that arrived in [from, to) alone; to 0 is the end. What is told of pods is
// that of the whole run.
func (s *Setup) FiguresBetween(r *fleet.Result, from, to pool.Instant) *Figures {
	f := &Figures{EventBatches: r.Batches, EventBatchesLost: r.BatchesLost}
	var all collected
	classes := make([]collected, len(s.Requests.Streams))
	tenants := make([]collected, s.Requests.Tenants())
	var first, last, end pool.Instant
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Arrived < from || to > 0 && o.Arrived >= to {
			continue
		}
		if first == 0 {
			first = o.Arrived
		}
		last, end = max(last, o.Arrived), max(end, o.End)
		all.add(o, s.Targets)
		if ttft, itl := missed(o, s.Targets); ttft || itl {
			f.MissedTTFT, f.MissedITL = f.MissedTTFT+one(ttft), f.MissedITL+one(itl)
		}
		classes[o.Class].add(o, s.Targets)
		if int(o.Tenant) < len(tenants) {
			tenants[o.Tenant].add(o, s.Targets)
		}
		if o.Status == fleet.Unfinished {
			f.Unfinished++
		}
		f.Preemptions += int64(o.Preemptions)
	}
	f.Offered, f.Refused, f.Good, f.Completed = all.offered, all.refused, all.good, int(all.finished)
	f.Failed, f.Aborted, f.Reasons = all.failed, all.aborted, all.reasons
	f.Goodput = share(int64(all.good), int64(all.offered))
	f.OfferedRate, f.GoodRate, f.InputRate, f.OutputRate = Unknown, Unknown, Unknown, Unknown
	if span := seconds(last - first); span > 0 {
		f.OfferedRate, f.GoodRate = Number(float64(all.offered)/span), Number(float64(all.good)/span)
	}
	if span := seconds(max(end, last) - first); span > 0 {
		f.InputRate, f.OutputRate = Number(float64(all.prompt)/span), Number(float64(all.generated)/span)
	}
	f.TTFT, f.ITL, f.Gap, f.E2E, f.Queue, f.Prefill = SpreadOf(all.ttft), SpreadOf(all.itl), SpreadOf(all.gap), SpreadOf(all.e2e), SpreadOf(all.queue), SpreadOf(all.prefill)
	f.HitRate = share(all.cached, all.prompt)
	f.Imbalance = imbalance(r)
	f.Saturated = saturated(r, first, last)
	f.Jain = jain(tenants)
	if len(classes) > 1 {
		for i, name := range s.Requests.Classes() {
			f.Classes = append(f.Classes, classes[i].group(name))
		}
	}
	if n := len(tenants); n > 1 && n <= maxTenants {
		for i := range tenants {
			f.Tenants = append(f.Tenants, tenants[i].group("tenant-"+strconv.Itoa(i)))
		}
	}
	return f
}

// Late notes how late the client sent each request.
func (f *Figures) Late(delays []float64) {
	var known []float64
	for _, d := range delays {
		if !math.IsNaN(d) {
			known = append(known, d)
		}
	}
	s := SpreadOf(known)
	f.Delay = &s
}

// maxTenants is how many tenants figures list one by one.
const maxTenants = 64

// imbalance is the busiest pod's time over the mean.
func imbalance(r *fleet.Result) Number {
	var sum, most time.Duration
	for i := range r.Pods {
		sum += r.Pods[i].Busy
		most = max(most, r.Pods[i].Busy)
	}
	if sum == 0 {
		return Unknown
	}
	return Number(float64(most) * float64(len(r.Pods)) / float64(sum))
}

// jain is (Σx)²/(n·Σx²) over the goodput of tenants that offered something.
func jain(tenants []collected) Number {
	var n, sum, squares float64
	for i := range tenants {
		if t := &tenants[i]; t.offered > 0 {
			x := float64(t.good) / float64(t.offered)
			n++
			sum += x
			squares += float64(x * x)
		}
	}
	if squares == 0 {
		return Unknown
	}
	return Number(sum * sum / (n * squares))
}

// saturated compares how many requests waited for their first token, on average, in the second and in the last quarter of
// the arrivals. In a stable system both are alike but for chance; in a saturated one the difference is what was not begun of
// half of the arrivals: more than 5 % of them counts. Answers that run are not counted: their number rises until the first
// ones end, however much capacity is left.
func saturated(r *fleet.Result, first, last pool.Instant) bool {
	span := last - first
	if span <= 0 {
		return false
	}
	inside := func(from, to pool.Instant) float64 {
		var sum pool.Instant
		for i := range r.Outcomes {
			o := &r.Outcomes[i]
			end := o.FirstToken
			if end == 0 {
				end = o.End
			}
			if end == 0 {
				end = to
			}
			sum += max(min(end, to)-max(o.Arrived, from), 0)
		}
		return float64(sum) / float64(to-from)
	}
	arrivals := 0
	for i := range r.Outcomes {
		if a := r.Outcomes[i].Arrived; a >= first+span*3/8 && a < first+span*7/8 {
			arrivals++
		}
	}
	early, late := inside(first+span/4, first+span/2), inside(first+span*3/4, last)
	return late-early > 0.05*float64(arrivals) && late > 1.3*early+2
}
