package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

var errNoAnswer = errors.New("the engine answered with a status below 200, or switched protocols unasked")

// relay passes an answer on as it comes: each read is one write and one flush. ok is false when client or engine broke
// off.
func (f *flight) relay(a *attempt, act *exchange.Action, resp *http.Response) (next exchange.Action, ok bool) {
	defer resp.Body.Close() // before its end this closes the connection, and so tells the engine
	f.sent(a)
	bare := resp.Body == http.NoBody || resp.ContentLength == 0 || f.r.Method == http.MethodHead
	h := endToEnd(resp.Header)
	headers := borrowHeaders()
	*headers = answered((*headers)[:0], strconv.Itoa(resp.StatusCode), h)
	reply := f.x.Response(f.p.o.Clock.Now(), *headers, a.at, bare)
	returnHeaders(headers)
	if reply.Do == exchange.Reply {
		return reply, true
	}
	apply(h, &reply.Out)
	f.begin(resp, h)
	if !bare {
		// A reply that says Ignore comes of an exchange that is over, by its deadline; the client gets its answer all the same.
		sees := reply.Do == exchange.Forward && act.Respond&^plugins.FirstByte != 0
		if !f.pass(resp, sees) {
			return next, false
		}
		f.trail(resp)
	}
	f.ending.Clean, f.left = true, true
	return next, true
}

// begin writes status and headers.
func (f *flight) begin(resp *http.Response, h http.Header) {
	to := f.w.Header()
	for name, values := range h {
		to[name] = values
	}
	if _, said := h["Content-Type"]; !said {
		to["Content-Type"] = nil // keeps net/http from guessing
	}
	for name := range resp.Trailer {
		if passesEarly(name) {
			to.Add("Trailer", name)
		}
	}
	f.w.WriteHeader(resp.StatusCode)
}

// pass copies the body. It reports whether all of it came and was taken; otherwise f.ending says who broke off.
func (f *flight) pass(resp *http.Response, sees bool) bool {
	flusher := http.NewResponseController(f.w)
	if resp.ContentLength < 0 { // a stream's headers come long before its first token
		if err := flusher.Flush(); err != nil {
			f.ending.ByClient = true
			return false
		}
	}
	// Streams are many and their tokens small: the larger buffer is for those that fill the smaller.
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	buffer := small[:]
	sent := int64(0)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if sees {
				f.x.Chunk(f.p.o.Clock.Now(), buffer[:n], false)
			}
			_, failed := f.w.Write(buffer[:n])
			sent += int64(n)
			if failed == nil && sent != resp.ContentLength { // the last piece leaves as the handler returns
				failed = flusher.Flush()
			}
			if failed != nil {
				f.ending.ByClient = true
				return false
			}
		}
		switch {
		case err == nil && n == smallBuffer && len(buffer) == smallBuffer:
			large := copyBuffers.Get().(*[copyBuffer]byte)
			defer copyBuffers.Put(large) // at most once
			buffer = large[:]
		case err == io.EOF:
			return true
		case err != nil:
			f.ending.ByClient = f.r.Context().Err() != nil
			return false
		}
	}
}

// trail passes the answer's trailers on: those that were announced by name, others with net/http's prefix.
func (f *flight) trail(resp *http.Response) {
	if len(resp.Trailer) == 0 {
		return
	}
	to := f.w.Header()
	announced := to.Values("Trailer")
	for name, values := range resp.Trailer {
		if !passesEarly(name) {
			continue
		}
		key := http.TrailerPrefix + name
		for _, a := range announced {
			if a == name {
				key = name
			}
		}
		to[key] = values
	}
	_ = http.NewResponseController(f.w).Flush() // without it a short body would get a content-length, and no trailers
}

// reply writes an answer of our own.
func reply(w http.ResponseWriter, with *openai.Reply) {
	h := w.Header()
	for _, f := range with.Headers {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		h[name] = append(h[name], f.Value)
	}
	h["Content-Length"] = []string{strconv.Itoa(len(with.Body))}
	w.WriteHeader(with.Status)
	_, _ = w.Write(with.Body) // to HEAD net/http writes none
}

// reset closes the client's connection so that it does not look like an orderly end.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp := underneath(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// underneath returns the TCP connection below TLS and whatever else a listener put around it, nil if there is none.
func underneath(c net.Conn) *net.TCPConn {
	for {
		switch wraps := c.(type) {
		case *net.TCPConn:
			return wraps
		case interface{ NetConn() net.Conn }:
			c = wraps.NetConn()
		default:
			return nil
		}
	}
}
