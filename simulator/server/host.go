package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// host is the place of one engine: its address, what is wrong with it, the fixed stream that was stored, and the pod that
// lives there at present. Address and index outlive a crash, the rest does not.
type host struct {
	fleet *Fleet
	index int
	addr  netip.AddrPort
	log   *slog.Logger

	pod      atomic.Pointer[pod] // nil while stopped
	requests atomic.Uint64       // names for requests that bring none

	faults atomic.Pointer[Faults]
	frozen atomic.Pointer[[]byte] // the metrics page under StaleMetrics
	fixed  atomic.Pointer[[]byte] // the stored event stream

	bigBodies chan struct{} // a token per large body in memory

	mu      sync.Mutex // guards the life cycle; no handler takes it
	server  *http.Server
	serving sync.WaitGroup

	faultsMu sync.Mutex // one change of faults at a time

	connsMu  sync.Mutex
	conns    map[net.Conn]http.ConnState
	handling int       // requests in ServeHTTP
	idle     sync.Cond // handling is 0
}

// bigBody is the size from which request bodies wait for one of bigBodiesAtOnce places, so that memory is bounded.
const (
	bigBody         = 1 << 20
	bigBodiesAtOnce = 8
)

func newHost(f *Fleet, index int) *host {
	h := &host{
		fleet:     f,
		index:     index,
		log:       f.options.Log.With("engine", index),
		bigBodies: make(chan struct{}, bigBodiesAtOnce),
		conns:     map[net.Conn]http.ConnState{},
	}
	h.idle.L = &h.connsMu
	h.faults.Store(&Faults{})
	return h
}

func (h *host) current() *pod { return h.pod.Load() }

// start listens on port, 0 for a free one, and serves a fresh engine.
func (h *host) start(port int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		return fmt.Errorf("engine %d runs already on %s", h.index, h.addr)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(h.fleet.options.Bind, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	p, err := newPod(h.fleet.options, h.index, h.fleet.clock, h.fleet.record)
	if err != nil {
		l.Close()
		return err
	}
	if !h.addr.IsValid() { // a restart keeps it
		bound := l.Addr().(*net.TCPAddr).AddrPort()
		h.addr = netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port())
	}
	h.faults.Store(&Faults{})
	h.frozen.Store(nil)
	h.pod.Store(p)
	h.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    256 << 10,
		ConnState:         h.track,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	server := h.server
	h.serving.Go(func() { _ = server.Serve(&gate{Listener: l, host: h}) })
	h.log.Info("engine started", "address", h.addr)
	return nil
}

// stop cuts all connections and ends the engine. A stopped host stays as it is.
func (h *host) stop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return nil
	}
	err := h.server.Close()
	h.serving.Wait()
	h.pod.Swap(nil).close()
	h.connsMu.Lock()
	for h.handling > 0 {
		h.idle.Wait()
	}
	h.connsMu.Unlock()
	h.server = nil
	h.log.Info("engine stopped", "address", h.addr)
	return err
}

// drain stops listening and waits, as long as ctx allows, for the answers under way.
func (h *host) drain(ctx context.Context) {
	h.mu.Lock()
	server := h.server
	h.mu.Unlock()
	if server == nil {
		return
	}
	if err := server.Shutdown(ctx); err != nil {
		h.log.Warn("answers cut short at the end", "error", err)
	}
}

// setFaults makes f hold from now on.
func (h *host) setFaults(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	h.faultsMu.Lock()
	defer h.faultsMu.Unlock()
	p := h.current()
	if p == nil {
		return fmt.Errorf("engine %d is stopped; restart it first", h.index)
	}
	p.setSlowdown(max(f.Slow, 0))
	p.setHung(f.Hang)
	switch {
	case !f.StaleMetrics:
		h.frozen.Store(nil)
	case h.frozen.Load() == nil:
		page := p.page(nil, time.Now())
		h.frozen.Store(&page)
	}
	h.faults.Store(&f)
	if f.Refuse {
		h.closeIdle()
	}
	return nil
}

// setFixed stores the event stream for x-sim-fixed-sse.
func (h *host) setFixed(body []byte) {
	stored := bytes.Clone(body)
	h.fixed.Store(&stored)
}

// gate is the listener: it turns connections away where there are too many, or where the engine refuses.
type gate struct {
	net.Listener
	host *host
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !g.host.faults.Load().Refuse && g.host.open() < g.host.fleet.options.MaxConnections {
			return c, nil
		}
		reset(c)
	}
}

// reset closes c with a TCP reset in place of an orderly end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

func (h *host) track(c net.Conn, s http.ConnState) {
	h.connsMu.Lock()
	defer h.connsMu.Unlock()
	if s == http.StateClosed || s == http.StateHijacked {
		delete(h.conns, c)
		return
	}
	h.conns[c] = s
}

func (h *host) open() int {
	h.connsMu.Lock()
	defer h.connsMu.Unlock()
	return len(h.conns)
}

// enter and leave count the requests being handled, so that stop can wait for them.
func (h *host) enter() {
	h.connsMu.Lock()
	h.handling++
	h.connsMu.Unlock()
}

func (h *host) leave() {
	h.connsMu.Lock()
	h.handling--
	if h.handling == 0 {
		h.idle.Broadcast()
	}
	h.connsMu.Unlock()
}

func (h *host) closeIdle() {
	h.connsMu.Lock()
	defer h.connsMu.Unlock()
	for c, s := range h.conns {
		if s == http.StateIdle {
			reset(c)
		}
	}
}
