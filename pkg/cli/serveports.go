package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
)

// servers are the listeners of a process.
type servers struct {
	lines  []string // for announce
	grpc   *grpc.Server
	http   []*http.Server
	proxy  *http.Server
	failed chan error
}

// open opens every listener before any serves, so that a port that is taken is told at once.
func (s *servers) open(ctx context.Context, f *serveFlags, log *slog.Logger, picker *extproc.Server, proxied, administered http.Handler) error {
	grpcListener, err := listener(f.grpcBind, f.grpcPort, "--grpc-port")
	if err != nil {
		return err
	}
	var healthListener net.Listener
	if f.grpcPort != 0 {
		if healthListener, err = listener(f.healthBind, f.healthPort, "--grpc-health-port"); err != nil {
			return err
		}
	}
	adminListener, err := listener(f.metricsBind, f.metricsPort, "--metrics-port")
	if err != nil {
		return err
	}
	var proxyListener net.Listener
	if f.listen != "" {
		if proxyListener, err = net.Listen("tcp", f.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	if grpcListener != nil {
		options := extproc.ServerOptions(nil)
		how := "plaintext"
		if f.secure {
			certificate, err := extproc.SelfSigned()
			if err != nil {
				return fmt.Errorf("making a self-signed certificate: %w", err)
			}
			options, how = extproc.ServerOptions(&certificate), "TLS, self-signed"
		}
		s.grpc = grpc.NewServer(options...)
		picker.Register(s.grpc)
		s.serve("ext_proc", grpcListener, how, s.grpc.Serve)
	}
	if healthListener != nil {
		s.serve("gRPC health", healthListener, "plaintext", func(l net.Listener) error { return picker.ServeHealth(ctx, l) })
	}
	// What net/http has to say is about single connections of strangers: as many lines as they like, with their addresses.
	strangers := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	if adminListener != nil {
		s.serveHTTP("admin", adminListener, &http.Server{Handler: administered, ReadHeaderTimeout: 10 * time.Second, ErrorLog: strangers})
	}
	if proxyListener != nil {
		s.proxy = proxy.Server(proxied)
		s.proxy.ErrorLog = strangers
		s.serveHTTP("proxy", proxyListener, s.proxy)
	}
	return nil
}

func (s *servers) serveHTTP(what string, l net.Listener, h *http.Server) {
	s.http = append(s.http, h)
	s.serve(what, l, "plaintext", func(l net.Listener) error {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

func (s *servers) serve(what string, l net.Listener, how string, run func(net.Listener) error) {
	s.lines = append(s.lines, fmt.Sprintf("%-12s %s (%s)", what, l.Addr(), how))
	go func() {
		if err := run(l); err != nil {
			s.failed <- fmt.Errorf("%s on %s: %w", what, l.Addr(), err)
		}
	}()
}

// drain lets running exchanges end, until end, and closes what is left.
func (s *servers) drain(end context.Context, picker *extproc.Server, scheduler *exchange.Scheduler, log *slog.Logger) {
	scheduler.Drain()
	var all sync.WaitGroup
	if s.grpc != nil {
		all.Go(func() {
			if err := picker.Stop(end, s.grpc); err != nil {
				log.Warn("not everything drained", "error", err)
			}
		})
	}
	if s.proxy != nil {
		all.Go(func() {
			if err := s.proxy.Shutdown(end); err != nil {
				log.Warn("the proxy cut what was running", "error", err)
				s.proxy.Close()
			}
		})
	}
	all.Wait()
	for _, h := range s.http {
		h.Close()
	}
}
