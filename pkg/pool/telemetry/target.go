package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// target is one endpoint that is polled, by one goroutine.
type target struct {
	*Poller
	who     identity
	pool    *pool.Pool
	request *http.Request
	scanner Scanner
}

func (p *Poller) target(who identity) *target {
	request, err := http.NewRequest(http.MethodGet, "http://"+who.metrics.String()+p.o.Path, nil)
	if err != nil { // a bad percent escape in the path: every page fails, and says so
		request = nil
	} else {
		request.Header.Set("Accept", "text/plain;version=0.0.4")
		request.Header.Set("User-Agent", "fairlead")
	}
	return &target{Poller: p, who: who, pool: p.o.Pools[who.pool], request: request}
}

// run asks for pages until ctx is done.
func (t *target) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		select {
		case <-ctx.Done():
			return
		case t.slots <- struct{}{}:
		}
		began := time.Now()
		t.once(ctx)
		<-t.slots
		next.Reset(max(t.wait(first)-time.Since(began), MinInterval/2))
	}
}

// once asks for one page.
func (t *target) once(ctx context.Context) {
	s := t.pool.Snapshot()
	if int(t.who.id) >= len(s.Slots) {
		return
	}
	e := &s.Slots[t.who.id]
	if e.Incarnation == 0 || e.Metrics != t.who.metrics || e.Name != t.who.name || e.Namespace != t.who.namespace {
		return // left; Run will notice
	}
	asked := t.o.Clock()
	r, size, err := t.read(ctx)
	if err != nil && ctx.Err() != nil {
		return // we hung up ourselves
	}
	now := t.o.Clock()
	switch {
	case err != nil:
		t.o.Sink.Note(reason.ScrapeFailed, t.name(e)+": "+err.Error())
	default:
		for _, rejected := range r.Rejected {
			t.o.Sink.Note(reason.ScrapeRejected, t.name(e)+": "+rejected.Series+" "+rejected.Why)
		}
		r.Sample.At = asked
		t.pool.Observe(now, e.Ref, r.Sample)
	}
	if t.o.Scraped != nil {
		t.o.Scraped(Scrape{Pool: t.pool, Endpoint: e, Took: time.Duration(now - asked), Bytes: size, Rejected: len(r.Rejected), Err: err})
	}
}

func (t *target) name(e *pool.Endpoint) string {
	return fmt.Sprintf("pool %q: %s/%s at %s", t.pool.Name, e.Namespace, e.Name, e.Metrics)
}

// read fetches and scans a page.
func (t *target) read(ctx context.Context) (r Reading, size int, err error) {
	if t.request == nil {
		return r, 0, fmt.Errorf("path %q is no path of a URL", t.o.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	response, err := t.client.Do(t.request.WithContext(ctx))
	if err != nil {
		return r, 0, t.plain(err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode != http.StatusOK:
		return r, 0, fmt.Errorf("status is %d; 200 expected", response.StatusCode)
	case response.Header.Get("Content-Encoding") != "":
		return r, 0, fmt.Errorf("content-encoding is %q, which was not asked for", response.Header.Get("Content-Encoding"))
	}
	buffer := t.pages.Get().(*[]byte)
	defer t.pages.Put(buffer)
	page, err := readUpTo((*buffer)[:0], response.Body, t.o.MaxPage)
	*buffer = page
	if err != nil {
		return r, len(page), t.plain(err)
	}
	r = t.scanner.Scan(page)
	if r.Series == 0 {
		return r, len(page), errors.New("the page has none of vLLM's series; is this the engine's metrics port?")
	}
	return r, len(page), nil
}

// plain says what a timeout was, in place of "context deadline exceeded".
func (t *target) plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no whole page within %v", t.o.Timeout)
	}
	return err
}

// readUpTo appends body to dst and reads on until its end, which a connection needs to be kept. It fails beyond limit
// bytes.
func readUpTo(dst []byte, body io.Reader, limit int) ([]byte, error) {
	for {
		if len(dst) > limit {
			return dst, fmt.Errorf("the page is longer than %d bytes", limit)
		}
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(len(dst), 32<<10))...)[:len(dst)]
		}
		n, err := body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF && len(dst) <= limit:
			return dst, nil
		case err != nil && err != io.EOF:
			return dst, err
		}
	}
}
