package proxy

import (
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// hopByHop are the fields that concern one connection (RFC 9110 §7.6.1), with those in use beside them, and Expect, which
// is answered here.
var hopByHop = [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade", "Expect"}

// endToEnd returns h without hop-by-hop fields, and without those that Connection names. The values are shared with h.
func endToEnd(h http.Header) http.Header {
	out := make(http.Header, len(h)+4)
	for name, values := range h {
		out[name] = values
	}
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	for _, name := range hopByHop {
		delete(out, name)
	}
	return out
}

// outgoing returns the fields that go upstream, before the decision adds its own.
func outgoing(r *http.Request) http.Header {
	h := endToEnd(r.Header)
	if slices.ContainsFunc(r.Header["Te"], func(v string) bool { return strings.Contains(strings.ToLower(v), "trailers") }) {
		h["Te"] = []string{"trailers"}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // keeps net/http from adding its own
	}
	if ip, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if prior := h["X-Forwarded-For"]; len(prior) > 0 {
			ip = strings.Join(prior, ", ") + ", " + ip
		}
		h["X-Forwarded-For"] = []string{ip}
	}
	return h
}

// apply does to h what the decision asks.
func apply(h http.Header, out *plugins.Outgoing) {
	for _, name := range out.Remove {
		delete(h, textproto.CanonicalMIMEHeaderKey(name))
	}
	for _, f := range out.Set {
		h[textproto.CanonicalMIMEHeaderKey(f.Name)] = []string{f.Value}
	}
}

// incoming appends the client's fields to dst as the exchange reads them: pseudo-headers, then those whose names stand in
// h, which goes upstream, by ascending name, since a map has no order; several fields of one name keep theirs.
func incoming(dst openai.Headers, r *http.Request, h http.Header) openai.Headers {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	dst = append(dst,
		openai.Header{Name: ":method", Value: r.Method}, openai.Header{Name: ":scheme", Value: scheme},
		openai.Header{Name: ":authority", Value: r.Host}, openai.Header{Name: ":path", Value: target(r)})
	fields := len(dst)
	for name := range h {
		for _, v := range r.Header[name] {
			dst = append(dst, openai.Header{Name: lower(name), Value: v})
		}
	}
	slices.SortStableFunc(dst[fields:], func(a, b openai.Header) int { return strings.Compare(a.Name, b.Name) })
	return dst
}

// target returns the request target in origin form, as sent: path and query.
func target(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI() // sent in absolute form
}

// answered appends the fields of an answer to dst as the exchange reads them.
func answered(dst openai.Headers, status string, h http.Header) openai.Headers {
	dst = append(dst, openai.Header{Name: ":status", Value: status})
	for name, values := range h {
		for _, v := range values {
			dst = append(dst, openai.Header{Name: lower(name), Value: v})
		}
	}
	slices.SortStableFunc(dst[1:], func(a, b openai.Header) int { return strings.Compare(a.Name, b.Name) })
	return dst
}

// lower returns the lower-case form of a canonical name, without allocation for the usual ones.
func lower(name string) string {
	switch name {
	case "Accept":
		return "accept"
	case "Accept-Encoding":
		return "accept-encoding"
	case "Accept-Language":
		return "accept-language"
	case "Authorization":
		return "authorization"
	case "Cache-Control":
		return "cache-control"
	case "Content-Encoding":
		return "content-encoding"
	case "Content-Length":
		return "content-length"
	case "Content-Type":
		return "content-type"
	case "Cookie":
		return "cookie"
	case "Date":
		return "date"
	case "Origin":
		return "origin"
	case "Server":
		return "server"
	case "Traceparent":
		return "traceparent"
	case "User-Agent":
		return "user-agent"
	case "X-Forwarded-For":
		return "x-forwarded-for"
	case "X-Request-Id":
		return "x-request-id"
	case "X-Stainless-Arch":
		return "x-stainless-arch"
	case "X-Stainless-Async":
		return "x-stainless-async"
	case "X-Stainless-Lang":
		return "x-stainless-lang"
	case "X-Stainless-Os":
		return "x-stainless-os"
	case "X-Stainless-Package-Version":
		return "x-stainless-package-version"
	case "X-Stainless-Read-Timeout":
		return "x-stainless-read-timeout"
	case "X-Stainless-Retry-Count":
		return "x-stainless-retry-count"
	case "X-Stainless-Runtime":
		return "x-stainless-runtime"
	case "X-Stainless-Runtime-Version":
		return "x-stainless-runtime-version"
	case "X-Stainless-Timeout":
		return "x-stainless-timeout"
	}
	return strings.ToLower(name)
}

// passes reports whether a trailer of the request may reach an engine.
func passes(name string) bool {
	if !passesEarly(name) {
		return false
	}
	switch name {
	case "Content-Length", "Host", "Content-Type", "Content-Encoding", "Authorization":
		return false // they frame or identify the message, which trailers must not (RFC 9110 §6.5.1)
	}
	return true
}

// passesEarly reports whether a field of an informational answer, or a trailer of an answer, may reach the client: not those
// of one connection, and not those that only we may set.
func passesEarly(name string) bool {
	return !slices.Contains(hopByHop[:], name) && !exchange.ControlHeader(strings.ToLower(name))
}

// headerSlices keeps the exchange's view of headers for reuse; the exchange copies what it keeps.
var headerSlices = sync.Pool{New: func() any { h := make(openai.Headers, 0, 32); return &h }}

func borrowHeaders() *openai.Headers { return headerSlices.Get().(*openai.Headers) }

func returnHeaders(h *openai.Headers) {
	clear(*h)
	*h = (*h)[:0]
	headerSlices.Put(h)
}
