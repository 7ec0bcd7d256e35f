package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Options are what the admin port shows.
type Options struct {
	Metrics   *Metrics
	Scheduler func() *exchange.Scheduler // in force
	Clock     func() pool.Instant

	// AllowEmpty: the process is ready although a pool has no endpoint.
	AllowEmpty bool
	// Config returns the configuration in force.
	Config func() Config
	// Profiles: /debug/pprof is served.
	Profiles bool
	// Heard returns how many streams of other replicas are heard; nil: none is to be.
	Heard func() int
	// Draining is closed when the process takes nothing new any more; nil never is.
	Draining <-chan struct{}
}

// Handlers are what the admin ports serve. Neither has authentication.
type Handlers struct {
	// Metrics has /metrics, /healthz and /readyz.
	Metrics http.Handler
	// Debug has /debug/…: requests' models and addresses, the configuration, profiles. It is for operators alone.
	Debug http.Handler
}

// New returns the handlers, and adds the gauges of the pools to the metrics.
func New(o Options) Handlers {
	a := &admin{o}
	o.Metrics.registry.MustRegister(newGauges(a.books, func() string { return o.Config().Digest }, o.Heard), newPoolGauges(a.books, o.Metrics.legacy),
		newQueueGauges(a.queue, o.Metrics.legacy))
	metrics, debug := http.NewServeMux(), http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics.registry, promhttp.HandlerOpts{}))
	metrics.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	metrics.HandleFunc("GET /readyz", a.readyz)
	debug.HandleFunc("GET /debug/decisions", a.decisions)
	debug.HandleFunc("GET /debug/decisions/{id}", a.decision)
	debug.HandleFunc("GET /debug/books", func(w http.ResponseWriter, _ *http.Request) { write(w, a.books()) })
	debug.HandleFunc("GET /debug/latency", a.latency)
	debug.HandleFunc("GET /debug/queue", func(w http.ResponseWriter, _ *http.Request) { write(w, a.queue()) })
	debug.HandleFunc("GET /debug/config", a.config)
	if o.Profiles {
		debug.HandleFunc("GET /debug/pprof/", pprof.Index)
		debug.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		debug.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		debug.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		debug.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return Handlers{Metrics: metrics, Debug: debug}
}

// OnePort serves both on one port, what is for operators alone only to clients on a loopback address: kubectl port-forward
// is one, and so is a shell in the pod.
func (h Handlers) OnePort() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h.Metrics)
	mux.HandleFunc("/debug/", func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "/debug is served to clients on this host alone; --debug-port gives it a port of its own", http.StatusForbidden)
			return
		}
		h.Debug.ServeHTTP(w, r)
	})
	return mux
}

type admin struct{ o Options }

func (a *admin) books() Books { return readBooks(a.o.Clock(), a.o.Scheduler()) }

func (a *admin) queue() Queue { return readQueue(a.o.Clock(), a.o.Scheduler()) }

func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// ready says why the process is not ready, nil if it is.
func (a *admin) ready() error {
	select {
	case <-a.o.Draining:
		return errors.New("draining")
	default:
	}
	if a.o.AllowEmpty {
		return nil
	}
	for _, p := range a.o.Scheduler().Pools() {
		if len(p.Snapshot().Members) == 0 {
			return fmt.Errorf("pool %q has no endpoint", p.Name)
		}
	}
	return nil
}

// brief is a line of the list of decisions. Ending is running, clean or a reason's code; empty for a refusal.
type brief struct {
	ID      string `json:"id"`
	At      string `json:"at"`
	API     string `json:"api"`
	Pool    string `json:"pool,omitempty"`
	Chosen  string `json:"chosen,omitempty"`
	Refused string `json:"refused,omitempty"`
	Ending  string `json:"ending,omitempty"`
}

// decisions lists the newest records, a hundred of them or as many as ?limit says.
func (a *admin) decisions(w http.ResponseWriter, r *http.Request) {
	limit := 100
	if q := r.URL.Query().Get("limit"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 1 {
			http.Error(w, fmt.Sprintf("limit is %.40q; it must be a number of at least 1", q), http.StatusBadRequest)
			return
		}
		limit = n
	}
	s := a.o.Scheduler()
	ids := s.Decisions()
	list := []brief{}
	for _, id := range ids[:min(limit, len(ids))] {
		doc, ok := s.Decision(id)
		if !ok {
			continue
		}
		rec := &doc.Record
		b := brief{ID: id, At: rec.At.Format(time.RFC3339Nano), API: rec.API, Pool: rec.Target.Pool, Ending: "running"}
		if len(rec.Legs) > 0 {
			b.Chosen = rec.Legs[0].Endpoints[0].Name
		}
		if rec.Refused != nil {
			b.Refused, b.Ending = rec.Refused.Code, ""
		}
		if rec.Outcome != nil {
			b.Ending = rec.Outcome.EndingCode
			if b.Ending == "" {
				b.Ending = "clean"
			}
		}
		list = append(list, b)
	}
	write(w, list)
}

func (a *admin) decision(w http.ResponseWriter, r *http.Request) {
	doc, ok := a.o.Scheduler().Decision(r.PathValue("id"))
	if !ok {
		http.Error(w, "no record of this decision is kept; /debug/decisions lists those that are", http.StatusNotFound)
		return
	}
	write(w, doc)
}

func write(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("content-type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}
