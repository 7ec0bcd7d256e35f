package extproc

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

// inOrder picks the candidates in the order of the pool.
type inOrder struct{}

func (inOrder) Pick(c *plugins.Cycle, _ []float64, want int, best []int) []int {
	for i := range min(want, len(c.Candidates)) {
		best = append(best, i)
	}
	return best
}

// rewriter is a request hook that gives the engine another name of the model "pub", and a header.
type rewriter struct{ to string }

func (h rewriter) Commit(r *plugins.Request, _ []plugins.Leg, out *plugins.Outgoing) {
	if r.Model() == "pub" {
		out.Edits = append(out.Edits, openai.Edit{Span: r.Body.ModelSpan, New: openai.QuoteModel(h.to)})
	}
	out.Set = out.Set.Set("x-hook", "ran")
}

// watcher is a response hook that wants parts, and keeps the chunks that it sees.
type watcher struct {
	wants plugins.Parts
	mu    *sync.Mutex
	saw   *[]byte
}

func (h watcher) Wants() plugins.Parts { return h.wants }
func (h watcher) Respond(_ *plugins.Request, _ plugins.Parts, chunk []byte) {
	h.mu.Lock()
	*h.saw = append(*h.saw, chunk...)
	h.mu.Unlock()
}

// stage holds requests with the header x-hold until let go, and refuses those with x-refuse.
type stage struct {
	phase plugins.Phase
	reads plugins.Reads
	held  chan *plugins.Request
	gone  *sync.Map
}

func (s stage) Phase() plugins.Phase { return s.phase }
func (s stage) Reads() plugins.Reads { return s.reads }
func (s stage) Enter(r *plugins.Request) plugins.Verdict {
	if r.Headers.Has("x-refuse") {
		return plugins.Verdict{Refusal: &reason.Refusal{ID: reason.QueueFull, RetryAfter: 3 * time.Second}}
	}
	if !r.Headers.Has("x-hold") {
		return plugins.Verdict{}
	}
	if _, gone := s.gone.Load(r); gone {
		return plugins.Verdict{}
	}
	s.held <- r
	return plugins.Verdict{Until: r.Now + pool.Instant(time.Hour), Late: reason.QueueTimeout}
}

// notes counts reasons.
type notes struct {
	mu sync.Mutex
	n  map[reason.ID]int
}

func (n *notes) Note(id reason.ID, _ string) {
	n.mu.Lock()
	n.n[id]++
	n.mu.Unlock()
}

func (n *notes) of(id reason.ID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.n[id]
}

// meter keeps outcomes.
type meter struct{ settled chan plugins.Outcome }

func (m meter) Decided(exchange.Metered, reason.ID, pool.Instant)   {}
func (m meter) Settled(_ exchange.Metered, outcome plugins.Outcome) { m.settled <- outcome }

// rig is a server with a pool, and a client of it.
type rig struct {
	t         *testing.T
	server    *Server
	scheduler *exchange.Scheduler
	pool      *pool.Pool
	notes     *notes
	settled   chan plugins.Outcome
	held      chan *plugins.Request
	gone      *sync.Map
	seen      *[]byte
	seenLock  *sync.Mutex
	count     [Kinds]int
	countLock sync.Mutex
	conn      *grpc.ClientConn
}

type rigOptions struct {
	endpoints string // addresses, separated by blanks; "-" for none
	wants     plugins.Parts
	rewriteTo string
	reads     plugins.Reads // how much of the body the configuration needs; zero: all of it
	atHeaders bool          // it needs the headers alone
	holdAt    plugins.Phase
	exchange  func(*exchange.Options)
	streams   uint32 // of one connection
	queue     plugins.Queue
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	g := &rig{
		t: t, notes: &notes{n: map[reason.ID]int{}}, settled: make(chan plugins.Outcome, 10000),
		held: make(chan *plugins.Request, 10000), gone: &sync.Map{}, seen: new([]byte), seenLock: &sync.Mutex{},
	}
	if o.reads == plugins.ReadsHeaders && !o.atHeaders {
		o.reads = plugins.ReadsBody
	}
	made := func(v any) func() (any, error) { return func() (any, error) { return v, nil } }
	spec := plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "single", Type: "single", Construct: made(profiles.NewSingle())},
			{Name: "pick", Type: "pick", Construct: made(inOrder{})},
			{Name: "rewrite", Type: "rewrite", Construct: made(rewriter{o.rewriteTo})},
			{Name: "watch", Type: "watch", Construct: made(watcher{o.wants, g.seenLock, g.seen})},
			{Name: "stage", Type: "stage", Construct: made(stage{o.holdAt, o.reads, g.held, g.gone})},
		},
		Profiles: []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{{Ref: "pick"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "single"}},
	}
	if o.queue != nil {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: "queue", Type: "queue", Construct: made(o.queue)})
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.pool = pool.New("default", g.notes)
	if o.endpoints == "" {
		o.endpoints = "10.0.0.1:8000 10.0.0.2:8000"
	}
	var members []pool.Endpoint
	if o.endpoints != "-" {
		for _, at := range strings.Fields(o.endpoints) {
			members = append(members, pool.Endpoint{Namespace: "ns", Name: at, Addr: netip.MustParseAddrPort(at)})
		}
	}
	g.pool.Update(1, members)
	x := exchange.Defaults()
	x.Built, x.Pools, x.Sink, x.Meter = built, []*pool.Pool{g.pool}, g.notes, meter{g.settled}
	if o.exchange != nil {
		o.exchange(&x)
	}
	if g.scheduler, err = exchange.New(x); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	g.server = New(Options{
		Scheduler: func() *exchange.Scheduler { return g.scheduler },
		Clock:     func() pool.Instant { return pool.Instant(time.Since(start)) + 2 },
		Sink:      g.notes, MaxStreams: o.streams,
		Received: func(k Kind) {
			g.countLock.Lock()
			g.count[k]++
			g.countLock.Unlock()
		},
	})
	g.server.SetReady(true)
	l := bufconn.Listen(1 << 20)
	go func() { _ = g.server.Serve(l, nil) }()
	g.conn, err = grpc.NewClient("passthrough:///rig", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.conn.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = g.server.Stop(ended)
	})
	return g
}

// letGo lets the next request that holds go on.
func (g *rig) letGo() {
	r := <-g.held
	g.gone.Store(r, true)
	r.Wake()
}

// booked returns the sum of the books.
func (g *rig) booked() (n int64) {
	g.pool.Decide(func(_ *pool.Snapshot, b *pool.Books) {
		for i := range b.Requests {
			n += int64(b.Requests[i]) + int64(b.NoFirstByte[i]) + b.PrefillTokens[i] + b.DecodeTokens[i]
		}
	})
	return n
}

func (g *rig) received(k Kind) int {
	g.countLock.Lock()
	defer g.countLock.Unlock()
	return g.count[k]
}

// outcome waits for the next settled exchange.
func (g *rig) outcome() plugins.Outcome {
	g.t.Helper()
	select {
	case o := <-g.settled:
		return o
	case <-time.After(5 * time.Second):
		g.t.Fatal("no exchange settled within 5 s")
		return plugins.Outcome{}
	}
}

// zero checks that nothing is booked and no exchange is open.
func (g *rig) zero() {
	g.t.Helper()
	if n := g.booked(); n != 0 {
		g.t.Errorf("the books sum up to %d; want 0", n)
	}
	if n := g.scheduler.Open(); n != 0 {
		g.t.Errorf("%d exchanges are open; want 0", n)
	}
}

// gateway is the other side of one stream.
type gateway struct {
	*rig
	io     extprocpb.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
}

// open opens a stream whose gateway declares tokens.
func (g *rig) open(tokens ...string) *gateway {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	for _, token := range tokens {
		ctx = metadata.AppendToOutgoingContext(ctx, ModesKey, token)
	}
	s, err := extprocpb.NewExternalProcessorClient(g.conn).Process(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(cancel)
	return &gateway{g, s, cancel}
}

func (g *gateway) send(m *extprocpb.ProcessingRequest) {
	g.t.Helper()
	if err := g.io.Send(m); err != nil {
		g.t.Fatalf("sending %T: %v", m.GetRequest(), err)
	}
}

func (g *gateway) recv() *extprocpb.ProcessingResponse {
	g.t.Helper()
	m, err := g.io.Recv()
	if err != nil {
		g.t.Fatalf("receiving: %v", err)
	}
	return m
}

// headers sends a POST of a chat completion whose body follows, in body modes request and response.
func (g *gateway) headers(request, response bodyMode, more ...string) {
	g.t.Helper()
	g.send(requestHeaders(request, response, false, append([]string{":method", "POST", ":path", "/v1/chat/completions", "content-type", "application/json"}, more...)...))
}

func requestHeaders(request, response bodyMode, end bool, pairs ...string) *extprocpb.ProcessingRequest {
	return &extprocpb.ProcessingRequest{
		Request: &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocpb.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: end}},
		ProtocolConfig: &extprocpb.ProtocolConfiguration{
			RequestBodyMode: extprocconfig.ProcessingMode_BodySendMode(request), ResponseBodyMode: extprocconfig.ProcessingMode_BodySendMode(response),
		},
	}
}

func headerMap(pairs ...string) *corepb.HeaderMap {
	m := &corepb.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corepb.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func (g *gateway) body(chunk string, end bool) {
	g.t.Helper()
	g.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestBody{RequestBody: &extprocpb.HttpBody{Body: []byte(chunk), EndOfStream: end}}})
}

func (g *gateway) trailers() {
	g.t.Helper()
	g.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocpb.HttpTrailers{Trailers: headerMap("x-checksum", "1")}}})
}

// responseHeaders sends the response's headers; served may be empty.
func (g *gateway) responseHeaders(served string, end bool, pairs ...string) {
	g.t.Helper()
	m := &extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocpb.HttpHeaders{
		Headers: headerMap(append([]string{":status", "200"}, pairs...)...), EndOfStream: end,
	}}}
	if served != "" {
		m.MetadataContext = filterMetadata(nsLoadBalancer, exchange.HeaderServed, served)
	}
	g.send(m)
}

func (g *gateway) responseBody(chunk string, end bool) {
	g.t.Helper()
	g.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseBody{ResponseBody: &extprocpb.HttpBody{Body: []byte(chunk), EndOfStream: end}}})
}

func (g *gateway) responseTrailers() {
	g.t.Helper()
	g.send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocpb.HttpTrailers{}}})
}

func filterMetadata(namespace, key string, value any) *corepb.Metadata {
	v, err := structpb.NewValue(value)
	if err != nil {
		panic(err)
	}
	return &corepb.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: {Fields: map[string]*structpb.Value{key: v}}}}
}

// answered is what came back for a full-duplex request.
type answered struct {
	headers  *extprocpb.CommonResponse
	override bool
	metadata *structpb.Struct
	body     []byte
	pieces   int
	end      bool
	trailers bool
}

// answerTo receives a full-duplex request's answers until its end: a piece with end_of_stream, or trailers.
func (g *gateway) answerTo() (a answered) {
	g.t.Helper()
	for !a.end && !a.trailers {
		m := g.recv()
		switch r := m.GetResponse().(type) {
		case nil:
			a.override = m.GetModeOverride() != nil
		case *extprocpb.ProcessingResponse_RequestHeaders:
			a.headers, a.metadata = r.RequestHeaders.GetResponse(), m.GetDynamicMetadata()
		case *extprocpb.ProcessingResponse_RequestBody:
			piece := r.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse()
			if a.headers == nil {
				g.t.Error("a body piece came before the headers answer")
			}
			if len(piece.GetBody()) > MaxPiece {
				g.t.Errorf("a piece has %d bytes; at most %d", len(piece.GetBody()), MaxPiece)
			}
			a.body, a.end, a.pieces = append(a.body, piece.GetBody()...), piece.GetEndOfStream(), a.pieces+1
		case *extprocpb.ProcessingResponse_RequestTrailers:
			a.trailers = true
		default:
			g.t.Fatalf("got %T for a request", m.GetResponse())
		}
	}
	return a
}

// set returns the value of a header that the mutation sets, and checks its form.
func set(t *testing.T, c *extprocpb.CommonResponse, name string) string {
	t.Helper()
	found := ""
	for _, o := range c.GetHeaderMutation().GetSetHeaders() {
		if o.GetHeader().GetValue() != "" {
			t.Errorf("header %s has a value; want raw_value alone", o.GetHeader().GetKey())
		}
		if o.GetAppendAction() != corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("header %s has action %v", o.GetHeader().GetKey(), o.GetAppendAction())
		}
		if o.GetHeader().GetKey() == name {
			found = string(o.GetHeader().GetRawValue())
		}
	}
	return found
}

func removes(c *extprocpb.CommonResponse, name string) bool {
	for _, n := range c.GetHeaderMutation().GetRemoveHeaders() {
		if n == name {
			return true
		}
	}
	return false
}

func inMetadata(s *structpb.Struct, namespace, key string) string {
	return s.GetFields()[namespace].GetStructValue().GetFields()[key].GetStringValue()
}

// done closes the stream as Envoy does after a normal exchange, and waits until the handler has ended.
func (g *gateway) done() {
	g.t.Helper()
	g.cancel()
	g.untilClosed()
}

func (g *rig) untilClosed() {
	g.t.Helper()
	g.until("a handler has not ended", func() bool { return g.server.Open() == 0 })
}

// untilReceived waits until n messages of a kind have come to the server.
func (g *rig) untilReceived(k Kind, n int) {
	g.t.Helper()
	g.until("a message has not come", func() bool { return g.received(k) >= n })
}

// until waits for what only grpc's goroutines can bring about, and give no sign of.
func (g *rig) until(not string, holds func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			g.t.Fatalf("%s within 5 s", not)
		}
	}
}

// ends receives until the stream ends and reports whether it ended with OK.
func (g *gateway) ends() bool {
	for {
		if _, err := g.io.Recv(); err != nil {
			if err != io.EOF {
				g.t.Logf("the stream ended with %v", err)
			}
			return err == io.EOF
		}
	}
}

// log opens an access-log stream.
func (g *rig) log() alspb.AccessLogService_StreamAccessLogsClient {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g.t.Cleanup(cancel)
	s, err := alspb.NewAccessLogServiceClient(g.conn).StreamAccessLogs(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}
