package replicas

import (
	"context"
	"log"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Path is where streams are served; ?pool= names the pool. The header of an answer that names the replica is Header.
const (
	Path   = "/replicas/v1/bookings"
	Header = "Fairlead-Replica"
)

// Times of a stream. Between two messages is pause, and what happens meanwhile goes together, but a booking goes at once with all that is
// there, since others choose without it until it comes. After quiet without any message a sign of life is sent; who does not take what
// is sent within patience is left, and so is who is not heard of for as long.
const (
	pause    = time.Millisecond
	quiet    = time.Second
	patience = 3 * time.Second
)

// DefaultKeptBytes is how much of what a pool tells is kept for those who read slowly: some 100,000 events.
const DefaultKeptBytes = 4 << 20

// Self is what both sides of a replica know of it.
type Self struct {
	ID        string                     // another one in each process
	Scheduler func() *exchange.Scheduler // in force
	Clock     func() pool.Instant
	Sink      reason.Sink
}

// pool returns the pool of this name.
func (s *Self) pool(name string) *pool.Pool {
	pools := s.Scheduler().Pools()
	if i := slices.IndexFunc(pools, func(p *pool.Pool) bool { return p.Name == name }); i >= 0 {
		return pools[i]
	}
	return nil
}

// Teller serves streams of the own bookings.
type Teller struct {
	Self
	kept int

	mu       sync.Mutex
	journals map[*pool.Pool]*journal // of pools that somebody reads of
}

// NewTeller returns a Teller that keeps so many bytes of what each pool has told.
func NewTeller(s Self, kept int) *Teller {
	return &Teller{Self: s, kept: kept, journals: map[*pool.Pool]*journal{}}
}

// open has a reader told of a pool's events.
func (t *Teller) open(p *pool.Pool, r ear) *journal {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.journals[p]
	if j == nil {
		j = newJournal(t.kept)
		t.journals[p] = j
	}
	if j.read(r) {
		p.Follow(j.tell)
	}
	return j
}

func (t *Teller) close(p *pool.Pool, j *journal, r ear) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.left(r) {
		p.Follow(nil)
		delete(t.journals, p)
	}
}

// ServeHTTP serves one stream, until the reader goes or the server closes.
func (t *Teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(Header, t.ID)
	p := t.pool(r.URL.Query().Get("pool"))
	if p == nil {
		http.Error(w, "this replica has no such pool", http.StatusNotFound)
		return
	}
	hears := newEar()
	j := t.open(p, hears)
	defer t.close(p, j, hears)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	t.stream(r.Context(), http.NewResponseController(w), w, p, j, hears)
}

// stream writes what is open, and then each change.
func (t *Teller) stream(ctx context.Context, to *http.ResponseController, w http.ResponseWriter, p *pool.Pool, j *journal, hears ear) {
	text, at := t.anew(p, j, nil)
	signs := time.NewTicker(quiet)
	defer signs.Stop()
	gather := time.NewTimer(pause)
	defer gather.Stop()
	var sent time.Time
	for {
		if len(text) > 0 {
			// Without a deadline a reader that hangs would hold this goroutine as long as its kernel answers.
			if to.SetWriteDeadline(time.Now().Add(patience)) != nil {
				return
			}
			if _, err := w.Write(text); err != nil || to.Flush() != nil {
				return
			}
			sent = time.Now()
		}
		text = text[:0]
		select {
		case <-ctx.Done():
			return
		case <-signs.C:
			if t.pool(p.Name) != p {
				return // a configuration has taken it away, and perhaps brought another of its name
			}
			text = append(text, alive)
		case <-hears.woken:
			gather.Reset(pause - time.Since(sent)) // at once after a while of rest
			select {
			case <-ctx.Done():
				return
			case <-hears.booked:
			case <-gather.C:
			}
			hears.heard()
		}
		var all bool
		if text, at, all = j.since(at, text); !all {
			t.Sink.Note(reason.ReplicaBehind, p.Name)
			text, at = t.anew(p, j, text[:0])
		}
	}
}

// anew appends what is open, and returns the position from which on the journal has what came after.
func (t *Teller) anew(p *pool.Pool, j *journal, b []byte) (_ []byte, at uint64) {
	p.Replay(t.Clock(), func(e pool.Event) {
		if e.Kind == pool.Anew {
			at = j.position()
		}
		b = appendEvent(b, &e)
	})
	return b, at
}

// Server serves t's streams. What single connections of strangers do wrong is for errors.
func Server(t http.Handler, errors *log.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, t)
	return &http.Server{Handler: mux, ReadHeaderTimeout: patience, IdleTimeout: patience, ErrorLog: errors}
}
