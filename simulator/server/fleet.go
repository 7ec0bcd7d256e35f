package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/fairlead/fairlead/simulator/engine"
)

// Fleet is a running set of engines. Its methods may be called from any goroutine.
type Fleet struct {
	options Options
	clock   Clock
	record  *recorder
	hosts   []*host
	detach  func() bool // from the context of Start
	once    sync.Once
}

// Start listens and serves, and returns once every engine accepts connections. The fleet runs until Close, or until ctx is
// done. In a test:
//
//	sim, err := server.Start(t.Context(), server.Options{Engines: 2, Speed: 100})
//	if err != nil { t.Fatal(err) }
//	defer sim.Close()
//	url := "http://" + sim.Addrs()[0].String() + "/v1/chat/completions"
func Start(ctx context.Context, o Options) (*Fleet, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: o, clock: WallClock(o.Speed)}
	if o.Record != nil {
		f.record = &recorder{w: o.Record}
	}
	for i := range o.Engines {
		port := 0
		if o.Port > 0 {
			port = o.Port + i
		}
		h := newHost(f, i)
		f.hosts = append(f.hosts, h)
		if err := h.start(port); err != nil {
			return nil, errors.Join(fmt.Errorf("simulator: engine %d: %w", i, err), f.Close())
		}
		if err := h.setFaults(o.Faults); err != nil {
			return nil, errors.Join(fmt.Errorf("simulator: engine %d: %w", i, err), f.Close())
		}
	}
	f.detach = context.AfterFunc(ctx, func() { f.Close() })
	return f, nil
}

// Addrs returns where the engines listen, in their order.
func (f *Fleet) Addrs() []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(f.hosts))
	for i, h := range f.hosts {
		addrs[i] = h.addr
	}
	return addrs
}

// Close ends everything: connections are cut, and no goroutine of the fleet is left when it returns. A second call does
// nothing.
func (f *Fleet) Close() error {
	var errs []error
	f.once.Do(func() {
		if f.detach != nil {
			f.detach()
		}
		for _, h := range f.hosts {
			errs = append(errs, h.stop())
		}
	})
	return errors.Join(errs...)
}

// shutdown lets running answers end, as long as ctx allows, and then closes the fleet.
func (f *Fleet) shutdown(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, h := range f.hosts {
		wg.Go(func() { h.drain(ctx) })
	}
	wg.Wait()
	return f.Close()
}

// SetFaults replaces what is wrong with engine i; the zero Faults make it healthy.
func (f *Fleet) SetFaults(i int, faults Faults) error {
	h, err := f.host(i)
	if err != nil {
		return err
	}
	return h.setFaults(faults)
}

// Stop kills engine i as a crash would: its port is closed, its connections are cut, its cache is lost.
func (f *Fleet) Stop(i int) error {
	h, err := f.host(i)
	if err != nil {
		return err
	}
	return h.stop()
}

// Restart brings a stopped engine back on its port: healthy, with an empty cache and counters at zero.
func (f *Fleet) Restart(i int) error {
	h, err := f.host(i)
	if err != nil {
		return err
	}
	return h.start(int(h.addr.Port()))
}

// Gauges returns the state of engine i at this moment of engine time; false for an engine that does not run.
func (f *Fleet) Gauges(i int) (engine.Gauges, bool) {
	p := f.running(i)
	if p == nil {
		return engine.Gauges{}, false
	}
	g, _ := p.snapshot()
	return g, true
}

// Counters returns the running totals of engine i; false for an engine that does not run.
func (f *Fleet) Counters(i int) (engine.Counters, bool) {
	p := f.running(i)
	if p == nil {
		return engine.Counters{}, false
	}
	_, c := p.snapshot()
	return c, true
}

func (f *Fleet) host(i int) (*host, error) {
	if i < 0 || i >= len(f.hosts) {
		return nil, fmt.Errorf("simulator: engine %d; there are %d, from 0", i, len(f.hosts))
	}
	return f.hosts[i], nil
}

func (f *Fleet) running(i int) *pod {
	h, err := f.host(i)
	if err != nil {
		return nil
	}
	return h.current()
}
