// Package server runs simulated vLLM engines in wall-clock time behind vLLM's HTTP API: OpenAI chat and completions, model
// list, health and metrics. One process serves many engines, each on a port of its own.
//
// The step model is package engine; this package gives it a clock, text and connections. An engine's clock may run faster
// than the wall's. Steps happen at their exact instants of engine time even if the process wakes up late, so the figures
// that an engine reports (its metrics page, and the member "sim" at the end of an answer) do not depend on the machine.
//
// What is simulated beyond vLLM's API is asked for explicitly: faults, a fixed event stream, and response headers that let a
// test compare what was sent with what arrived. They are described at Faults and ServeHTTP.
package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// Options say what to serve. The zero Options are one engine of the profile h100-sxm with llama-3.1-8b on a free loopback
// port, as fast as the hardware.
type Options struct {
	// Engines is the number of engines; 0 is 1.
	Engines int

	// Bind is the address to listen on; empty is 127.0.0.1. Port is the first engine's port, the others follow; 0 gives each
	// a free one.
	Bind string
	Port int

	// Profile is what each engine is; zero is the first of engine.Profiles. Engine is its settings; MaxWaiting 0 is 16,384
	// here, since a server bounds what it holds.
	Profile engine.Profile
	Engine  engine.Options

	// ServedNames are further names of the model. The first, if any, is what metrics and answers call it.
	ServedNames []string

	// Adapters are LoRA adapters that may be asked for as models from the start; Engine.Adapters is their number.
	// Engine.MaxLoras 0 is 1 where there are any.
	Adapters []Adapter

	// Speed is how many times faster than the wall engine time runs; 0 is 1.
	Speed float64

	// Seed changes the generated text and, where the client does not say how long, its length.
	Seed uint64

	// OutputMin and OutputMax bound, in tokens, the answers whose length the client leaves open; 0 is 32 and 480.
	OutputMin, OutputMax int32

	// Flush is how long, in wall time, generated tokens may be held back to be written together; the first and the last token
	// of an answer never are. 0 is 10 ms.
	Flush time.Duration

	// MaxBodyBytes bounds request bodies; 0 is 64 MiB. MaxConnections bounds open connections per engine; 0 is 16,384.
	MaxBodyBytes   int64
	MaxConnections int

	// Dialect is the metrics page's; empty is vLLM 0.32's.
	Dialect Dialect

	// Fake replaces gauges of the metrics page; nil is none.
	Fake *Fake

	// Record is where what each engine was given, and each of its steps, is written; nil is nowhere. See recorder.
	Record io.Writer

	// Faults is what is wrong with every engine from the start.
	Faults Faults

	// Out is where Run writes what it serves and on which addresses, a line each; nil is nowhere.
	Out io.Writer

	// Log hears of starts, stops and connection errors; nil is silence.
	Log *slog.Logger
}

const (
	defaultMaxWaiting     = 16_384
	defaultMaxConnections = 16_384
	defaultMaxBodyBytes   = 64 << 20
	defaultFlush          = 10 * time.Millisecond
	defaultOutputMin      = 32
	defaultOutputMax      = 480
	maxEngines            = 1024
	maxSpeed              = 1e6
)

// withDefaults fills in what is zero and refuses what makes no sense.
func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Engines, 1)
	setDefault(&o.Bind, "127.0.0.1")
	setDefault(&o.Speed, 1)
	setDefault(&o.Flush, defaultFlush)
	setDefault(&o.MaxBodyBytes, defaultMaxBodyBytes)
	setDefault(&o.MaxConnections, defaultMaxConnections)
	setDefault(&o.OutputMin, defaultOutputMin)
	setDefault(&o.OutputMax, max(defaultOutputMax, o.OutputMin))
	setDefault(&o.Engine.MaxWaiting, defaultMaxWaiting)
	if o.Profile == (engine.Profile{}) {
		o.Profile = engine.Profiles()[0]
	}
	o.Engine.Adapters = int32(len(o.Adapters))
	if len(o.Adapters) > 0 {
		setDefault(&o.Engine.MaxLoras, 1)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Engines < 1 || o.Engines > maxEngines:
		return o, fmt.Errorf("simulator: %d engines; 1 to %d", o.Engines, maxEngines)
	case o.Port < 0 || o.Port > 0 && o.Port+o.Engines-1 > 65_535:
		return o, fmt.Errorf("simulator: ports %d to %d; they must be within 1 to 65535, or the first 0 for free ones", o.Port, o.Port+o.Engines-1)
	case !(o.Speed > 0 && o.Speed <= maxSpeed):
		return o, fmt.Errorf("simulator: speed is %v; above 0 and at most %v", o.Speed, float64(maxSpeed))
	case o.OutputMin < 1 || o.OutputMax < o.OutputMin:
		return o, fmt.Errorf("simulator: answers of %d to %d tokens; at least 1, and the first not above the second", o.OutputMin, o.OutputMax)
	case o.Flush < 0 || o.MaxBodyBytes < 0 || o.MaxConnections < 0:
		return o, fmt.Errorf("simulator: flush %v, body bytes %d, connections %d; none may be negative", o.Flush, o.MaxBodyBytes, o.MaxConnections)
	}
	if _, err := netip.ParseAddr(o.Bind); err != nil {
		return o, fmt.Errorf("simulator: bind address %q is no IP address; use 127.0.0.1 or ::1 for this machine alone", o.Bind)
	}
	if err := o.Dialect.check(); err != nil {
		return o, fmt.Errorf("simulator: %w", err)
	}
	if err := o.Fake.check(); err != nil {
		return o, fmt.Errorf("simulator: %w", err)
	}
	if err := o.Faults.check(); err != nil {
		return o, fmt.Errorf("simulator: %w", err)
	}
	return o, nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Run serves until ctx is done, then ends: running answers get five seconds. The error is that of the start; the end by ctx
// is none.
func Run(ctx context.Context, o Options) error {
	fleet, err := Start(context.WithoutCancel(ctx), o)
	if err != nil {
		return err
	}
	out := fleet.options.Out
	p := fleet.hosts[0].current().engine.Profile()
	fmt.Fprintf(out, "simulating %s on %s: %d KV blocks of %d tokens, %d tokens and %d requests a step, engine time %gx\n",
		p.Model, p.Hardware, p.Blocks, p.BlockTokens, p.MaxBatchedTokens, p.MaxSeqs, fleet.options.Speed)
	for i, addr := range fleet.Addrs() {
		fmt.Fprintf(out, "engine %d: http://%s\n", i, addr)
	}
	<-ctx.Done()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return fleet.shutdown(patience)
}
