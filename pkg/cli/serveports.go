package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/gateway/replicas"
	"github.com/fairlead/fairlead/pkg/reason"
)

// servers are the listeners of a process.
type servers struct {
	lines  []string // for announce
	https  []*http.Server
	proxy  *http.Server
	failed chan error
}

// port is one that is to be opened.
type port struct {
	name, flag string
	host       string
	number     int
	tls        *tls.Config
	how        string // plaintext, or what certificate
	max        int    // connections
	answer     bool   // those beyond are told so in HTTP
	serve      func(net.Listener) error
}

// open opens every listener before any serves, so that a port that is taken is told at once.
func (s *servers) open(ctx context.Context, f *serveFlags, log *slog.Logger, sink reason.Sink, picker *extproc.Server, proxied http.Handler,
	administered admin.Handlers, teller http.Handler, follow func(func(context.Context))) error {
	secure := tlsFiles{f: f, log: log, follow: follow}
	wanted, err := s.ports(ctx, f, log, sink, picker, proxied, administered, teller, &secure)
	if err != nil {
		return err
	}
	listeners := make([]net.Listener, len(wanted))
	for i, p := range wanted {
		l, err := p.listen()
		if err != nil {
			return fmt.Errorf("%s: %w", p.flag, err)
		}
		listeners[i] = &ports.Bounded{Listener: l, Name: p.name, Sink: sink, Max: p.max, Answer: p.answer}
	}
	for i, p := range wanted {
		s.serve(p.name, listeners[i], p.how, p.serve)
	}
	return nil
}

func (p *port) listen() (net.Listener, error) {
	if p.number < 0 { // host has the port in it
		return net.Listen("tcp", p.host)
	}
	return ports.Listen(p.host, p.number)
}

// ports are those that the flags ask for.
func (s *servers) ports(ctx context.Context, f *serveFlags, log *slog.Logger, sink reason.Sink, picker *extproc.Server, proxied http.Handler,
	administered admin.Handlers, teller http.Handler, secure *tlsFiles) (open []port, err error) {
	// What net/http has to say is about single connections of strangers: as many lines as they like, with their addresses.
	strangers := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if f.grpcPort != 0 {
		p := port{name: "ext_proc", flag: "--grpc-port", host: f.host(f.grpcBind), number: f.grpcPort}
		if p.tls, p.how, err = secure.forGRPC(); err != nil {
			return nil, err
		}
		p.serve = func(l net.Listener) error { return picker.Serve(l, p.tls) }
		open = append(open, p)
		if f.healthPort != 0 {
			open = append(open, port{name: "gRPC health", flag: "--grpc-health-port", host: f.host(f.healthBind), number: f.healthPort, how: plaintext,
				serve: func(l net.Listener) error { return picker.ServeHealth(ctx, l) }})
		}
	}
	if f.metricsPort != 0 {
		p := port{name: "admin", flag: "--metrics-port", host: f.host(f.metricsBind), number: f.metricsPort}
		if p.tls, p.how, err = secure.forMetrics(); err != nil {
			return nil, err
		}
		handler := administered.Metrics
		if f.debugPort == 0 {
			handler = administered.OnePort()
		}
		p.serve = s.http(&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: strangers}, p.tls)
		open = append(open, p)
	}
	if f.debugPort != 0 {
		open = append(open, port{name: "debug", flag: "--debug-port", host: f.debugBind, number: f.debugPort, how: plaintext,
			serve: s.http(&http.Server{Handler: administered.Debug, ReadHeaderTimeout: 10 * time.Second, ErrorLog: strangers}, nil)})
	}
	if len(f.replicas) > 0 {
		p := port{name: "replicas", flag: "--replica-port", host: f.host(f.replicaBind), number: f.replicaPort, max: replicaConnections}
		if p.tls, p.how, err = secure.forReplicas(); err != nil {
			return nil, err
		}
		p.serve = s.http(replicas.Server(teller, strangers), p.tls)
		open = append(open, p)
	}
	if f.listen != "" {
		p := port{name: "proxy", flag: "--listen", host: f.listen, number: -1, max: f.maxConnections}
		if p.tls, p.how, err = secure.forProxy(); err != nil {
			return nil, err
		}
		s.proxy = proxy.Server(proxied, proxy.Bounds{
			HeaderBytes: max(2*f.exchange.MaxHeaderBytes, 256<<10), Streams: f.maxStreams,
		})
		s.proxy.ErrorLog = strangers
		p.answer = p.tls == nil
		serve := s.http(s.proxy, p.tls)
		p.serve = func(l net.Listener) error {
			if p.tls == nil {
				l = ports.PlainWords(l, sink)
			}
			return serve(l)
		}
		open = append(open, p)
	}
	return open, nil
}

// http returns what serves h on a listener until it is closed.
func (s *servers) http(h *http.Server, secure *tls.Config) func(net.Listener) error {
	s.https = append(s.https, h)
	return func(l net.Listener) error {
		var err error
		if secure != nil {
			h.TLSConfig = secure
			err = h.ServeTLS(l, "", "")
		} else {
			err = h.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

func (s *servers) serve(what string, l net.Listener, how string, run func(net.Listener) error) {
	s.lines = append(s.lines, fmt.Sprintf("%-12s %s (%s)", what, l.Addr(), how))
	go func() {
		if err := run(l); err != nil {
			s.failed <- fmt.Errorf("%s on %s: %w", what, l.Addr(), err)
		}
	}()
}

// closeTime is how long the proxy's connections get to take what was written, once nothing runs any more.
const closeTime = time.Second

// drain lets running exchanges end, until end, and closes what is left. Ports stay open meanwhile: who comes is refused in
// words.
func (s *servers) drain(end context.Context, picker *extproc.Server, proxied *proxy.Proxy, scheduler *exchange.Scheduler, log *slog.Logger) {
	scheduler.Drain()
	var all sync.WaitGroup
	all.Go(func() {
		if err := picker.Stop(end); err != nil {
			log.Warn("not everything drained", "error", err)
		}
	})
	if s.proxy != nil {
		all.Go(func() {
			s.proxy.SetKeepAlivesEnabled(false) // each answer says that it is the connection's last
			if err := proxied.Drain(end); err != nil {
				log.Warn("the proxy cut what was running", "error", err)
				s.proxy.Close()
				return
			}
			last, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			if s.proxy.Shutdown(last) != nil {
				s.proxy.Close()
			}
		})
	}
	all.Wait()
	for _, h := range s.https {
		h.Close()
	}
}
