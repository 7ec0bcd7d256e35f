package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/gateway/replicas"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
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
		if err := f.compatible.trim(c.Flags()); err != nil {
			return &usageError{err}
		}
		if err := f.check(c.Flags().Changed); err != nil {
			return &usageError{err}
		}
		log, err := f.logger()
		if err != nil {
			return &usageError{err}
		}
		f.compatible.tell(log)
		takeStrayLines(log)
		outliveReaders()
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
	epoch := time.Now()
	f.pool.Epoch = epoch
	clk := clock.StartFast(epoch, f.clockSpeed)
	r := &reloader{entries: entries, f: f, log: log, clock: clk}
	file, built, err := r.first(say)
	if err != nil {
		return err
	}
	metrics := newMetrics(f, file, built, log)
	watchQueue(metrics, built)
	r.metrics = metrics
	run, stop := context.WithCancel(context.Background()) // what serves outlives ctx by the drain
	defer stop()
	var background sync.WaitGroup
	defer gather(&background)
	defer stop()
	start := func(f func(context.Context)) {
		background.Go(func() { f(run) })
	}
	pools := make([]*pool.Pool, len(built.Plans))
	for i, plan := range built.Plans {
		pools[i] = f.poolOptions().New(plan.Pool.Name, metrics)
	}
	r.feed = newFeed(run, &background, f, clk, metrics, log)
	if err := r.feed.open(file, built, pools, say); err != nil {
		return err
	}
	o := f.exchange
	o.Built, o.Pools, o.Epoch, o.Sink, o.Meter, o.Alarm = built, pools, epoch, metrics, metrics, clk
	o.ReplicaWait = f.replicaWait()
	o.ConfigText, o.ConfigDigest = string(file.Effective()), file.Digest()
	if o.Seed = f.seed; o.Seed == 0 {
		o.Seed = randomSeed()
	}
	scheduler, err := exchange.New(o)
	if err != nil {
		return err
	}
	current := scheduler.Current
	r.scheduler = scheduler
	start(func(ctx context.Context) { clk.Drive(ctx, current) })

	observe := func(d time.Duration) { metrics.ObserveDecision(clk.Wall(d)) }
	picker := extproc.New(extproc.Options{
		Scheduler: current, Clock: clk.Now, Sink: metrics, Log: log,
		Received: func(k extproc.Kind) { metrics.Received(k.String()) }, Observe: observe,
		MaxStreams: uint32(min(f.maxStreams, math.MaxUint32)), MaxMessage: f.receiveBytesMax, MaxAnswer: f.sendBytesMax,
	})
	proxied := proxy.New(proxy.Options{Scheduler: current, Clock: clk, Sink: metrics, Log: log, Observe: observe})
	defer proxied.Close()
	told := replicas.Self{ID: strconv.FormatUint(randomSeed(), 36), Scheduler: current, Clock: clk.Now, Sink: metrics}
	var listener *replicas.Listener
	var heard func() int
	if len(f.replicas) > 0 {
		identity, err := f.replicaIdentity()
		if err != nil {
			return err
		}
		listener = replicas.NewListener(replicas.ListenerOptions{Self: told, Names: f.replicas, TLS: identity, Log: log})
		heard = listener.Heard
	}
	servers := servers{failed: make(chan error, 8)}
	if err := servers.open(run, f, log, metrics, picker, proxied,
		admin.New(admin.Options{
			Metrics: metrics, Scheduler: current, Clock: clk.Now, AllowEmpty: f.allowEmpty,
			Config: r.inForce, Draining: ctx.Done(), Profiles: f.pprof, Heard: heard,
		}), replicas.NewTeller(told, replicas.DefaultKeptBytes), start); err != nil {
		return err
	}
	if listener != nil {
		start(listener.Run)
	}
	r.follow(start)
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
	servers.drain(end, picker, proxied, current(), log)
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
		return "edges + usage (by access log where the gateway declares token-usage, else from every chunk)"
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
