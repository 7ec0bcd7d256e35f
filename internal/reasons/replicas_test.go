package reasons

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/replicas"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// hearing is a reason that a replica comes to which hears what another one serves. then runs when the stream is asked for.
func hearing(id reason.ID, serve func(w *world, to http.ResponseWriter, r *http.Request)) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, byChance, nil)
		server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) { serve(w, to, r) }))
		self := self(w)
		l := replicas.NewListener(replicas.ListenerOptions{Self: self, Names: []string{server.Listener.Addr().String()}, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		w.wait(t, id)
		cancel()
		<-done
		server.Close()
		return w.heard
	}
}

func self(w *world) replicas.Self {
	return replicas.Self{ID: "self", Scheduler: func() *exchange.Scheduler { return w.s }, Clock: func() pool.Instant { return w.now }, Sink: w}
}

// says serves a stream with these bytes, which stays open if it is to last.
func says(text string, lasts bool) func(*world, http.ResponseWriter, *http.Request) {
	return func(_ *world, to http.ResponseWriter, r *http.Request) {
		to.Header().Set(replicas.Header, "other")
		_, _ = to.Write([]byte(text))
		if lasts {
			_ = http.NewResponseController(to).Flush()
			<-r.Context().Done()
		}
	}
}

// byReplicas are the reasons of replicas that tell each other of their bookings.
var byReplicas = map[reason.ID]reached{
	reason.ReplicaRefused: hearing(reason.ReplicaRefused, func(_ *world, to http.ResponseWriter, _ *http.Request) { to.WriteHeader(http.StatusOK) }),
	reason.ReplicaLost:    hearing(reason.ReplicaLost, says(string(rune(pool.Anew)), false)),
	reason.OthersUnheard: func(t *testing.T) *heard {
		w := newWorld(t, head+"- type: cost-scorer\n- type: max-score-picker\n", nil)
		sample := pool.NoSample()
		sample.FirstTokens, sample.Waiting, sample.Running = pool.Timed{}, 0, 0
		for range 60 {
			x, a := w.forwarded(w.ask(seesHeaders, hello))
			w.now += pool.Instant(time.Second)
			x.Response(w.now, ok(), a.To[0], true)
			sample.At = w.now
			sample.FirstTokens.Count += 2 // of each of two engines
			sample.FirstTokens.Seconds += 0.1
			s := w.pools[0].Snapshot()
			for _, id := range s.Members {
				w.pools[0].Observe(w.now, s.Slots[id].Ref, sample)
			}
		}
		return w.heard
	},
	reason.DecidedAnew: func(t *testing.T) *heard {
		w := newWorld(t, head+"- type: cost-scorer\n- type: max-score-picker\n", nil)
		p, m := w.pools[0], pool.Mirror{First: true}
		chose := func(slot uint32, to netip.AddrPort, turn int64) {
			e := pool.Event{Kind: pool.Booked, Booking: pool.Booking{Slot: slot, Generation: 1}, To: to, Load: pool.Load{UncachedPrefill: 5000}, Left: time.Minute, Turn: turn}
			w.s.Hear(w.now, p, &m, []pool.Event{e})
		}
		chose(1, p.Snapshot().Slots[0].Addr, 1)
		x, _ := w.ask(seesHeaders, `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("Tell me more. ", 2000)+`"}]}`)
		for i, id := range p.Snapshot().Members { // wherever it is
			chose(uint32(i+2), p.Snapshot().Slots[id].Addr, 1)
		}
		w.now += pool.Instant(exchange.Defaults().ReplicaWait)
		w.s.Tick(w.now)
		x.Resume(w.now)
		w.now += pool.Instant(exchange.Defaults().ReplicaWait)
		w.forwarded(x, x.Resume(w.now))
		return w.heard
	},
	reason.HearsayUnknown: hearing(reason.HearsayUnknown, says(string([]byte{byte(pool.Ended), 1, 1}), true)),
	reason.ReplicaBehind: hearing(reason.ReplicaBehind, func(w *world, to http.ResponseWriter, r *http.Request) {
		me := self(w)
		me.ID = "other"
		began := false
		// The journal keeps less than one event; it is read from when the stream has begun.
		replicas.NewTeller(me, 4).ServeHTTP(writes(to, func() {
			if !began {
				began = true
				w.pools[0].Decide(func(s *pool.Snapshot, b *pool.Books) { b.Book(s.Slots[0].Ref, pool.Load{}, w.now+1) })
			}
		}), r)
	}),
}

// writing is a response of which somebody is told.
type writing struct {
	http.ResponseWriter
	told func()
}

func writes(w http.ResponseWriter, told func()) http.ResponseWriter { return &writing{w, told} }

func (w *writing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writing) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.told()
	return n, err
}
