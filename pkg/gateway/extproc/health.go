package extproc

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/h2"
)

// healthLive is the service that is healthy as long as the process answers.
const healthLive = "liveness"

// readyServices are the names under which probes ask whether requests are taken: the process as a whole, Kubernetes'
// readiness, the conformance suite's name, and the one that a gateway's health check of the cluster uses.
func readyServices() []string {
	return []string{"", "readiness", "inference-extension", service}
}

// SetReady says whether requests are taken. A new server is not ready; one that drains stays not ready.
func (s *Server) SetReady(ready bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ready && !s.draining.Load() {
		status = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range readyServices() {
		s.health.SetServingStatus(name, status)
	}
}

// ServeHealth serves gRPC health alone on l, for probes on a port of their own, until ctx ends.
func (s *Server) ServeHealth(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer()
	healthpb.RegisterHealthServer(g, s.health)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	return g.Serve(l)
}

// probe is a call of the health service on the serving port: one question, which stands until the client has said it whole.
type probe struct {
	s      *Server
	io     *h2.Stream
	method string
	asked  []byte
	has    bool
	ctx    context.Context // of a watch
	stop   context.CancelFunc
}

// Message keeps the question.
func (p *probe) Message(m []byte) {
	if p.has {
		p.io.Finish(codes.InvalidArgument, "a second message; one is asked at a time")
		return
	}
	p.asked, p.has = p.io.Keep(m), true
}

// HalfClosed answers.
func (p *probe) HalfClosed() {
	if !p.has {
		p.io.Finish(codes.InvalidArgument, "no message came")
		return
	}
	var answer proto.Message
	var err error
	switch p.method {
	case healthpb.Health_Check_FullMethodName:
		var question healthpb.HealthCheckRequest
		if err = proto.Unmarshal(p.asked, &question); err == nil {
			answer, err = p.s.health.Check(context.Background(), &question)
		}
	case healthpb.Health_List_FullMethodName:
		answer, err = p.s.health.List(context.Background(), &healthpb.HealthListRequest{})
	default:
		var question healthpb.HealthCheckRequest
		if err = proto.Unmarshal(p.asked, &question); err == nil {
			p.watch(&question)
			return
		}
	}
	if err == nil {
		err = p.send(answer)
	}
	p.finish(err)
}

// watch answers at once and whenever the status changes, until the client goes away.
func (p *probe) watch(question *healthpb.HealthCheckRequest) {
	p.ctx, p.stop = context.WithCancel(context.Background())
	go func() {
		err := p.s.health.Watch(question, p)
		p.io.Do(func() { p.finish(err) })
	}()
}

// Over ends a watch.
func (p *probe) Over() {
	if p.stop != nil {
		p.stop()
	}
}

// send sends one answer.
func (p *probe) send(m proto.Message) error {
	b, err := proto.Marshal(m)
	if err == nil {
		p.io.Send(b, nil, false)
	}
	return err
}

func (p *probe) finish(err error) {
	s := status.Convert(err)
	p.io.Finish(s.Code(), s.Message())
}

// Send sends one status of a watch: it and the methods below make p a stream of grpc's for the health server.
func (p *probe) Send(m *healthpb.HealthCheckResponse) error {
	var err error
	p.io.Do(func() { err = p.send(m) })
	return err
}

// Context returns the context of a watch.
func (p *probe) Context() context.Context { return p.ctx }

// SendMsg is Send for any message.
func (p *probe) SendMsg(m any) error { return p.Send(m.(*healthpb.HealthCheckResponse)) }

// RecvMsg is not used by a watch.
func (p *probe) RecvMsg(any) error {
	return status.Error(codes.Internal, "a watch receives one message")
}

// SetHeader does nothing: a watch has no headers of its own.
func (p *probe) SetHeader(metadata.MD) error { return nil }

// SendHeader does nothing, as SetHeader.
func (p *probe) SendHeader(metadata.MD) error { return nil }

// SetTrailer does nothing, as SetHeader.
func (p *probe) SetTrailer(metadata.MD) {}
