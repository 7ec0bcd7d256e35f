package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
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
	scanner *Scanner

	// What was said of it already.
	missing []string
	whole   bool
}

func (p *Poller) target(who identity) *target {
	t := &target{Poller: p, who: who, pool: p.o.Pools[who.pool]}
	table := p.tables[who.engine]
	if table == nil {
		table = p.tables[p.o.Engines.Named(nil)]
		p.o.Sink.Note(reason.EngineUnknown, fmt.Sprintf("%s: engine %q; its page is read as one of %s", t.name(), who.engine, table.engine.Name))
	}
	if p.o.Port != 0 && who.address.Port() != p.o.Port {
		p.o.Sink.Note(reason.MetricsPortDiffers, fmt.Sprintf("%s: its metrics port is %d, and that of metrics-data-source is %d", t.name(), who.address.Port(), p.o.Port))
	}
	t.scanner = scannerOf(table, p.o.Models[t.pool.Name])
	path := p.o.Path
	if path == "" {
		path = table.engine.Path
	}
	if path == "" {
		path = DefaultPath
	}
	request, err := http.NewRequest(http.MethodGet, p.o.Scheme+"://"+who.address.String()+path, nil)
	if err != nil { // a bad percent escape in the path: every page fails, and says so
		return t
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	request.Header.Set("User-Agent", "fairlead")
	t.request = request
	return t
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
	if e.Incarnation == 0 || t.identify(t.who.pool, e) != t.who {
		return // left; Run will notice
	}
	asked := t.o.Clock()
	r, size, err := t.read(ctx)
	if err != nil && ctx.Err() != nil {
		return // we hung up ourselves
	}
	now := t.o.Clock()
	if err != nil {
		t.o.Sink.Note(reason.ScrapeFailed, t.name()+": "+err.Error())
		if errors.Is(err, syscall.ECONNREFUSED) {
			t.pool.Refused(now, e.Ref)
		}
	} else {
		t.say(r)
		r.Sample.At = asked
		t.pool.Observe(now, e.Ref, r.Sample)
	}
	if t.o.Scraped != nil {
		t.o.Scraped(Scrape{
			Pool: t.pool, Endpoint: e, Took: time.Duration(now - asked), Bytes: size, Rejected: len(r.Rejected),
			Outcome: outcomeOf(err), Err: err,
		})
	}
}

// say notes what is wrong with a page that was read: each rejected value, and once what the page lacks or is written like.
func (t *target) say(r Reading) {
	for _, rejected := range r.Rejected {
		t.o.Sink.Note(reason.ScrapeRejected, t.name()+": "+rejected.Series+" "+rejected.Why)
	}
	if !slices.Equal(r.Missing, t.missing) {
		if t.missing = slices.Clone(r.Missing); len(r.Missing) > 0 {
			t.o.Sink.Note(reason.SeriesMissing, t.name()+": no "+strings.Join(r.Missing, ", no "))
		}
	}
	if r.Whole && !t.whole {
		t.whole = true
		t.o.Sink.Note(reason.PageReadWhole, t.name())
	}
}

func (t *target) name() string {
	return fmt.Sprintf("pool %q: %s/%s at %s", t.pool.Name, t.who.namespace, t.who.name, t.who.address)
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
	if err := acceptable(response); err != nil {
		return r, 0, err
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
		return r, len(page), failed(NoSeries, "the page has none of the series of engine %s; is this its metrics port, and is label %s right?", t.scanner.table.engine.Name, t.o.Engines.Key())
	}
	return r, len(page), nil
}

// acceptable says why the body of a response is no page to read.
func acceptable(response *http.Response) error {
	kind := response.Header.Get("Content-Type")
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return failed(Redirected, "status is %d and leads to %.100q; redirects are followed on the same host, %d times", response.StatusCode, response.Header.Get("Location"), redirectsMax)
	case response.StatusCode != http.StatusOK:
		return failed(BadStatus, "status is %d; 200 expected", response.StatusCode)
	case response.Header.Get("Content-Encoding") != "":
		return failed(BadContent, "content-encoding is %q, which was not asked for", response.Header.Get("Content-Encoding"))
	case strings.HasPrefix(kind, "application/vnd.google.protobuf"):
		return failed(BadContent, "content-type is %.100q; text is read", kind)
	}
	return nil
}

// plain says what a timeout was, in place of "context deadline exceeded".
func (t *target) plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(TimedOut, "no whole page within %v", t.o.Timeout)
	}
	return err
}

// readUpTo appends body to dst and reads on until its end, which a connection needs to be kept. It fails beyond limit
// bytes.
func readUpTo(dst []byte, body io.Reader, limit int) ([]byte, error) {
	for {
		if len(dst) > limit {
			return dst, failed(TooLong, "the page is longer than %d bytes", limit)
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
