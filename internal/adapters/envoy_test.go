package adapters

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logpb "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
)

// The body modes, under shorter names.
const (
	none     = extprocconfig.ProcessingMode_NONE
	streamed = extprocconfig.ProcessingMode_STREAMED
	buffered = extprocconfig.ProcessingMode_BUFFERED
	duplex   = extprocconfig.ProcessingMode_FULL_DUPLEX_STREAMED
)

// mode is how a gateway is configured.
type mode struct {
	tokens            string // that it declares
	request, response extprocconfig.ProcessingMode_BodySendMode
	responseTrailers  bool // SEND
}

// envoy plays a gateway in front of the real ext_proc server: of Envoy's behaviour that on which records and bytes can depend.
// It speaks the protocol over a gRPC connection, applies what comes back, walks the list of destinations, and writes an access
// log. It strips nothing from clients' requests beforehand, as the shipped configurations do, so that the picker has to.
type envoy struct {
	side   *side
	mode   mode
	picker extprocpb.ExternalProcessorClient

	logLock sync.Mutex
	log     alspb.AccessLogService_StreamAccessLogsClient
	logged  int
}

// behindEnvoy serves the side by a gateway with the real ext_proc server behind it.
func behindEnvoy(s *side, m mode) {
	entries := make(chan struct{}, 1024)
	server := extproc.New(extproc.Options{
		Scheduler: func() *exchange.Scheduler { return s.scheduler }, Clock: s.clock.Now, Sink: s,
		Received: func(k extproc.Kind) {
			if k == extproc.LogEntry {
				entries <- struct{}{}
			}
		},
	})
	server.SetReady(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = server.Serve(l, nil) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)))
	if err != nil {
		s.t.Fatal(err)
	}
	e := &envoy{side: s, mode: m, picker: extprocpb.NewExternalProcessorClient(conn)}
	ctx, cancel := context.WithCancel(context.Background())
	if e.log, err = alspb.NewAccessLogServiceClient(conn).StreamAccessLogs(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.close = append(s.close, func() {
		ended, cut := context.WithCancel(context.Background())
		cut()
		_ = server.Stop(ended)
	}, func() { _ = conn.Close() }, cancel)
	s.serve(e, func(h http.Handler) *http.Server { return &http.Server{Handler: h} })
	s.idle = func() bool {
		e.logLock.Lock()
		logged := e.logged
		e.logLock.Unlock()
		return server.Open() == 0 && logged == s.began && len(entries) == logged
	}
}

// passage is one request on its way through the gateway.
type passage struct {
	e *envoy
	w http.ResponseWriter
	r *http.Request

	io       extprocpb.ExternalProcessor_ProcessClient
	hangUp   context.CancelFunc
	sending  sync.Mutex
	request  extprocconfig.ProcessingMode_BodySendMode // in force
	response extprocconfig.ProcessingMode_BodySendMode
	trailers bool // response trailers are sent

	// What came back.
	override, headers, buffered, reply, answerHeaders, answerTrailers chan *extprocpb.ProcessingResponse
	body, answerBody                                                  *pieces
	over                                                              chan struct{} // the picker's stream is over
	lost                                                              chan struct{} // the client broke off while it sent
	removed                                                           []string      // trailers; read after body's end

	header   http.Header
	path     string
	metadata map[string]*structpb.Struct
	flags    logpb.ResponseFlags
	upstream netip.AddrPort
	answers  bool // the upstream did
}

func (e *envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), extproc.ModesKey, e.mode.tokens))
	p := &passage{
		e: e, w: w, r: r, hangUp: cancel, request: e.mode.request, response: e.mode.response, trailers: e.mode.responseTrailers,
		body: newPieces(), answerBody: newPieces(), over: make(chan struct{}), lost: make(chan struct{}),
		header: endToEnd(r.Header), path: r.RequestURI, metadata: map[string]*structpb.Struct{},
	}
	for _, c := range []*chan *extprocpb.ProcessingResponse{&p.override, &p.headers, &p.buffered, &p.reply, &p.answerHeaders, &p.answerTrailers} {
		*c = make(chan *extprocpb.ProcessingResponse, 1)
	}
	var err error
	if p.io, err = e.picker.Process(ctx); err != nil {
		e.side.t.Errorf("opening a stream to the picker: %v", err)
	}
	go p.receive()
	whole := p.serve()
	cancel()
	e.write(p)
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// send sends a message to the picker. After the stream's end it does nothing.
func (p *passage) send(m *extprocpb.ProcessingRequest) {
	p.sending.Lock()
	defer p.sending.Unlock()
	m.MetadataContext = &corepb.Metadata{FilterMetadata: p.metadata}
	_ = p.io.Send(m)
}

// say puts a namespace into the request's dynamic metadata.
func (p *passage) say(namespace string, s *structpb.Struct) {
	p.sending.Lock()
	defer p.sending.Unlock()
	next := maps.Clone(p.metadata)
	next[namespace] = s
	p.metadata = next
}

// nothingMore half-closes the stream as soon as the request has passed.
func (p *passage) nothingMore() {
	go func() {
		p.body.wait()
		p.sending.Lock()
		defer p.sending.Unlock()
		_ = p.io.CloseSend()
	}()
}

// receive sorts what the picker sends.
func (p *passage) receive() {
	defer close(p.over)
	defer p.body.fail(io.ErrUnexpectedEOF)
	defer p.answerBody.fail(io.ErrUnexpectedEOF)
	for {
		m, err := p.io.Recv()
		if err != nil {
			return
		}
		switch r := m.GetResponse().(type) {
		case nil:
			p.override <- m
		case *extprocpb.ProcessingResponse_RequestHeaders:
			p.headers <- m
		case *extprocpb.ProcessingResponse_RequestBody:
			if s := r.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse(); s != nil {
				p.body.add(s.GetBody(), s.GetEndOfStream())
			} else {
				p.buffered <- m
			}
		case *extprocpb.ProcessingResponse_RequestTrailers:
			p.removed = r.RequestTrailers.GetHeaderMutation().GetRemoveHeaders()
			p.body.add(nil, true)
		case *extprocpb.ProcessingResponse_ImmediateResponse:
			p.reply <- m
		case *extprocpb.ProcessingResponse_ResponseHeaders:
			p.answerHeaders <- m
		case *extprocpb.ProcessingResponse_ResponseBody:
			s := r.ResponseBody.GetResponse().GetBodyMutation().GetStreamedResponse()
			p.answerBody.add(s.GetBody(), s.GetEndOfStream())
		case *extprocpb.ProcessingResponse_ResponseTrailers:
			p.answerTrailers <- m
		}
	}
}

// await returns the next message of a kind, or nil and why there is none: the picker replied, the client left, or the stream
// ended.
func (p *passage) await(kind chan *extprocpb.ProcessingResponse) (m, reply *extprocpb.ProcessingResponse, clientLeft bool) {
	take := func(m *extprocpb.ProcessingResponse) *extprocpb.ProcessingResponse {
		for namespace, s := range m.GetDynamicMetadata().GetFields() {
			p.say(namespace, s.GetStructValue())
		}
		return m
	}
	select {
	case m := <-kind:
		return take(m), nil, false
	case m := <-p.reply:
		return nil, take(m), false
	case <-p.lost:
		return nil, nil, true
	case <-p.r.Context().Done():
		return nil, nil, true
	case <-p.over:
	}
	select { // the stream ends after a reply
	case m := <-p.reply:
		return nil, take(m), false
	case m := <-kind:
		return take(m), nil, false
	default:
		p.e.side.t.Error("the picker's stream ended without an answer")
		return nil, nil, false
	}
}

// serve carries the request to an engine and the answer back. whole is false when the client's connection must break off.
func (p *passage) serve() (whole bool) {
	end := p.r.ContentLength == 0
	p.send(p.requestHeaders(end))
	if p.request == duplex && !end {
		go p.pump()
	}
	if strings.Contains(p.e.mode.tokens, extproc.TokenOverride) && !end {
		m, reply, left := p.await(p.override)
		if m == nil {
			return p.ended(reply, left)
		}
		p.take(m.GetModeOverride())
		if p.request != duplex || p.response != none {
			p.e.side.t.Errorf("the picker asks for %v", m.GetModeOverride())
		}
		go p.pump()
	}
	m, reply, left := p.await(p.headers)
	if m == nil {
		return p.ended(reply, left)
	}
	p.apply(m.GetRequestHeaders().GetResponse())
	p.take(m.GetModeOverride())
	switch {
	case end:
		p.body.add(nil, true)
		return p.forward(http.NoBody, 0)
	case p.request == duplex:
		return p.forward(p.body, -1)
	}
	all, err := io.ReadAll(p.r.Body)
	if err != nil {
		return p.ended(nil, true)
	}
	p.send(bodyMessage(all, true))
	if m, reply, left = p.await(p.buffered); m == nil {
		return p.ended(reply, left)
	}
	common := m.GetRequestBody().GetResponse()
	p.apply(common)
	if mutation := common.GetBodyMutation(); mutation != nil {
		all = mutation.GetBody()
	}
	p.body.add(all, true)
	return p.forward(p.body, int64(len(all)))
}

// take applies a mode_override.
func (p *passage) take(m *extprocconfig.ProcessingMode) {
	if m == nil {
		return
	}
	p.request, p.response = m.GetRequestBodyMode(), m.GetResponseBodyMode()
	p.trailers = m.GetResponseTrailerMode() == extprocconfig.ProcessingMode_SEND
}

// apply applies a header mutation to the request: removals first, then what is set in place of all copies.
func (p *passage) apply(c *extprocpb.CommonResponse) {
	mutate(p.header, c.GetHeaderMutation())
}

func mutate(h http.Header, m *extprocpb.HeaderMutation) {
	for _, name := range m.GetRemoveHeaders() {
		h.Del(name)
	}
	for _, o := range m.GetSetHeaders() {
		h.Set(o.GetHeader().GetKey(), string(o.GetHeader().GetRawValue()))
	}
}

// ended ends a request that was not forwarded.
func (p *passage) ended(reply *extprocpb.ProcessingResponse, clientLeft bool) (whole bool) {
	switch r := reply.GetImmediateResponse(); {
	case clientLeft:
		p.flags.DownstreamConnectionTermination = true
		return false
	case r != nil:
		mutate(p.w.Header(), r.GetHeaders())
		p.w.WriteHeader(int(r.GetStatus().GetCode()))
		_, _ = p.w.Write(r.GetBody())
		return true
	}
	p.w.WriteHeader(http.StatusInternalServerError)
	return true
}

// pump sends the client's body to the picker as it comes.
func (p *passage) pump() {
	buffer := make([]byte, 64<<10)
	total := int64(0)
	for {
		n, err := p.r.Body.Read(buffer)
		total += int64(n)
		last := total == p.r.ContentLength
		if n > 0 {
			p.send(bodyMessage(slices.Clone(buffer[:n]), last))
		}
		switch {
		case last:
			return
		case err == io.EOF && len(p.r.Trailer) > 0:
			p.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestTrailers{
				RequestTrailers: &extprocpb.HttpTrailers{Trailers: headerMap(nil, p.r.Trailer)}}})
			return
		case err == io.EOF:
			p.send(bodyMessage(nil, true))
			return
		case err != nil:
			close(p.lost)
			return
		}
	}
}

func bodyMessage(chunk []byte, end bool) *extprocpb.ProcessingRequest {
	return &extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestBody{
		RequestBody: &extprocpb.HttpBody{Body: chunk, EndOfStream: end}}}
}

func (p *passage) requestHeaders(end bool) *extprocpb.ProcessingRequest {
	h := endToEnd(p.r.Header)
	if p.r.ContentLength >= 0 && p.r.Header.Get("Content-Length") != "" {
		h["Content-Length"] = p.r.Header["Content-Length"]
	}
	if len(p.r.Trailer) > 0 {
		for name := range p.r.Trailer {
			h.Add("Trailer", name)
		}
	}
	pseudo := []string{":method", p.r.Method, ":scheme", "http", ":authority", p.r.Host, ":path", p.path}
	return &extprocpb.ProcessingRequest{
		Request:        &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocpb.HttpHeaders{Headers: headerMap(pseudo, h), EndOfStream: end}},
		ProtocolConfig: &extprocpb.ProtocolConfiguration{RequestBodyMode: p.e.mode.request, ResponseBodyMode: p.e.mode.response},
	}
}

// headerMap writes fields as Envoy does: lower-case names, raw values.
func headerMap(pseudo []string, h http.Header) *corepb.HeaderMap {
	m := &corepb.HeaderMap{}
	add := func(name, value string) {
		m.Headers = append(m.Headers, &corepb.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	for i := 0; i < len(pseudo); i += 2 {
		add(pseudo[i], pseudo[i+1])
	}
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, value := range h[name] {
			add(strings.ToLower(name), value)
		}
	}
	return m
}

// endToEnd returns the fields that pass a gateway: without those that concern one connection.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"} {
		out.Del(name)
	}
	return out
}

// write writes the request's access-log entry.
func (e *envoy) write(p *passage) {
	entry := &logpb.HTTPAccessLogEntry{CommonProperties: &logpb.AccessLogCommon{
		AccessLogType: logpb.AccessLogType_DownstreamEnd, ResponseFlags: proto.CloneOf(&p.flags),
		Metadata: &corepb.Metadata{FilterMetadata: p.metadata},
	}}
	if p.upstream.IsValid() {
		entry.CommonProperties.UpstreamRemoteAddress = &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: p.upstream.Addr().String(), PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(p.upstream.Port())}}}}
	}
	if p.answers {
		entry.CommonProperties.TimeToFirstUpstreamRxByte = durationpb.New(time.Millisecond)
	}
	e.logLock.Lock()
	defer e.logLock.Unlock()
	err := e.log.Send(&alspb.StreamAccessLogsMessage{LogEntries: &alspb.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &alspb.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logpb.HTTPAccessLogEntry{entry}}}})
	if err != nil {
		e.side.t.Errorf("writing the access log: %v", err)
	}
	e.logged++
}
