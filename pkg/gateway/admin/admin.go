package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	// Draining is closed when the process takes nothing new any more; nil never is.
	Draining <-chan struct{}
}

// New returns the handler of the admin port, and adds the gauges of the pools to the metrics. It has no authentication:
// bind it where only operators reach it.
func New(o Options) http.Handler {
	a := &admin{o}
	o.Metrics.registry.MustRegister(newGauges(a.books, func() string { return o.Config().Digest }), newPoolGauges(a.books, o.Metrics.legacy))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /debug/decisions", a.decisions)
	mux.HandleFunc("GET /debug/decisions/{id}", a.decision)
	mux.HandleFunc("GET /debug/books", func(w http.ResponseWriter, _ *http.Request) { write(w, a.books()) })
	mux.HandleFunc("GET /debug/config", a.config)
	return mux
}

type admin struct{ o Options }

func (a *admin) books() Books { return readBooks(a.o.Clock(), a.o.Scheduler()) }

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
