package replicas

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Times of who listens. Names are looked up every lookup; a stream that ended is asked for again after retry at first and after
// retryMost at last; whether an address is still this process's own, or that of a replica that is heard already, after recheck.
const (
	lookup    = 5 * time.Second
	retry     = 100 * time.Millisecond
	retryMost = 5 * time.Second
	recheck   = 30 * time.Second
)

// MaxReplicas bounds how many names there may be, and how many addresses are followed, of all names together; further ones are
// refused. idMost bounds the length of what a replica calls itself, headerMost that of an answer's headers.
const (
	MaxReplicas = 64
	idMost      = 64
	headerMost  = 16 << 10
)

// ListenerOptions say whom a Listener hears.
type ListenerOptions struct {
	Self

	// Names are where replicas serve their streams, each a host and a port; a host stands for all its addresses, the own one
	// among them.
	Names []string

	TLS    *tls.Config // nil: plaintext; its ServerName is that of each name
	Log    *slog.Logger
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Listener follows the streams of the other replicas.
type Listener struct {
	ListenerOptions

	mu    sync.Mutex
	heard map[stream]netip.AddrPort // where each stream comes from
	ends  chan struct{}             // closed, and another one made, when a stream ends
}

// stream is what one replica tells of one pool.
type stream struct {
	replica string
	pool    *pool.Pool
}

// source is where a stream is asked for. A configuration may bring another pool of a name that was there before.
type source struct {
	at   netip.AddrPort
	name string // of which at is an address
	pool *pool.Pool
}

// NewListener returns a Listener. Without Lookup and Dial those of the system are used.
func NewListener(o ListenerOptions) *Listener {
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: patience}).DialContext
	}
	return &Listener{ListenerOptions: o, heard: map[stream]netip.AddrPort{}, ends: make(chan struct{})}
}

// Heard returns how many streams are heard at present.
func (l *Listener) Heard() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard)
}

// Run follows all replicas until ctx ends.
func (l *Listener) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	following := map[source]context.CancelFunc{}
	known := map[string][]netip.AddrPort{}
	again := time.NewTicker(lookup)
	defer again.Stop()
	for {
		wanted, addresses := map[source]bool{}, map[netip.AddrPort]bool{}
		for _, name := range l.Names {
			found, err := l.addresses(ctx, name)
			if err == nil {
				known[name] = found
			} else if ctx.Err() == nil { // those that were known stay
				l.Sink.Note(reason.ReplicaRefused, name+": "+err.Error())
			}
			left := 0
			for _, at := range known[name] {
				if !addresses[at] && len(addresses) == MaxReplicas {
					left++
					continue
				}
				addresses[at] = true
				for _, p := range l.Scheduler().Pools() {
					wanted[source{at, name, p}] = true
				}
			}
			if left > 0 {
				l.Sink.Note(reason.ReplicaRefused, fmt.Sprintf("%s has %d addresses; %d are not followed, since %d are of all names together", name, len(known[name]), left, MaxReplicas))
			}
		}
		for s, stop := range following {
			if !wanted[s] {
				stop()
				delete(following, s)
			}
		}
		for s := range wanted {
			if following[s] == nil {
				one, stop := context.WithCancel(ctx)
				following[s] = stop
				all.Go(func() { l.follow(one, s) })
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range following {
				stop()
			}
			return
		case <-again.C:
		}
	}
}

// addresses are those of a name, the same ones in the same order each time.
func (l *Listener) addresses(ctx context.Context, name string) (out []netip.AddrPort, err error) {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := l.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, netip.Addr.Compare) // names come in another order each time
	for _, a := range found {
		out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(number)))
	}
	return out, nil
}

// Why an address is not listened to, though it answers.
var (
	errSelf  = errors.New("it is this process")
	errKnown = errors.New("it is a replica that is heard at another address")
)

// follow hears one source until ctx ends.
func (l *Listener) follow(ctx context.Context, s source) {
	transport := &http.Transport{DialContext: l.Dial, TLSClientConfig: l.TLS, ResponseHeaderTimeout: patience, DisableCompression: true, MaxConnsPerHost: 1, MaxResponseHeaderBytes: headerMost}
	if l.TLS != nil {
		transport.TLSClientConfig = l.TLS.Clone()
		transport.TLSClientConfig.ServerName, _, _ = net.SplitHostPort(s.name)
	}
	defer transport.CloseIdleConnections()
	wait := retry
	for ctx.Err() == nil {
		began, ends := l.Clock(), l.nextEnd()
		heard, err := l.hear(ctx, transport, s)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errSelf):
			wait, ends = recheck, nil
		case errors.Is(err, errKnown):
			wait = recheck // unless that may be the one that has ended
		case heard:
			ends = nil
			l.Sink.Note(reason.ReplicaLost, fmt.Sprintf("%s, pool %s: %v", s.at, s.pool.Name, err))
			if time.Duration(l.Clock()-began) > retryMost {
				wait = retry
				break
			}
			wait = min(2*wait, retryMost) // one that always ends soon is not asked for all that is open ten times a second
		default:
			ends = nil
			l.Sink.Note(reason.ReplicaRefused, fmt.Sprintf("%s, pool %s: %v", s.at, s.pool.Name, err))
			wait = min(2*wait, retryMost)
		}
		// Replicas that lost each other at once need not all be back at once.
		later := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
		case <-later.C:
		case <-ends:
		}
		later.Stop()
	}
}

// hear follows one stream to its end, and reports whether it had begun.
func (l *Listener) hear(ctx context.Context, transport *http.Transport, s source) (begun bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(fmt.Errorf("nothing was heard for %v", patience)) })
	defer silence.Stop()
	scheme := "http"
	if l.TLS != nil {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.at.String()+Path+"?pool="+url.QueryEscape(s.pool.Name), nil)
	if err != nil {
		return false, err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	id := answer.Header.Get(Header)
	switch {
	case id == "":
		return false, fmt.Errorf("who answers there with status %d is no replica; check --replicas", answer.StatusCode)
	case len(id) > idMost:
		return false, fmt.Errorf("who answers there calls itself a name of %d bytes, and is no replica; check --replicas", len(id))
	case id == l.ID:
		return false, errSelf
	case answer.StatusCode != http.StatusOK:
		return false, fmt.Errorf("status %d; check that all replicas have the same configuration", answer.StatusCode)
	}
	p := s.pool
	what := stream{id, s.pool}
	if !l.enter(what, s.at) {
		return false, errKnown
	}
	defer l.leave(what)
	l.Log.Info("hears of a replica's bookings", "replica", id, "address", s.at, "pool", p.Name)
	m := pool.Mirror{First: id < l.ID} // both sides know both names
	defer func() { p.Forget(l.Clock(), &m) }()
	err = l.listen(answer.Body, p, &m, func() { silence.Reset(patience) })
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return true, err
}

// enter notes that a stream is heard, and reports false if it is already.
func (l *Listener) enter(s stream, at netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.heard[s]; known {
		return false
	}
	l.heard[s] = at
	return true
}

func (l *Listener) leave(s stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, s)
	close(l.ends)
	l.ends = make(chan struct{})
}

// nextEnd is closed when a stream ends.
func (l *Listener) nextEnd() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends
}

// together bounds how many events are taken in at once.
const together = 256

// listen takes in what body brings, until it ends.
func (l *Listener) listen(body interface{ Read([]byte) (int, error) }, p *pool.Pool, m *pool.Mirror, heard func()) error {
	r := reader{from: bufio.NewReaderSize(body, 64<<10)}
	var events []pool.Event
	for {
		events = events[:0]
		r.forget()
		for len(events) < together && (len(events) == 0 || r.from.Buffered() > 0) {
			e, err := r.event()
			if err != nil {
				return err
			}
			if e.Kind == alive {
				break
			}
			events = append(events, e)
		}
		heard()
		if len(events) == 0 {
			continue
		}
		if useless := l.Scheduler().Hear(l.Clock(), p, m, events); useless > 0 {
			l.Sink.Note(reason.HearsayUnknown, p.Name)
		}
	}
}
