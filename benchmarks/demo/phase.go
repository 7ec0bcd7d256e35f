package demo

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Result is one phase: a policy on one traffic.
type Result struct {
	Policy   string
	Requests int
	Errors   int
	FirstErr error
	TTFT     []time.Duration // engine time, sorted
	Prompt   int             // tokens of all prompts
	Cached   int             // of these, found in a prefix cache
	Out      int             // generated tokens
	Span     time.Duration   // engine time from the first arrival to the phase's end
}

// HitRate is the share of prompt tokens that a prefix cache held.
func (r *Result) HitRate() float64 { return float64(r.Cached) / float64(max(r.Prompt, 1)) }

// TokensPerSecond is generated tokens per engine second.
func (r *Result) TokensPerSecond() float64 { return float64(r.Out) / r.Span.Seconds() }

// Quantile returns the q-quantile of TTFT, 0 without samples.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.TTFT) == 0 {
		return 0
	}
	return r.TTFT[min(int(q*float64(len(r.TTFT))), len(r.TTFT)-1)]
}

// phase plays sessions against bases, which choose names where each request goes. A turn is sent at its time or when the
// turn before it was answered and thought over, whatever is later. What has not been answered when the span is over is
// broken off and not counted as an error; requests that were sent and waited without a first token until then count with
// the time they waited, so that a queue that grows is seen.
type phase struct {
	policy   string
	sessions []Session
	choose   func(n int) string
	model    string
	answer   int
	speed    float64
	span     time.Duration // engine time
	sent     atomic.Int64
	client   *http.Client

	mu  sync.Mutex
	res Result
}

func (p *phase) run(ctx context.Context) Result {
	wall := time.Duration(float64(p.span) / p.speed)
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for i := range p.sessions {
		all.Add(1)
		go func() {
			defer all.Done()
			p.play(ctx, &p.sessions[i], began)
		}()
	}
	all.Wait()
	<-ctx.Done()
	p.res.Policy, p.res.Span = p.policy, p.span
	slices.Sort(p.res.TTFT)
	return p.res
}

func (p *phase) play(ctx context.Context, s *Session, began time.Time) {
	if !p.sleepUntil(ctx, began.Add(p.toWall(s.Start))) {
		return
	}
	messages := []message{{"system", s.System}}
	for turn, user := range s.Turns {
		if turn > 0 && !p.sleepUntil(ctx, time.Now().Add(p.toWall(s.Think[turn]))) {
			return
		}
		messages = append(messages, message{"user", user})
		sent := time.Now()
		a := ask(ctx, p.client, p.choose(int(p.sent.Add(1)-1)), p.model, messages, p.answer)
		if ctx.Err() != nil {
			p.unfinished(a, time.Duration(float64(time.Since(sent))*p.speed))
			return
		}
		p.keep(a)
		if a.err != nil {
			return
		}
		messages = append(messages, message{"assistant", a.text})
	}
}

func (p *phase) keep(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.res.Requests++
	if a.err != nil {
		p.res.Errors++
		if p.res.FirstErr == nil {
			p.res.FirstErr = a.err
		}
		return
	}
	p.res.TTFT = append(p.res.TTFT, a.ttft)
	p.res.Prompt += a.prompt
	p.res.Cached += a.cached
	p.res.Out += a.out
}

// unfinished counts a request that the end of the phase broke off: if its first token had not come, the time it waited is
// a lower bound of its TTFT.
func (p *phase) unfinished(a answer, waited time.Duration) {
	if a.text != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.res.Requests++
	p.res.TTFT = append(p.res.TTFT, waited)
}

func (p *phase) toWall(engine time.Duration) time.Duration {
	return time.Duration(float64(engine) / p.speed)
}

func (p *phase) sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
