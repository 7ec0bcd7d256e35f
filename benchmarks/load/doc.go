// Package load sends a workload to a real server in wall-clock time: the same workloads that run in virtual time, as OpenAI
// chat completions, streamed.
//
// Latency counts from the instant at which a request was due, not from that at which the client came round to sending it; how
// late it sent is reported beside it, and a run whose client was late is flagged invalid. An answer is a success only when it
// ended as answers end and had a token: a stream without output, one that breaks off and a page of HTML are failures, each of
// its own class. An interrupted run is reported as far as it went.
//
// Prompts are made of pieces of text that stand for the workload's blocks: where two requests share blocks they share text, to
// the byte, and nowhere else.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Options are a run.
type Options struct {
	// URL is the server, such as http://127.0.0.1:8080. Model is what requests ask for where the workload does not say.
	URL, Model string

	// Key is sent as a bearer token; empty is none.
	Key string

	Source fleet.Source

	// Timeout bounds a request, from its sending; 0 is 10 minutes.
	Timeout time.Duration

	// MaxOpen bounds the requests that are under way; those that come when so many are wait, which counts as lateness. 0 is
	// 4096.
	MaxOpen int

	// StopIfErrors ends the run when more than this share of at least 20 requests failed; 0 is never.
	StopIfErrors float64

	// SessionHeader is a response header whose last value in a session is sent with the session's next request; empty is none.
	SessionHeader string

	// Client sends; nil is one with connections enough.
	Client *http.Client
}

// Result is a run, or as much of it as there was.
type Result struct {
	// Outcomes are in order of sending. Instants are since the run began; Arrived is when a request was due, Sent when it was
	// sent. Reason is the class of a failure.
	Outcomes []fleet.Outcome

	// Delays are the seconds by which each was sent late.
	Delays []float64

	// Messages are, by class of failure, the first few of what was said, with what had come of a broken answer.
	Messages map[string][]string

	// Cut says why the run ended early, empty if it did not.
	Cut string
}

// The bounds of a client's lateness, beyond which its run is invalid: the median and the 99th percentile.
const (
	lateMedian = 10 * time.Millisecond
	lateTail   = 100 * time.Millisecond
)

// Invalid says why the figures are not those of the server: the client could not keep to its schedule. Empty if it could.
func (r *Result) Invalid() string {
	if len(r.Delays) == 0 {
		return ""
	}
	d := slices.Clone(r.Delays)
	slices.Sort(d)
	p50, p99 := bench.Quantile(d, 0.5), bench.Quantile(d, 0.99)
	if p50 <= lateMedian.Seconds() && p99 <= lateTail.Seconds() {
		return ""
	}
	return fmt.Sprintf("the client sent late: by %.1f ms in the median and %.1f ms at p99, where %v and %v are allowed; lower the rate or use more machines",
		p50*1e3, p99*1e3, lateMedian, lateTail)
}

// maxMessages is how many messages are kept of each class, maxMessage how long one may be.
const (
	maxMessages = 5
	maxMessage  = 400
)

// Run sends the workload until it ends, ctx ends, or too much fails. The error is of the options alone.
func Run(ctx context.Context, o Options) (*Result, error) {
	switch {
	case !strings.HasPrefix(o.URL, "http://") && !strings.HasPrefix(o.URL, "https://"):
		return nil, fmt.Errorf("target %q: want a URL such as http://127.0.0.1:8080", o.URL)
	case o.Source == nil:
		return nil, errors.New("load: no workload")
	case o.StopIfErrors < 0 || o.StopIfErrors > 1:
		return nil, fmt.Errorf("stop at %v of errors; a share of 0 to 1", o.StopIfErrors)
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = 4096
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{MaxIdleConns: o.MaxOpen, MaxIdleConnsPerHost: o.MaxOpen, IdleConnTimeout: time.Minute}}
	}
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &client{
		o: o, began: time.Now(), stop: stop, slots: make(chan struct{}, o.MaxOpen), changed: make(chan struct{}, 1),
		tokens: map[int32]string{}, result: Result{Messages: map[string][]string{}},
	}
	c.send(run)
	c.all.Wait()
	if run.Err() != nil {
		c.result.Cut = context.Cause(run).Error()
		if ctx.Err() != nil {
			c.result.Cut = "interrupted"
		}
	}
	return &c.result, nil
}

// client is a run in progress.
type client struct {
	o       Options
	began   time.Time
	stop    context.CancelCauseFunc
	slots   chan struct{}
	changed chan struct{} // something ended: a next request may be known
	all     sync.WaitGroup

	mu     sync.Mutex
	result Result
	open   int
	ended  int
	failed int
	tokens map[int32]string // by session
}

func (c *client) now() pool.Instant { return pool.Instant(time.Since(c.began)) }

// send sends requests when they are due, until none is known and none is under way.
func (c *client) send(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		c.mu.Lock()
		at, coming := c.o.Source.Peek()
		open := c.open
		c.mu.Unlock()
		if !coming {
			if open == 0 {
				return
			}
			select {
			case <-c.changed:
			case <-ctx.Done():
			}
			continue
		}
		if wait := time.Duration(at - c.now()); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-c.changed: // a session's next turn may come before
			case <-ctx.Done():
			}
			continue
		}
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		r := c.o.Source.Pop()
		number := len(c.result.Outcomes)
		c.result.Outcomes = append(c.result.Outcomes, fleet.Outcome{
			Arrived: r.At, Prompt: r.Prompt, Output: r.Output, Pod: -1, Tries: 1,
			Session: r.Session, Tenant: r.Tenant, Class: r.Class, Priority: r.Priority,
		})
		c.result.Delays = append(c.result.Delays, math.NaN())
		c.open++
		token := c.tokens[r.Session]
		c.mu.Unlock()
		c.all.Go(func() {
			defer func() { <-c.slots }()
			c.one(ctx, number, r, token)
		})
	}
}

// one sends a request and notes what came of it.
func (c *client) one(ctx context.Context, number int, r *fleet.Request, token string) {
	sent := c.now()
	a := c.ask(ctx, uint64(number), r, token)
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &c.result.Outcomes[number]
	c.result.Delays[number] = time.Duration(sent - r.At).Seconds()
	o.Sent, o.End = sent, now
	if a.first != 0 {
		o.FirstToken = a.first
	}
	o.Generated, o.Cached = a.generated, a.cached
	if a.prompt > 0 {
		o.Prompt = a.prompt
	}
	o.Status, o.Reason = fleet.Completed, ""
	if a.class != "" {
		o.Status, o.Reason = fleet.Failed, a.class
		if a.class == classCancelled {
			o.Status, o.End = fleet.Unfinished, 0
		}
		if list := c.result.Messages[a.class]; len(list) < maxMessages {
			c.result.Messages[a.class] = append(list, a.message[:min(len(a.message), maxMessage)])
		}
	}
	if a.token != "" && r.Session >= 0 {
		c.tokens[r.Session] = a.token
	}
	c.open--
	c.ended++
	if o.Status == fleet.Failed {
		c.failed++
	}
	if s := c.o.StopIfErrors; s > 0 && c.ended >= 20 && float64(c.failed) > s*float64(c.ended) {
		c.stop(fmt.Errorf("%d of %d requests failed", c.failed, c.ended))
	}
	c.o.Source.Done(now, r, o.Status)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
