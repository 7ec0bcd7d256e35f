package extproc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/h2"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Options are what a Server needs of its process.
type Options struct {
	// Scheduler returns the scheduler in force. It is asked once per stream. Required.
	Scheduler func() *exchange.Scheduler
	// Clock returns the time since the run began. Required.
	Clock func() pool.Instant
	// Sink hears of failures of ours. Required.
	Sink reason.Sink
	// Log hears of gateways that connect their access log. Nil: nobody.
	Log *slog.Logger
	// Received is called for every message that a gateway sends, from any goroutine. Nil: nobody counts.
	Received func(Kind)
	// Observe is told what time the calls of the exchange took until the request was forwarded or refused, without the time
	// between them. Nil: nobody asks.
	Observe func(time.Duration)
	// MaxStreams is how many streams one connection may have open at a time; a gateway opens another connection for more. 0 is
	// 16,384.
	MaxStreams uint32
	// MaxMessage and MaxAnswer are the longest message that is taken and that is sent, in bytes; its stream ends beyond. 0 is 32 MiB.
	MaxMessage, MaxAnswer int
}

// Kind is the kind of a message that a gateway sends.
type Kind uint8

// The kinds. Unknown are messages of an API newer than this code, which are ignored.
const (
	RequestHeaders Kind = iota
	RequestBody
	RequestTrailers
	ResponseHeaders
	ResponseBody
	ResponseTrailers
	LogEntry
	Unknown
	Kinds // their number
)

// String returns the kind as metric labels print it.
func (k Kind) String() string {
	return [...]string{"request_headers", "request_body", "request_trailers", "response_headers", "response_body",
		"response_trailers", "log_entry", "unknown"}[k]
}

// Server is the ext_proc service, with the access-log service and gRPC health beside it.
type Server struct {
	o        Options
	h2       *h2.Server
	health   *health.Server
	draining atomic.Bool

	mu      sync.Mutex
	streams map[*stream]struct{}
	logs    map[*logStream]struct{}
	empty   chan struct{} // closed when draining and no stream is left
}

// New returns a server that is not ready yet. It panics if a required option is missing.
func New(o Options) *Server {
	if o.Scheduler == nil || o.Clock == nil || o.Sink == nil {
		panic("extproc: Options.Scheduler, Clock and Sink are required")
	}
	if o.Received == nil {
		o.Received = func(Kind) {}
	}
	if o.Observe == nil {
		o.Observe = func(time.Duration) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = defaultMaxStreams
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = defaultMaxMessage
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = defaultMaxMessage
	}
	s := &Server{o: o, health: health.NewServer(), streams: map[*stream]struct{}{}, logs: map[*logStream]struct{}{}, empty: make(chan struct{})}
	s.h2 = h2.New(h2.Options{Open: s.open, Failed: s.failed, MaxMessage: o.MaxMessage, MaxAnswer: o.MaxAnswer, MaxStreams: o.MaxStreams})
	s.health.SetServingStatus(healthLive, healthpb.HealthCheckResponse_SERVING)
	s.SetReady(false)
	return s
}

// failed notes a panic that ended a stream.
func (s *Server) failed(p any) { s.o.Sink.Note(reason.Internal, fmt.Sprintf("extproc: %v", p)) }

// Open returns the number of open streams.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Drain ends the service without cutting an answer: health says NOT_SERVING, requests that are not forwarded yet are
// refused, and each open stream is ended with OK as soon as that loses nothing: when its request is on its way and its
// response's body does not pass through us. Others end by themselves. When ctx ends first, the rest is ended with OK where
// it stands, and the error says how many that were.
func (s *Server) Drain(ctx context.Context) error {
	s.SetReady(false)
	s.o.Scheduler().Drain()
	if !s.draining.Swap(true) {
		s.mu.Lock()
		if len(s.streams) == 0 {
			close(s.empty)
		}
		s.mu.Unlock()
	}
	s.h2.Leave()
	s.each((*stream).resume)
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
	}
	n := s.each((*stream).finish)
	if n == 0 {
		return nil
	}
	return fmt.Errorf("draining ext_proc streams: %d of them had not ended: %w", n, ctx.Err())
}

// flushTime is how long Stop waits for what was sent to leave, and for streams that are not ours.
const flushTime = time.Second

// Stop drains, ends the access-log streams, and closes listeners and connections when what was sent has left. The error is
// that of Drain.
func (s *Server) Stop(ctx context.Context) error {
	err := s.Drain(ctx)
	s.mu.Lock()
	for log := range s.logs {
		go log.io.Do(log.finish)
	}
	s.mu.Unlock()
	flushed, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	s.h2.Stop(flushed)
	return err
}

// each has f run for every open stream and returns their number. It does not wait: a connection may be stuck in a write.
func (s *Server) each(f func(*stream)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		go st.io.Do(func() { f(st) })
	}
	return len(s.streams)
}

func (s *Server) enter(st *stream) {
	s.mu.Lock()
	s.streams[st] = struct{}{}
	s.mu.Unlock()
}

// leave forgets a stream that is over.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if len(s.streams) == 0 && s.draining.Load() {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}
