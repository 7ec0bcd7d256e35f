package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Load describes the traffic of one run. NewLoad gives the defaults.
type Load struct {
	// Target is the server's address, host:port.
	Target string `json:"target"`
	// TLS encrypts; the server's certificate is not verified, as Envoy does not by default.
	TLS bool `json:"tls"`
	// Connections is the number of HTTP/2 connections, of which an Envoy has one per worker thread.
	Connections int `json:"connections"`
	// Concurrency is the number of exchanges at a time in a closed loop: each worker begins the next when one has ended.
	Concurrency int `json:"concurrency"`
	// Rate above 0 makes the loop open: exchanges arrive at this rate per second, at exponential intervals, whether or not
	// earlier ones have ended; Concurrency is then the most that may be open, and arrivals beyond it are counted as Shed.
	Rate float64 `json:"rate,omitempty"`
	// Duration ends the run: no exchange begins after it. 0 leaves it to Requests.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// Requests above 0 ends the run after this many exchanges.
	Requests uint64 `json:"requests,omitempty"`
	// First is the number of the first exchange. Runs with the same Seed, Chars and First send the same bytes.
	First uint64 `json:"first"`
	// Seed makes bodies, ids and arrivals.
	Seed uint64 `json:"seed"`
	// Chars is the size of a prompt in characters.
	Chars int `json:"chars"`
	// Model is the model that the bodies name.
	Model string `json:"model"`
	// Mode says what of the response visits the server.
	Mode Mode `json:"mode"`
	// Chunks is the number of response chunks of an exchange, in Full only.
	Chunks int `json:"chunks,omitempty"`
	// ChunkInterval is the time between two of them; 0 sends the next when the last has come back.
	ChunkInterval time.Duration `json:"chunk_interval_ns,omitempty"`
	// Framing cuts request bodies into messages.
	Framing Framing `json:"framing"`
	// Timeout bounds one exchange.
	Timeout time.Duration `json:"timeout_ns"`
}

// NewLoad returns a closed loop of 8 exchanges for 5 s with prompts of 8,000 characters, response headers only.
func NewLoad(target string) Load {
	return Load{
		Target: target, Connections: 2, Concurrency: 8, Duration: 5 * time.Second, Seed: 1, Chars: 8000,
		Model: "llama-3.1-8b", Mode: Headers, Framing: HTTP1, Timeout: 30 * time.Second,
	}
}

// check refuses what cannot be run.
func (l *Load) check() error {
	switch {
	case l.Target == "":
		return errors.New("target is empty; the address of an ext_proc server, host:port")
	case l.Connections < 1 || l.Connections > 64:
		return fmt.Errorf("connections is %d; between 1 and 64", l.Connections)
	case l.Concurrency < 1 || l.Concurrency > 100_000:
		return fmt.Errorf("concurrency is %d; between 1 and 100000", l.Concurrency)
	case l.Rate < 0 || l.Rate > 1e6:
		return fmt.Errorf("rate is %g; between 0 (closed loop) and 1000000 per second", l.Rate)
	case l.Duration <= 0 && l.Requests == 0:
		return errors.New("neither duration nor requests is set; one of them must end the run")
	case l.Chunks < 0 || l.Chunks > 0 && l.Mode != Full:
		return fmt.Errorf("chunks is %d in mode %s; at least 0, and above 0 in mode full only", l.Chunks, l.Mode)
	case l.Timeout <= 0:
		return fmt.Errorf("timeout is %v; above 0", l.Timeout)
	}
	return errors.Join(l.Mode.check(), l.Framing.check())
}

// Result is what a run showed. Latencies are those of the decision: from the message with the last byte of the body being
// handed to gRPC until the answer to the headers is there, in exchanges without fault.
type Result struct {
	// Decisions are exchanges without fault: decided, every byte back and equal, stream ended as it should.
	Decisions uint64 `json:"decisions"`
	// Begun are all exchanges; Begun - Decisions had a fault.
	Begun uint64 `json:"begun"`
	// Faults counts the others by kind; nil if there are none.
	Faults map[FaultKind]uint64 `json:"faults,omitempty"`
	// Examples are the first faults in words, at most eight.
	Examples []string `json:"examples,omitempty"`
	// Shed are arrivals of an open loop that found Concurrency exchanges open.
	Shed uint64 `json:"shed,omitempty"`
	// Elapsed is the time from the first begin to the last end.
	Elapsed time.Duration `json:"elapsed_ns"`
	// PerSecond is Decisions per second of Elapsed.
	PerSecond float64 `json:"decisions_per_second"`
	// BodyBytes were compared, request bodies of exchanges without fault.
	BodyBytes uint64 `json:"body_bytes"`
	// Destinations is the number of different first destinations.
	Destinations int           `json:"destinations"`
	P50          time.Duration `json:"p50_ns"`
	P99          time.Duration `json:"p99_ns"`
	Max          time.Duration `json:"max_ns"`
}

// Failed is the number of exchanges with a fault.
func (r *Result) Failed() uint64 { return r.Begun - r.Decisions }

// window is larger than any body, so that a server which echoes while it reads never waits for a client that still sends.
const window = 64 << 20

// maxExamples bounds Result.Examples.
const maxExamples = 8

// Run plays the load and returns what it showed. Faults of exchanges are no error: they are in the result. An error is a
// load that cannot be run, a server that cannot be reached, or a ctx that ended.
func Run(ctx context.Context, l Load) (*Result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	prompts, err := NewPrompts(l.Seed, l.Chars, l.Model)
	if err != nil {
		return nil, err
	}
	r := &run{load: &l, prompts: prompts, destinations: map[string]struct{}{}, result: Result{}}
	defer r.disconnect()
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	r.next.Store(l.First)
	began := time.Now()
	if l.Rate > 0 {
		r.open(ctx, began)
	} else {
		r.closed(ctx, began)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("load on %s: %w", l.Target, err)
	}
	return r.sum(time.Since(began))
}

// run is a Load while it runs.
type run struct {
	load    *Load
	prompts *Prompts
	conns   []*grpc.ClientConn
	logs    []*accessLog // one per connection in Edges, else empty

	next    atomic.Uint64 // number of the next exchange
	latency latencies

	mu           sync.Mutex
	result       Result
	destinations map[string]struct{}
}

// connect opens the connections, and the access logs where the mode has them.
func (r *run) connect(ctx context.Context) error {
	creds := insecure.NewCredentials()
	if r.load.TLS {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}
	for i := range r.load.Connections {
		cc, err := grpc.NewClient("passthrough:///"+r.load.Target,
			grpc.WithTransportCredentials(creds),
			grpc.WithInitialWindowSize(window),
			grpc.WithInitialConnWindowSize(window),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(window)),
		)
		if err != nil {
			return fmt.Errorf("target %q: %w", r.load.Target, err)
		}
		r.conns = append(r.conns, cc)
		if err := dial(ctx, cc, r.load.Timeout); err != nil {
			return fmt.Errorf("target %q: %w", r.load.Target, err)
		}
		if r.load.Mode == Edges {
			log, err := openAccessLog(ctx, cc, i)
			if err != nil {
				return fmt.Errorf("target %q: %w", r.load.Target, err)
			}
			r.logs = append(r.logs, log)
		}
	}
	return nil
}

// dial connects and returns an error if the first attempt fails or takes longer than wait.
func dial(ctx context.Context, cc *grpc.ClientConn, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cc.Connect()
	for {
		switch s := cc.GetState(); s {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			return errors.New("cannot connect; is the server running there, with the same TLS setting?")
		default:
			if !cc.WaitForStateChange(ctx, s) {
				return fmt.Errorf("no connection after %v", wait)
			}
		}
	}
}

func (r *run) disconnect() {
	for _, cc := range r.conns {
		_ = cc.Close() // the run's outcome is known; a connection that is closed twice changes nothing
	}
}

// player returns a player on the connection that worker i uses.
func (r *run) player(i int) *player {
	p := &player{load: r.load, prompts: r.prompts, client: extprocv3.NewExternalProcessorClient(r.conns[i%len(r.conns)])}
	if len(r.logs) > 0 {
		p.log = r.logs[i%len(r.logs)]
	}
	return p
}

// take returns the number of the next exchange and whether there is one.
func (r *run) take(began time.Time) (uint64, bool) {
	if d := r.load.Duration; d > 0 && time.Since(began) >= d {
		return 0, false
	}
	n := r.next.Add(1) - 1
	if q := r.load.Requests; q > 0 && n-r.load.First >= q {
		return 0, false
	}
	return n, true
}

// closed runs Concurrency workers, each with one exchange at a time.
func (r *run) closed(ctx context.Context, began time.Time) {
	var wg sync.WaitGroup
	for i := range r.load.Concurrency {
		p := r.player(i)
		wg.Go(func() {
			for ctx.Err() == nil {
				n, more := r.take(began)
				if !more {
					return
				}
				r.count(p.play(ctx, n))
			}
		})
	}
	wg.Wait()
}

// open starts exchanges at their times. Idle players wait in a channel, which bounds how many there are.
func (r *run) open(ctx context.Context, began time.Time) {
	idle := make(chan *player, r.load.Concurrency)
	for i := range r.load.Concurrency {
		idle <- r.player(i)
	}
	rng := rand.New(rand.NewPCG(r.load.Seed, 0x6172726976616c73))
	timer := time.NewTimer(0)
	defer timer.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for at := began; ; at = at.Add(time.Duration(rng.ExpFloat64() / r.load.Rate * float64(time.Second))) {
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		n, more := r.take(began)
		if !more {
			return
		}
		select {
		case p := <-idle:
			wg.Go(func() {
				r.count(p.play(ctx, n))
				idle <- p
			})
		default:
			r.mu.Lock()
			r.result.Shed++
			r.mu.Unlock()
		}
	}
}

// count books the outcome of one exchange.
func (r *run) count(o outcome, f *Fault) {
	if f == nil {
		r.latency.add(o.decision)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Begun++
	if f == nil {
		r.result.Decisions++
		r.result.BodyBytes += uint64(o.sent)
		r.destinations[o.to] = struct{}{}
		return
	}
	if r.result.Faults == nil {
		r.result.Faults = map[FaultKind]uint64{}
	}
	r.result.Faults[f.Kind]++
	if len(r.result.Examples) < maxExamples {
		r.result.Examples = append(r.result.Examples, f.Error())
	}
}

// sum closes the access logs and completes the result.
func (r *run) sum(elapsed time.Duration) (*Result, error) {
	for _, log := range r.logs {
		if err := log.close(r.load.Timeout); err != nil {
			return nil, fmt.Errorf("target %q: closing the access log stream: %w", r.load.Target, err)
		}
	}
	res := r.result
	res.Elapsed = elapsed
	res.PerSecond = float64(res.Decisions) / elapsed.Seconds()
	res.Destinations = len(r.destinations)
	res.P50, res.P99 = r.latency.quantile(0.5), r.latency.quantile(0.99)
	res.Max = time.Duration(r.latency.max.Load())
	return &res, nil
}
