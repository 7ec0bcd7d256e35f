package adapters

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
)

// attempts is how many endpoints of a list the shipped configurations have tried: num_retries 2.
const attempts = 3

// forward sends the request to the first of the destinations that takes a connection, and relays its answer.
func (p *passage) forward(body io.ReadCloser, length int64) (whole bool) {
	destination := p.metadata["envoy.lb"].GetFields()[exchange.HeaderDestination].GetStringValue()
	if told := p.header.Get(exchange.HeaderDestination); told != destination {
		p.e.side.t.Errorf("the header sends the request to %q, the metadata to %q", told, destination)
	}
	// The shipped routes remove these.
	p.header.Del(exchange.HeaderDestination)
	p.header.Del(extproc.HeaderTrailers)

	var conn net.Conn
	for i, at := range strings.Split(destination, ",") {
		if i == attempts || conn != nil {
			break
		}
		p.upstream = netip.MustParseAddrPort(at)
		conn, _ = net.Dial("tcp", at)
	}
	p.say("envoy.lb", &structpb.Struct{Fields: map[string]*structpb.Value{
		exchange.HeaderDestination: structpb.NewStringValue(destination),
		exchange.HeaderServed:      structpb.NewStringValue(p.upstream.String()),
	}})
	if conn == nil {
		p.flags.UpstreamConnectionFailure = true
		return p.localReply("upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.lost:
		case <-p.r.Context().Done():
		case <-ctx.Done():
		}
		cancel()
		p.body.fail(errClosed)
	}()
	transport := &http.Transport{
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(p.upstreamRequest(ctx, body, length))
	switch {
	case err == nil:
		defer resp.Body.Close()
		p.answers = true
		return p.relay(resp)
	case ctx.Err() != nil:
		p.flags.DownstreamConnectionTermination = true
		return false
	}
	p.flags.UpstreamConnectionTermination = true
	return p.localReply("upstream_reset_before_response_started{connection_termination}")
}

func (p *passage) upstreamRequest(ctx context.Context, body io.ReadCloser, length int64) *http.Request {
	path, query, has := strings.Cut(p.path, "?")
	r := &http.Request{
		Method: p.r.Method, Host: p.r.Host, Header: p.header, Body: body, ContentLength: length,
		URL: &url.URL{Scheme: "http", Host: p.upstream.String(), Opaque: path, RawQuery: query, ForceQuery: has && query == ""},
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header["User-Agent"] = []string{""} // keeps net/http from adding its own
	}
	if len(p.r.Trailer) > 0 && length < 0 {
		r.Trailer = http.Header{}
		for name := range p.r.Trailer {
			r.Trailer[name] = nil
		}
		r.Body = &trailing{body, p, r}
	}
	return r.WithContext(ctx)
}

// trailing fills in the trailers at the body's end, without those that the picker took out.
type trailing struct {
	io.ReadCloser
	p *passage
	r *http.Request
}

func (t *trailing) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err == io.EOF {
		for name, values := range t.p.r.Trailer {
			t.r.Trailer[name] = values
		}
		for _, name := range t.p.removed {
			t.r.Trailer.Del(name)
		}
	}
	return n, err
}

// relay shows the answer to the picker as far as the modes say, and passes it on.
func (p *passage) relay(resp *http.Response) (whole bool) {
	bare := resp.Body == http.NoBody || resp.ContentLength == 0 || p.r.Method == http.MethodHead
	h := endToEnd(resp.Header)
	if reply := p.answered(resp.StatusCode, h, bare, "via_upstream"); reply != nil {
		return p.ended(reply, false)
	}
	if p.w.Header()["Content-Type"] == nil {
		p.w.Header()["Content-Type"] = nil // keeps net/http from guessing
	}
	p.w.WriteHeader(resp.StatusCode)
	if bare {
		return true
	}
	if resp.ContentLength < 0 {
		_ = http.NewResponseController(p.w).Flush()
	}
	if p.response == duplex {
		go p.pumpAnswer(resp)
		if !p.copy(p.answerBody) {
			return false
		}
	} else if !p.copy(resp.Body) {
		return false
	}
	if len(resp.Trailer) > 0 {
		if p.trailers && p.response != duplex {
			p.sendTrailers(resp)
			<-p.answerTrailers
		}
		for name, values := range resp.Trailer {
			p.w.Header()[http.TrailerPrefix+name] = values
		}
		_ = http.NewResponseController(p.w).Flush()
	}
	_ = p.io.CloseSend()
	return true
}

// answered shows the answer's headers to the picker and applies what it says of them, or returns what it says in their place.
func (p *passage) answered(status int, h http.Header, end bool, details string) (reply *extprocpb.ProcessingResponse) {
	p.send(&extprocpb.ProcessingRequest{
		Request: &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocpb.HttpHeaders{
			Headers: headerMap([]string{":status", strconv.Itoa(status)}, h), EndOfStream: end}},
		Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{
			"response.code_details": structpb.NewStringValue(details)}}},
	})
	m, reply, left := p.await(p.answerHeaders)
	if reply != nil {
		return reply
	}
	if !left {
		mutate(h, m.GetResponseHeaders().GetResponse().GetHeaderMutation())
		p.take(m.GetModeOverride())
	}
	for name, values := range h {
		p.w.Header()[name] = values
	}
	if p.response == none && !p.trailers {
		p.nothingMore() // of the answer: Envoy ends the stream when the request has passed, too
	}
	return nil
}

// pumpAnswer sends the answer's body to the picker as it comes. When it breaks off, so does what comes back.
func (p *passage) pumpAnswer(resp *http.Response) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			p.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseBody{
				ResponseBody: &extprocpb.HttpBody{Body: append([]byte(nil), buffer[:n]...)}}})
		}
		switch {
		case err == io.EOF && len(resp.Trailer) > 0 && p.trailers:
			p.sendTrailers(resp)
			<-p.answerTrailers
			p.answerBody.add(nil, true)
			return
		case err == io.EOF:
			p.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseBody{
				ResponseBody: &extprocpb.HttpBody{EndOfStream: true}}})
			return
		case err != nil:
			p.answerBody.fail(err)
			return
		}
	}
}

func (p *passage) sendTrailers(resp *http.Response) {
	p.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseTrailers{
		ResponseTrailers: &extprocpb.HttpTrailers{Trailers: headerMap(nil, resp.Trailer)}}})
}

// copy copies an answer's body to the client. When client or engine breaks off, the flags say which.
func (p *passage) copy(from io.Reader) (whole bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			_, _ = p.w.Write(buffer[:n])
			_ = http.NewResponseController(p.w).Flush()
		}
		switch {
		case err == io.EOF:
			return true
		case err != nil && p.r.Context().Err() != nil:
			p.flags.DownstreamConnectionTermination = true
			return false
		case err != nil:
			p.flags.UpstreamProtocolError = true
			return false
		}
	}
}

// localReply is the gateway's own answer. The picker is shown it like an engine's.
func (p *passage) localReply(details string) (whole bool) {
	const text = "upstream connect error or disconnect/reset before headers"
	h := http.Header{"Content-Type": {"text/plain"}, "Content-Length": {strconv.Itoa(len(text))}}
	if reply := p.answered(http.StatusServiceUnavailable, h, false, details); reply != nil {
		return p.ended(reply, false)
	}
	p.w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(p.w, text)
	return true
}
