package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/config/files"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/discovery"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
)

// serveCommand returns "fairlead epp" or "fairlead gateway": one process, two defaults.
func serveCommand(entries []plugins.Entry, mode string) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{Use: mode, Args: cobra.NoArgs}
	switch mode {
	case "epp":
		c.Short = "Serve as endpoint picker over Envoy's ext_proc"
		c.Long = "Epp tells an Envoy which model server each request goes to. Envoy bootstraps are in manifests/envoy.\n" +
			"It runs until SIGTERM or Ctrl-C, then drains; a second signal ends it at once."
		c.Example = "  fairlead epp --config-file config.yaml --endpoints endpoints.yaml --secure-serving=false"
	case "gateway":
		c.Short = "Serve as proxy of its own, without Envoy"
		c.Long = "Gateway forwards each request to the model server that it picks.\n" +
			"It runs until SIGTERM or Ctrl-C, then drains; a second signal ends it at once."
		c.Example = "  fairlead gateway --endpoint http://127.0.0.1:8100 --endpoint http://127.0.0.1:8101\n" +
			"  fairlead gateway --listen 127.0.0.1:8080 --config-file config.yaml --endpoints endpoints.yaml"
	}
	f.register(c, mode)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(c.Flags().Changed); err != nil {
			return &usageError{err}
		}
		log, err := f.logger()
		if err != nil {
			return &usageError{err}
		}
		return serve(c.Context(), entries, &f, log, c.ErrOrStderr())
	}
	return c
}

// serve wires a process together and runs it until ctx ends, then drains it.
func serve(ctx context.Context, entries []plugins.Entry, f *serveFlags, log *slog.Logger, say io.Writer) error {
	if os.Getenv("GOGC") == "" {
		// The live heap is a few megabytes and every request makes garbage: at Go's default of 100 the collector took a twentieth
		// of the processor. 300 costs some 30 MB and leaves a third of that.
		debug.SetGCPercent(300)
	}
	file, built, err := loadConfig(entries, f, say)
	if err != nil {
		return err
	}
	epoch := time.Now()
	clk := clock.Start(epoch)
	metrics := admin.NewMetrics(log)

	pools := make([]*pool.Pool, len(built.Plans))
	for i, plan := range built.Plans {
		pools[i] = pool.New(plan.Pool.Name, metrics)
	}
	o := f.exchange
	o.Built, o.Pools, o.Epoch, o.Sink, o.Meter, o.Alarm = built, pools, epoch, metrics, metrics, clk
	o.ConfigText, o.ConfigDigest = string(file.Effective()), file.Digest()
	if o.Seed = f.seed; o.Seed == 0 {
		o.Seed = randomSeed()
	}
	scheduler, err := exchange.New(o)
	if err != nil {
		return err
	}
	current := func() *exchange.Scheduler { return scheduler }

	run, stop := context.WithCancel(context.Background()) // what serves outlives ctx by the drain
	defer stop()
	var background sync.WaitGroup
	defer gather(&background)
	defer stop()
	start := func(f func(context.Context)) {
		background.Go(func() { f(run) })
	}
	if err := discover(f, file.Discovery, clk, pools, metrics, log, say, start); err != nil {
		return err
	}
	poll, err := scrapeOptions(f.scrape, file, built)
	if err != nil {
		return err
	}
	poll.Pools, poll.Sink, poll.Clock, poll.Scraped = pools, metrics, clk.Now, metrics.Scraped
	poller, err := telemetry.New(poll)
	if err != nil {
		return err
	}
	start(poller.Run)
	start(func(ctx context.Context) { clk.Drive(ctx, current) })

	picker := extproc.New(extproc.Options{
		Scheduler: current, Clock: clk.Now, Sink: metrics, Log: log,
		Received: func(k extproc.Kind) { metrics.Received(k.String()) }, Observe: metrics.ObserveDecision,
	})
	proxied := proxy.New(proxy.Options{Scheduler: current, Clock: clk, Sink: metrics, Log: log, Observe: metrics.ObserveDecision})
	defer proxied.Close()
	servers := servers{failed: make(chan error, 8)}
	if err := servers.open(run, f, log, picker, proxied,
		admin.New(admin.Options{
			Metrics: metrics, Scheduler: current, Pools: pools, Clock: clk.Now, AllowEmpty: f.allowEmpty,
			Config: o.ConfigText, Digest: o.ConfigDigest, Draining: ctx.Done(),
		})); err != nil {
		return err
	}
	picker.SetReady(true)
	announce(say, f, file, built, &servers)

	select {
	case <-ctx.Done():
	case err := <-servers.failed:
		return err
	}
	log.Info("draining", "timeout", f.drain)
	end, cancel := context.WithTimeout(context.Background(), f.drain)
	defer cancel()
	servers.drain(end, picker, scheduler, log)
	log.Info("stopped")
	return nil
}

// gatherTimeout is how long the process waits, once it has drained, for what runs in the background.
const gatherTimeout = 2 * time.Second

// gather waits for what was told to stop, but not for a file system that hangs.
func gather(background *sync.WaitGroup) {
	gone := make(chan struct{})
	go func() {
		background.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(gatherTimeout):
	}
}

// loadConfig reads, checks and builds the configuration, and prints what is wrong with it.
func loadConfig(entries []plugins.Entry, f *serveFlags, say io.Writer) (*config.File, *plugins.Built, error) {
	var file *config.File
	var problems []config.Problem
	switch {
	case f.configText != "":
		file, problems = config.Load([]byte(f.configText), "--config-text", entries)
	case f.configFile != "":
		data, err := files.Read(f.configFile)
		if err != nil {
			return nil, nil, err
		}
		file, problems = config.Load(data, f.configFile, entries)
	default:
		file, problems = config.Default(entries)
	}
	var built *plugins.Built
	if file != nil {
		var more []config.Problem
		built, more = file.Build()
		problems = append(problems, more...)
	}
	for _, p := range problems {
		fmt.Fprintln(say, p)
	}
	if file == nil || built == nil {
		return nil, nil, errReported
	}
	return file, built, nil
}

// discover fills the pools from the endpoint file, which it follows where asked to, and from URLs.
func discover(f *serveFlags, configured *config.FileDiscovery, clk *clock.Clock, pools []*pool.Pool, metrics *admin.Metrics, log *slog.Logger,
	say io.Writer, start func(func(context.Context))) error {
	path, watch := f.endpointsFile, f.watchEndpoints
	if path == "" && configured != nil {
		path, watch = configured.Path, configured.Watch
	}
	var fromURLs []discovery.Entry
	for _, raw := range f.endpointURLs {
		e, err := discovery.FromURL(raw)
		if err != nil {
			return &usageError{fmt.Errorf("--endpoint: %w", err)}
		}
		fromURLs = append(fromURLs, e)
	}
	if path == "" && len(fromURLs) == 0 {
		return &usageError{errors.New("no endpoints: give --endpoints FILE or --endpoint URL")}
	}
	loaded := false // the first reading that is refused is told by the caller: there is no last good membership yet
	w := &discovery.Watcher{
		File: path, Extra: fromURLs, Pools: pools, Clock: clk.Now, Sink: metrics,
		Slow: func(err error) { log.Warn("changes of the endpoint file are seen by polling", "error", err) },
		Loaded: func(l discovery.Loaded) {
			for _, p := range l.Problems {
				if !loaded {
					return
				}
				log.Error("endpoint file refused; the last good membership stays", "problem", p.Error())
			}
			log.Info("endpoints", "members", l.Endpoints)
		},
	}
	if problems := w.Load(); len(problems) > 0 {
		for _, p := range problems {
			fmt.Fprintln(say, p.Error())
		}
		return errReported
	}
	loaded = true
	if path != "" && watch {
		start(func(ctx context.Context) { w.Run(ctx) })
	}
	return nil
}

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

// announce prints what is served: the effective configuration, the ports, and what is seen of answers.
func announce(w io.Writer, f *serveFlags, file *config.File, built *plugins.Built, s *servers) {
	var b strings.Builder
	fmt.Fprintf(&b, "fairlead %s, %s (digest %.12s):\n", version, file.Name, file.Digest())
	for line := range strings.Lines(string(file.Effective())) {
		b.WriteString("  " + line)
	}
	fmt.Fprintf(&b, "plugins: %s\n", strings.Join(built.Instances(), "; "))
	fmt.Fprintf(&b, "reads of a request: %s\nresponse mode: %s\n", readsName(built.Reads), responseModeName(f, built))
	for _, l := range s.lines {
		fmt.Fprintln(&b, l)
	}
	io.WriteString(w, b.String())
}

func readsName(r plugins.Reads) string {
	return [...]string{"headers", "the body up to its model", "the whole body"}[r]
}

// responseModeName says what the configuration asks to see of answers; what a gateway can show is known per request.
func responseModeName(f *serveFlags, built *plugins.Built) string {
	switch {
	case f.exchange.Full:
		return "full (every chunk, by --response-mode)"
	case built.Wants&(plugins.Chunks|plugins.Rewrite) != 0:
		return "full (a plugin wants every chunk)"
	case built.Wants&plugins.Usage != 0:
		return "edges + usage"
	}
	return "edges (response headers, and the end by access log or stream), unless a gateway's static modes make it full or blind"
}

func randomSeed() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		fmt.Fprintln(os.Stderr, "fairlead: no randomness:", err)
		os.Exit(1)
	}
	return binary.LittleEndian.Uint64(b[:])
}
