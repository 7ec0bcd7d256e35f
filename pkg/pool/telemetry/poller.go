package telemetry

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/engines"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The defaults and bounds of Options.
const (
	DefaultInterval    = time.Second
	DefaultTimeout     = 800 * time.Millisecond // less than the interval: a page that comes later says little
	DefaultConcurrency = 256
	DefaultMaxPage     = 4 << 20
	DefaultPath        = "/metrics"

	// MinInterval is the shortest interval: a page costs an engine more than it costs us, and what is booked is known
	// without it.
	MinInterval = 50 * time.Millisecond

	jitter = 0.1 // of the interval, either way
)

// Options are the parameters of a Poller. Zero takes the default.
type Options struct {
	Pools []*pool.Pool
	Sink  reason.Sink         // nil discards
	Clock func() pool.Instant // required

	Interval    time.Duration // between two pages of an endpoint, ±10 %; DefaultInterval, at least MinInterval
	Timeout     time.Duration // for a whole page; DefaultTimeout
	Concurrency int           // pages asked for at the same time, over all pools; DefaultConcurrency
	MaxPage     int           // bytes; a longer page counts as failed; DefaultMaxPage
	Path        string        // on every endpoint; empty is the engine's own, mostly DefaultPath
	Scheme      string        // http or https; http
	Port        uint16        // of the page on endpoints that have no metrics port of their own; 0 is the one that serves

	// Engines says what the endpoints run, and what those call their quantities.
	Engines engines.Choice

	// Models lists by pool the names of its models. Of a page with series of several models those of the pool count; see
	// NewScanner.
	Models map[string][]string

	// Scraped hears of each page, from any goroutine; nil for nobody.
	Scraped func(Scrape)

	// TLS is for https; nil is Go's default.
	TLS *tls.Config

	// Transport carries the requests; nil is one with a kept-alive connection per endpoint and without proxy.
	Transport http.RoundTripper
}

// Scrape is what Scraped is told of one page.
type Scrape struct {
	Pool     *pool.Pool
	Endpoint *pool.Endpoint // must not be modified
	Took     time.Duration
	Bytes    int
	Rejected int     // series
	Outcome  Outcome // OK if there is a sample
	Err      error   // why there is none; nil if there is one
}

// check fills in the defaults.
func (o *Options) check() error {
	or(&o.Interval, DefaultInterval)
	or(&o.Timeout, min(DefaultTimeout, o.Interval*8/10))
	or(&o.Concurrency, DefaultConcurrency)
	or(&o.MaxPage, DefaultMaxPage)
	or(&o.Scheme, "http")
	switch {
	case o.Clock == nil:
		return fmt.Errorf("telemetry: no clock is given")
	case o.Interval < MinInterval:
		return fmt.Errorf("telemetry: interval is %v; at least %v", o.Interval, MinInterval)
	case o.Timeout < 0:
		return fmt.Errorf("telemetry: timeout is %v; more than 0", o.Timeout)
	case o.Concurrency < 0:
		return fmt.Errorf("telemetry: concurrency is %d; at least 1", o.Concurrency)
	case o.MaxPage < 0:
		return fmt.Errorf("telemetry: the bound of a page is %d bytes; at least 1", o.MaxPage)
	case o.Scheme != "http" && o.Scheme != "https":
		return fmt.Errorf("telemetry: scheme is %q; http or https", o.Scheme)
	case o.Path != "" && !strings.HasPrefix(o.Path, "/"), strings.ContainsAny(o.Path, " \t\r\n#"):
		return fmt.Errorf("telemetry: path is %q; it begins with / and has no blanks, like %s", o.Path, DefaultPath)
	}
	if o.Sink == nil {
		o.Sink = reason.Discard{}
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        3*o.Interval + time.Minute,
			DisableCompression:     true, // costs both sides more than it saves
			MaxResponseHeaderBytes: 16 << 10,
			TLSClientConfig:        o.TLS,
			ReadBufferSize:         32 << 10, // a page in two or three reads
		}
	}
	return nil
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Poller asks every endpoint of all pools for its page, again and again. An endpoint that fails keeps its last sample,
// which grows stale.
type Poller struct {
	o      Options
	client http.Client
	tables map[string]*table // by engine
	slots  chan struct{}     // a token per page that may be asked for at the same time
	pages  sync.Pool         // *[]byte
}

// New returns a Poller; an error names the option that is wrong.
func New(o Options) (*Poller, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Poller{
		o:      o,
		client: http.Client{Transport: o.Transport, CheckRedirect: sameHost},
		tables: map[string]*table{},
		slots:  make(chan struct{}, o.Concurrency),
		pages:  sync.Pool{New: func() any { return new([]byte) }},
	}
	for _, e := range o.Engines.All() {
		p.tables[e.Name] = newTable(e)
	}
	if fallback := o.Engines.Named(nil); p.tables[fallback] == nil {
		return nil, fmt.Errorf("telemetry: the default engine is %q; one of %s", fallback, strings.Join(slices.Sorted(maps.Keys(p.tables)), ", "))
	}
	return p, nil
}

// redirectsMax is how many redirects are followed for one page.
const redirectsMax = 3

// sameHost follows redirects that lead to another path. An engine has no reason to send us elsewhere, and whoever has
// should not be able to.
func sameHost(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || len(before) > redirectsMax {
		return http.ErrUseLastResponse
	}
	return nil
}

// identity is what a target is: another name, slot, address or engine is another target.
type identity struct {
	pool            int
	id              pool.ID
	namespace, name string
	metrics         netip.AddrPort // as the membership says
	address         netip.AddrPort // that is asked
	engine          string
}

// identify returns what e is as a target of the i-th pool.
func (p *Poller) identify(i int, e *pool.Endpoint) identity {
	who := identity{i, e.ID, e.Namespace, e.Name, e.Metrics, e.Metrics, p.o.Engines.Named(e.Labels)}
	if p.o.Port != 0 && e.Metrics == e.Addr {
		who.address = netip.AddrPortFrom(e.Metrics.Addr(), p.o.Port)
	}
	return who
}

// Run polls until ctx is done. It looks at the pools' snapshots itself, so that an endpoint is asked within a tenth of the
// interval after it joined. It returns when the last request has ended.
func (p *Poller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer p.client.CloseIdleConnections()
	defer running.Wait()

	// One goroutine per endpoint: those that hang delay nobody but themselves.
	targets := map[identity]context.CancelFunc{}
	seen := make([]*pool.Snapshot, len(p.o.Pools))
	look := time.NewTicker(p.o.Interval / 10)
	defer look.Stop()
	for {
		if p.changed(seen) {
			listed := map[identity]bool{}
			for i, s := range seen {
				for _, id := range s.Members {
					who := p.identify(i, &s.Slots[id])
					listed[who] = true
					if targets[who] != nil {
						continue
					}
					alone, cancel := context.WithCancel(ctx)
					targets[who] = cancel
					t := p.target(who)
					running.Go(func() { t.run(alone) })
				}
			}
			for who, cancel := range targets {
				if !listed[who] {
					cancel()
					delete(targets, who)
				}
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range targets {
				cancel()
			}
			return
		case <-look.C:
		}
	}
}

// changed loads the pools' snapshots into seen, and reports whether one is another.
func (p *Poller) changed(seen []*pool.Snapshot) bool {
	changed := false
	for i, of := range p.o.Pools {
		if s := of.Snapshot(); s != seen[i] {
			seen[i] = s
			changed = true
		}
	}
	return changed
}

// wait returns how long to wait for the next page: about the interval. The first time it is any part of it, so that
// endpoints that joined together are not asked together ever after.
func (p *Poller) wait(first bool) time.Duration {
	if first {
		return time.Duration(float64(p.o.Interval) * (0.1 + 0.9*rand.Float64()))
	}
	return time.Duration(float64(p.o.Interval) * (1 - jitter + 2*jitter*rand.Float64()))
}
