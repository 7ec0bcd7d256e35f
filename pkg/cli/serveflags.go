package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
)

// recordRingMax bounds the memory that records may take, to about a gigabyte.
const recordRingMax = 100_000

// serveFlags are the flags that epp and gateway share.
type serveFlags struct {
	configFile, configText string
	watchConfig            bool
	endpointsFile          string
	watchEndpoints         bool
	endpointURLs           []string

	bind, grpcBind, healthBind, metricsBind, debugBind string
	grpcPort, healthPort, metricsPort, debugPort       int
	listen                                             string

	replicas       []string
	replicaPort    int
	replicaBind    string
	replicaCertDir string

	secure                          bool
	certPath, listenCertPath        string
	metricsCertDir, metricsClientCA string
	certReload                      bool
	tlsMinVersion                   string
	tlsCipherSuites                 []string
	maxConnections, maxStreams      int
	grpcReceiveBytes, grpcSendBytes string
	receiveBytesMax, sendBytesMax   int
	pprof                           bool
	pool                            pool.Options
	compatible                      upstreamFlags

	exchange     exchange.Options
	responseMode string
	scrape       telemetry.Options

	labelSets     int
	legacyMetrics bool

	drain      time.Duration
	allowEmpty bool
	clockSpeed float64
	seed       uint64
	logLevel   string
	logFormat  string
}

// register declares the flags with the defaults of a subcommand: epp serves ext_proc, gateway the embedded proxy; either
// serves the other as well when its address is given.
func (f *serveFlags) register(c *cobra.Command, mode string) {
	f.exchange = exchange.Defaults()
	fs := c.Flags()
	fs.StringVar(&f.configFile, "config-file", "", "EndpointPickerConfig to serve; absent: the default profile (- is standard input)")
	fs.StringVar(&f.configFile, "config", "", "the same as --config-file")
	fs.StringVar(&f.configText, "config-text", "", "the configuration itself, in place of a file")
	fs.BoolVar(&f.watchConfig, "watch-config", true, "reload the configuration file when it changes; SIGHUP does in any case")
	fs.StringVar(&f.endpointsFile, "endpoints", "", "endpoint file, YAML or JSON")
	fs.BoolVar(&f.watchEndpoints, "watch-endpoints", true, "follow changes of the endpoint file")
	fs.StringArrayVar(&f.endpointURLs, "endpoint", nil, "an endpoint by its URL, such as http://10.0.0.1:8000; may be repeated")

	grpcPort, listen := 9002, ""
	if mode == "gateway" {
		grpcPort, listen = 0, ":8080"
	}
	fs.IntVar(&f.grpcPort, "grpc-port", grpcPort, "port of ext_proc, access log and gRPC health; 0 for none")
	fs.StringVar(&f.bind, "bind-address", "", "address that the ports bind which have none of their own, IPv4 or IPv6; empty for all")
	fs.StringVar(&f.grpcBind, "grpc-bind", "", "address that --grpc-port binds")
	fs.IntVar(&f.healthPort, "grpc-health-port", 9003, "port of gRPC health alone, beside --grpc-port; 0 for none")
	fs.StringVar(&f.healthBind, "grpc-health-bind", "", "address that --grpc-health-port binds")
	fs.IntVar(&f.metricsPort, "metrics-port", 9090, "admin port: /metrics, /healthz, /readyz, and /debug for clients on this host; 0 for none")
	fs.StringVar(&f.metricsBind, "metrics-bind", "", "address that --metrics-port binds")
	fs.IntVar(&f.debugPort, "debug-port", 0, "port of /debug alone; 0 has it on --metrics-port, for clients on this host")
	fs.StringVar(&f.debugBind, "debug-bind", "127.0.0.1", "address that --debug-port binds; empty for all")
	fs.BoolVar(&f.pprof, "enable-pprof", true, "serve Go's profiles under /debug/pprof")
	fs.StringVar(&f.listen, "listen", listen, "address and port of the embedded proxy; empty for none")
	fs.StringSliceVar(&f.replicas, "replicas", nil, "where replicas of this picker tell each other what they book, host:port; a host stands for all its addresses, as a headless Service does, the own one among them. Empty: they do not")
	fs.IntVar(&f.replicaPort, "replica-port", 0, "port on which this replica tells what it books; 0: that of the first of --replicas")
	fs.StringVar(&f.replicaBind, "replica-bind", "", "address that --replica-port binds")
	fs.StringVar(&f.replicaCertDir, "replica-cert-dir", "", "directory with tls.crt and tls.key of this replica and ca.crt, which signs those of all; empty tells in plaintext")
	fs.DurationVar(&f.exchange.ReplicaWait, "replica-wait", f.exchange.ReplicaWait, "for how long a request whose endpoint was chosen waits for what other replicas choose at the same time, where its prompt takes twenty times as long; at least as long as telling takes, 0: not at all")
	fs.BoolVar(&f.secure, "secure-serving", true, "serve --grpc-port with TLS; without --cert-path under a self-signed certificate")
	fs.StringVar(&f.certPath, "cert-path", "", "directory with tls.crt and tls.key of --grpc-port")
	fs.StringVar(&f.listenCertPath, "listen-cert-path", "", "directory with tls.crt and tls.key of --listen; empty serves plaintext")
	fs.StringVar(&f.metricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key of --metrics-port; empty serves plaintext")
	fs.StringVar(&f.metricsClientCA, "metrics-client-ca-file", "", "certificates that sign those which clients of --metrics-port must show")
	fs.BoolVar(&f.certReload, "enable-cert-reload", true, "take certificates whose files change; connections stay")
	fs.StringVar(&f.tlsMinVersion, "tls-min-version", "", "least version of TLS: VersionTLS12 (the default) or VersionTLS13")
	fs.StringSliceVar(&f.tlsCipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2 by name; empty for Go's choice")

	fs.Int64Var(&f.exchange.MaxBodyBytes, "max-body-bytes", f.exchange.MaxBodyBytes, "longest request body; longer ones are answered with 413")
	fs.Int64Var(&f.exchange.MaxInflatedBytes, "max-inflated-bytes", f.exchange.MaxInflatedBytes, "bytes of a compressed body that are read for the decision, decompressed; a longer one passes unread")
	fs.Int64Var(&f.exchange.MaxHeldBytes, "max-held-bytes", f.exchange.MaxHeldBytes, "bytes of all request bodies that are held; 503 beyond, 0 for no bound")
	fs.IntVar(&f.exchange.MaxHeaderCount, "max-header-count", f.exchange.MaxHeaderCount, "headers of a request; 431 beyond, 0 for no bound")
	fs.IntVar(&f.exchange.MaxHeaderBytes, "max-header-bytes", f.exchange.MaxHeaderBytes, "bytes of a request's headers; 431 beyond, 0 for no bound")
	fs.IntVar(&f.exchange.MaxRequests, "max-concurrent-requests", f.exchange.MaxRequests, "requests that run at once; 503 beyond, 0 for no bound")
	fs.Int64Var(&f.exchange.MaxScanBytes, "max-scan-bytes", f.exchange.MaxScanBytes, "bytes of a body that are read for the decision; the rest passes unread, 0 for no bound")
	fs.IntVar(&f.maxConnections, "max-connections", 20_000, "connections to the embedded proxy; 503 beyond, 0 for no bound")
	fs.IntVar(&f.maxStreams, "max-concurrent-streams", 0, "requests that run on one HTTP/2 connection, of gRPC or the proxy; the client waits beyond. 0: 250 for the proxy, 16384 for gRPC")
	fs.StringVar(&f.grpcReceiveBytes, "grpc-max-recv-msg-size", "", "longest gRPC message that is taken, as 32Mi; empty for 32 MiB")
	fs.StringVar(&f.grpcSendBytes, "grpc-max-send-msg-size", "", "longest gRPC message that is sent; empty for 32 MiB")
	fs.DurationVar(&f.exchange.BookingDeadline, "booking-deadline", f.exchange.BookingDeadline, "end of a booking of which no end is seen")
	fs.IntVar(&f.exchange.Fallbacks, "fallbacks", f.exchange.Fallbacks, "length of a destination list where lists are understood, the primary included")
	fs.IntVar(&f.exchange.RecordEvery, "record-every", 8, "keep the columns of every n-th decision for explain; 1 of all, 0 of none")
	fs.IntVar(&f.exchange.RecordRing, "record-ring", f.exchange.RecordRing, "decision records that are kept")
	fs.StringVar(&f.responseMode, "response-mode", "auto", "what is seen of answers: auto (edges where the gateway can) or full (every chunk)")
	fs.BoolVar(&f.exchange.Conformance, "conformance", false, "honour test-epp-endpoint-selection and report the served endpoint (test suites only)")
	fs.DurationVar(&f.scrape.Interval, "refresh-metrics-interval", telemetry.DefaultInterval, "time between two metrics pages of an endpoint, with jitter")
	fs.DurationVar(&f.scrape.Timeout, "metrics-timeout", telemetry.DefaultTimeout, "time for a whole metrics page")
	fs.IntVar(&f.scrape.MaxPage, "metrics-page-max-bytes", telemetry.DefaultMaxPage, "longest metrics page; a longer one counts as failed")
	fs.IntVar(&f.labelSets, "metrics-label-sets", admin.DefaultLabelSets, "combinations of models and tenants that have series of their own on our /metrics; others count as \"other\"")
	fs.BoolVar(&f.legacyMetrics, "legacy-metrics", false, "print llm-d's metrics under their older names too")
	fs.DurationVar(&f.pool.StaleAfter, "metrics-staleness-threshold", pool.DefaultStaleAfter, "age beyond which an endpoint's last sample counts as unknown")
	fs.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "time that running exchanges get to end after SIGTERM")
	fs.BoolVar(&f.allowEmpty, "ready-without-endpoints", false, "report ready while a pool has no endpoint")
	fs.Float64Var(&f.clockSpeed, "clock-speed", 1, "seconds that pass for the scheduler per second of the wall: the --speed of simulated engines, 1 for real ones")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of decisions, for reproducible runs; 0 draws one")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "text or json")
	f.compatible.register(fs)
}

// The most that some flags may say.
const (
	fallbacksMax   = 100      // a destination list is a header
	pageBytesMax   = 1 << 30  // each endpoint has a page
	headerBytesMax = 64 << 20 // net/http reads twice as much, to refuse it in the words of the API
)

// check refuses what no flag's own parsing can see. given reports whether a flag stands on the command line.
func (f *serveFlags) check(given func(flag string) bool) error {
	var configurations []string
	for _, flag := range []string{"config-file", "config", "config-text"} {
		if given(flag) {
			configurations = append(configurations, "--"+flag)
		}
	}
	if len(configurations) > 1 {
		return fmt.Errorf("%s are given; there is one configuration: give one of them", strings.Join(configurations, " and "))
	}
	for _, p := range []struct {
		flag string
		port int
	}{{"--grpc-port", f.grpcPort}, {"--grpc-health-port", f.healthPort}, {"--metrics-port", f.metricsPort}, {"--debug-port", f.debugPort}, {"--replica-port", f.replicaPort}} {
		if p.port < 0 || p.port > 65535 {
			return fmt.Errorf("%s is %d; 0 to 65535", p.flag, p.port)
		}
	}
	switch {
	case f.grpcPort == 0 && f.listen == "":
		return fmt.Errorf("nothing to serve: give --grpc-port for ext_proc or --listen for the embedded proxy")
	case f.responseMode != "auto" && f.responseMode != "full":
		return fmt.Errorf("--response-mode is %q; auto or full", f.responseMode)
	case f.exchange.MaxInflatedBytes < 1:
		return fmt.Errorf("--max-inflated-bytes is %d; at least 1", f.exchange.MaxInflatedBytes)
	case f.exchange.MaxBodyBytes < 1:
		return fmt.Errorf("--max-body-bytes is %d; at least 1", f.exchange.MaxBodyBytes)
	case f.exchange.Fallbacks < 1 || f.exchange.Fallbacks > fallbacksMax:
		return fmt.Errorf("--fallbacks is %d; 1, which is the primary alone, to %d", f.exchange.Fallbacks, fallbacksMax)
	case f.exchange.RecordEvery < 0:
		return fmt.Errorf("--record-every is %d; 0 or more", f.exchange.RecordEvery)
	case f.exchange.RecordRing < 0 || f.exchange.RecordRing > recordRingMax:
		return fmt.Errorf("--record-ring is %d; 0 to %d, at some 10 kB each", f.exchange.RecordRing, recordRingMax)
	case f.exchange.BookingDeadline <= 0:
		return fmt.Errorf("--booking-deadline is %v; more than 0", f.exchange.BookingDeadline)
	case f.labelSets < 1:
		return fmt.Errorf("--metrics-label-sets is %d; at least 1", f.labelSets)
	case f.scrape.Interval < telemetry.MinInterval:
		return fmt.Errorf("--refresh-metrics-interval is %v; at least %v", f.scrape.Interval, telemetry.MinInterval)
	case f.scrape.Timeout <= 0:
		return fmt.Errorf("--metrics-timeout is %v; more than 0", f.scrape.Timeout)
	case f.pool.StaleAfter <= 0:
		return fmt.Errorf("--metrics-staleness-threshold is %v; more than 0", f.pool.StaleAfter)
	case f.scrape.MaxPage < 1 || f.scrape.MaxPage > pageBytesMax:
		return fmt.Errorf("--metrics-page-max-bytes is %d; 1 to %d", f.scrape.MaxPage, pageBytesMax)
	case f.exchange.MaxHeaderBytes > headerBytesMax:
		return fmt.Errorf("--max-header-bytes is %d; at most %d", f.exchange.MaxHeaderBytes, headerBytesMax)
	case f.maxStreams > math.MaxInt32:
		return fmt.Errorf("--max-concurrent-streams is %d; at most %d", f.maxStreams, math.MaxInt32)
	case !(f.clockSpeed >= 0.01 && f.clockSpeed <= 100):
		return fmt.Errorf("--clock-speed is %g; 0.01 to 100", f.clockSpeed)
	case f.drain < 0:
		return fmt.Errorf("--drain-timeout is %v; 0 or more", f.drain)
	}
	if err := f.checkReplicas(); err != nil {
		return err
	}
	f.exchange.Full = f.responseMode == "full"
	for _, b := range []struct {
		flag string
		n    int64
	}{{"--max-held-bytes", f.exchange.MaxHeldBytes}, {"--max-header-count", int64(f.exchange.MaxHeaderCount)},
		{"--max-header-bytes", int64(f.exchange.MaxHeaderBytes)}, {"--max-concurrent-requests", int64(f.exchange.MaxRequests)},
		{"--max-scan-bytes", f.exchange.MaxScanBytes}, {"--max-connections", int64(f.maxConnections)}, {"--max-concurrent-streams", int64(f.maxStreams)}} {
		if b.n < 0 {
			return fmt.Errorf("%s is %d; 0 for no bound, or more", b.flag, b.n)
		}
	}
	if f.metricsClientCA != "" && f.metricsCertDir == "" {
		return fmt.Errorf("--metrics-client-ca-file asks for clients' certificates, which takes TLS: give --metrics-cert-dir")
	}
	for _, q := range []struct {
		flag, text string
		to         *int
	}{{"--grpc-max-recv-msg-size", f.grpcReceiveBytes, &f.receiveBytesMax}, {"--grpc-max-send-msg-size", f.grpcSendBytes, &f.sendBytesMax}} {
		if q.text == "" {
			continue
		}
		n, err := quantity(q.text)
		if err != nil {
			return fmt.Errorf("%s is %q; %w", q.flag, q.text, err)
		}
		*q.to = n
	}
	return f.compatible.check(f, given)
}

// logger returns the process's logger as the flags ask.
func (f *serveFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level is %q; debug, info, warn or error", f.logLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format is %q; text or json", f.logFormat)
}

// host returns the address of a port that has one of its own, or that of all.
func (f *serveFlags) host(own string) string {
	if own != "" {
		return own
	}
	return f.bind
}

// quantity reads a number of bytes as Kubernetes writes it: 4194304, 4Mi, 4M.
func quantity(text string) (int, error) {
	digits := strings.TrimRight(text, "kKMGi")
	n, err := strconv.Atoi(digits)
	unit, known := map[string]int{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[text[len(digits):]]
	if err != nil || !known || n < 1 || n > math.MaxInt32/unit {
		return 0, errors.New("a number of bytes up to 2Gi is wanted, such as 33554432 or 32Mi")
	}
	return n * unit, nil
}
