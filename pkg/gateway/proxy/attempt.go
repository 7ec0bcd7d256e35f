package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// attempt is one request to one endpoint.
type attempt struct {
	f     *flight
	at    netip.AddrPort
	trace httptrace.ClientTrace

	conn   *conn // nil: none came about
	before int64 // what had been written to conn before
	reused bool
	spent  bool        // an earlier connection of this attempt took bytes
	wrote  atomic.Bool // the transport is done with the body

	mu       sync.Mutex
	answered bool // RoundTrip has returned: informational answers are passed on no more
	early    int  // informational answers that came
}

// staleAttempts bounds how often a request is tried on kept connections of one endpoint that turn out to be closed.
const staleAttempts = 3

// forward sends the request to the first of a.To and relays the answer. Otherwise it returns the exchange's next action;
// ok is false when client or engine broke off.
func (f *flight) forward(act *exchange.Action) (next exchange.Action, ok bool) {
	f.forwarded = true
	ctx := f.r.Context()
	if act.Revocable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		f.cancel.Store(&cancel)
		f.takenBack() // before this nobody was listening
	}
	header := f.header
	if len(act.Out.Remove)+len(act.Out.Set) > 0 {
		apply(header, &act.Out) // the same for each attempt, so that the second changes nothing
	}
	at := act.To[0]
	for try := 1; ; try++ {
		a := &attempt{f: f, at: at}
		request, sending := a.request(ctx, act, header)
		resp, err := f.p.transport.RoundTrip(request)
		a.done()
		if refused := f.refused.Load(); refused != nil {
			if err == nil {
				_ = resp.Body.Close()
			}
			return *refused, true
		}
		switch {
		case err == nil && resp.StatusCode >= http.StatusOK:
			return f.relay(a, act, resp)
		case err == nil:
			_ = resp.Body.Close()
			err = errNoAnswer
			a.spent = true
		case sending != nil && sending.lost.Load() != nil:
			return f.lost(*sending.lost.Load())
		case f.r.Context().Err() != nil:
			f.ending.ByClient = true
			return next, false
		case !a.reached() && a.reused && try < staleAttempts:
			continue
		}
		why := reason.UpstreamUnreachable
		if a.reached() {
			why = reason.UpstreamBroken
		}
		f.p.o.Log.Debug("upstream failed", slog.String("decision", f.x.ID), slog.String("endpoint", at.String()),
			slog.String("reason", why.String()), slog.Any("error", err))
		f.x.Transport("failed "+at.String(), err.Error())
		next = f.x.Failed(f.p.o.Clock.Now(), at, why)
		if next.Do != exchange.Forward {
			f.sent(a)
		}
		return next, next.Do != exchange.Ignore
	}
}

// request makes the upstream request; sending is its body where the transport reads it from us.
func (a *attempt) request(ctx context.Context, act *exchange.Action, header http.Header) (request *http.Request, sending *upload) {
	f := a.f
	a.trace = httptrace.ClientTrace{
		GotConn:        a.gotConn,
		WroteRequest:   func(httptrace.WroteRequestInfo) { a.wrote.Store(true) },
		Got1xxResponse: a.informational,
	}
	request = &http.Request{
		Method: f.r.Method, URL: address(f.r, a.at), Host: f.r.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	switch whole, one := f.in.whole(); {
	case f.in.ended && f.in.bytes == 0 && f.r.ContentLength >= 0:
		request.Body = http.NoBody
	case one && len(act.Out.Edits) == 0:
		// net/http sends headers and body together where it knows that the body lies in memory.
		request.Body = io.NopCloser(bytes.NewReader(whole))
		request.ContentLength = f.r.ContentLength
	default:
		sending = &upload{in: &f.in, reached: a.reached, tell: f.tell, edits: act.Out.Edits, client: f.r}
		request.Body = sending
		request.ContentLength = f.r.ContentLength
		if request.ContentLength >= 0 {
			request.ContentLength += openai.Delta(act.Out.Edits)
		}
		if !f.in.ended && f.r.ProtoMajor == 1 {
			// The engine may answer before it has all of the body.
			_ = http.NewResponseController(f.w).EnableFullDuplex()
		}
	}
	if request.ContentLength < 0 {
		request.Trailer = http.Header{}
		if f.in.ended {
			trailers(request.Trailer, f.r)
		} else {
			announce(request.Trailer, f.r)
			sending.trailer = request.Trailer
		}
	}
	return request.WithContext(httptrace.WithClientTrace(ctx, &a.trace)), sending
}

var errRefused = errors.New("the request was refused while its body was on its way")

// tell brings what came of the body after the decision to the exchange. An error says that f.refused is the answer.
func (f *flight) tell(chunk []byte) error {
	a := f.x.Body(f.p.o.Clock.Now(), chunk, f.in.ended)
	if a.Do != exchange.Reply {
		return nil
	}
	f.refused.Store(&a)
	return errRefused
}

// announce names the trailers that the client announced, so that the engine's side knows of them before the body.
func announce(dst http.Header, r *http.Request) {
	for name := range r.Trailer {
		if passes(name) {
			dst[name] = nil
		}
	}
}

// address returns the URL whose request line is the client's, byte for byte.
func address(r *http.Request, at netip.AddrPort) *url.URL {
	u := &url.URL{Scheme: "http", Host: at.String(), RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		u.Opaque = path
	} else { // in absolute form, or one that net/url would take for an authority
		u.Path, u.RawPath = r.URL.Path, r.URL.RawPath
	}
	return u
}

// gotConn is called in RoundTrip's goroutine. The transport repeats by itself a request without body on another
// connection; one that is not safe, and that an engine may have got, is kept from going out again.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	c, _ := info.Conn.(*conn)
	if a.conn != nil && a.conn.written.Load() != a.before {
		switch a.f.r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		default:
			a.spent = true
			c.closed.Store(true)
		}
	}
	a.conn, a.reused, a.before = c, info.Reused, c.written.Load()
}

// reached reports whether the kernel took a byte of the request: the engine may know of it.
func (a *attempt) reached() bool {
	return a.spent || a.conn != nil && a.conn.written.Load() != a.before
}

// sent gives the buffers of the body back when the transport is done with them; where that is not known, they are left to
// the garbage collector.
func (f *flight) sent(a *attempt) {
	if a.conn == nil || a.wrote.Load() {
		f.in.release()
	}
}

// done says that RoundTrip has returned.
func (a *attempt) done() {
	a.mu.Lock()
	a.answered = true
	a.mu.Unlock()
}

// maxInformational bounds the answers of class 1xx to one request: net/http leaves that to who asks to see them.
const maxInformational = 1000

var errInformational = errors.New("the engine sent more than 1000 informational answers")

// informational passes an answer of class 1xx on, as 103 Early Hints.
func (a *attempt) informational(code int, h textproto.MIMEHeader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.early++; a.early > maxInformational {
		return errInformational
	}
	if a.answered || code == http.StatusContinue || !a.f.r.ProtoAtLeast(1, 1) {
		return nil // the client's expectation was ours to meet; HTTP/1.0 knows no 1xx
	}
	to := a.f.w.Header()
	for name, values := range h {
		if passesEarly(name) {
			to[name] = values
		}
	}
	a.f.w.WriteHeader(code)
	clear(to)
	return nil
}
