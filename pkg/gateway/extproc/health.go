package extproc

import (
	"context"
	"net"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// healthLive is the service that is healthy as long as the process answers.
const healthLive = "liveness"

// readyServices are the names under which probes ask whether requests are taken: the process as a whole, Kubernetes'
// readiness, the conformance suite's name, and the one that a gateway's health check of the cluster uses.
func readyServices() []string {
	return []string{"", "readiness", "inference-extension", extprocpb.ExternalProcessor_ServiceDesc.ServiceName}
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
