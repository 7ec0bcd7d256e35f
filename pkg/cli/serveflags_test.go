package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// parsed parses flags as epp does; the error is what a user sees.
func parsed(args ...string) (*serveFlags, error) {
	var f serveFlags
	c := &cobra.Command{Use: "epp"}
	f.register(c, "epp")
	if err := c.ParseFlags(args); err != nil {
		return &f, err
	}
	if err := f.compatible.trim(c.Flags()); err != nil {
		return &f, err
	}
	return &f, f.check(c.Flags().Changed)
}

func TestFlagsOfTheReferencePicker(t *testing.T) {
	for _, row := range []struct {
		name, line string
		fails      string // "" is taken
		tells      string
		holds      func(f *serveFlags) bool
	}{
		{"ports and drain", "--grpc-port 1 --grpc-health-port 2 --metrics-port 3 --drain-timeout 10s", "", "",
			func(f *serveFlags) bool { return f.grpcPort == 1 && f.healthPort == 2 && f.metricsPort == 3 }},
		{"certificates", "--cert-path /certs --enable-cert-reload=false --tls-min-version VersionTLS13 --tls-cipher-suites A,B --metrics-cert-dir /m --metrics-client-ca-file /ca", "", "",
			func(f *serveFlags) bool {
				return f.certPath == "/certs" && !f.certReload && len(f.tlsCipherSuites) == 2 && f.metricsClientCA == "/ca"
			}},
		{"messages", "--grpc-max-recv-msg-size 8Mi --grpc-max-send-msg-size 1000000", "", "", func(f *serveFlags) bool { return f.receiveBytesMax == 8<<20 && f.sendBytesMax == 1_000_000 }},
		{"no size", "--grpc-max-recv-msg-size 8XB", "--grpc-max-recv-msg-size is \"8XB\"", "", nil},
		{"verbosity", "--v 5", "", "", func(f *serveFlags) bool { return f.logLevel == "debug" }},
		{"a log level goes before verbosity", "-v 5 --log-level error", "", "", func(f *serveFlags) bool { return f.logLevel == "error" }},
		{"zap", "--zap-encoder json --zap-log-level error --zap-devel=false", "", "--zap-devel has no effect", func(f *serveFlags) bool { return f.logFormat == "json" && f.logLevel == "error" }},
		{"zap by number", "--zap-log-level 5", "", "", func(f *serveFlags) bool { return f.logLevel == "debug" }},
		{"another encoder", "--zap-encoder xml", "--zap-encoder is \"xml\"; json or console", "", nil},
		{"no staleness", "--metrics-staleness-threshold 0", "--metrics-staleness-threshold is 0s; more than 0", "", nil},
		{"staleness below zero", "--metrics-staleness-threshold=-1s", "--metrics-staleness-threshold is -1s; more than 0", "", nil},
		{"no time for a page", "--metrics-timeout 0", "--metrics-timeout is 0s; more than 0", "", nil},
		{"a page beyond all memory", "--metrics-page-max-bytes 9223372036854775807", "--metrics-page-max-bytes is 9223372036854775807; 1 to 1073741824", "", nil},
		{"a destination list that is no header", "--fallbacks 1000000", "--fallbacks is 1000000; 1, which is the primary alone, to 100", "", nil},
		{"headers whose double no number holds", "--max-header-bytes 9223372036854775807", "--max-header-bytes is 9223372036854775807; at most 67108864", "", nil},
		{"streams that HTTP/2 counts as none", "--max-concurrent-streams 4294967296", "--max-concurrent-streams is 4294967296; at most 2147483647", "", nil},
		{"staleness", "--metrics-staleness-threshold 2s --refresh-metrics-interval 50ms", "", "", func(f *serveFlags) bool { return f.pool.StaleAfter == 2e9 }},
		{"a clock for simulated engines", "--clock-speed 8", "", "", func(f *serveFlags) bool { return f.clockSpeed == 8 }},
		{"a clock that stands", "--clock-speed 0", "--clock-speed is 0; 0.01 to 100", "", nil},
		{"a clock that nobody can read", "--clock-speed NaN", "--clock-speed is NaN; 0.01 to 100", "", nil},
		{"replicas", "--replicas a:9004,b:9005", "", "", func(f *serveFlags) bool { return len(f.replicas) == 2 && f.replicaPort == 9004 }},
		{"replicas on another port", "--replicas a:9004 --replica-port 1", "", "", func(f *serveFlags) bool { return f.replicaPort == 1 }},
		{"replicas without a port", "--replicas a", "--replicas is \"a\"; a host and a port, such as fairlead-replicas:9004", "", nil},
		{"replicas without a host", "--replicas :9004", "--replicas is \":9004\"; a host and a port", "", nil},
		{"replicas at no port", "--replicas a:0", "--replicas is \"a:0\"; a host and a port", "", nil},
		{"a replica's port alone", "--replica-port 9004", "--replica-port is given without --replicas", "", nil},
		{"a replica's address alone", "--replica-bind ::1", "--replica-bind is given without --replicas", "", nil},
		{"a replica's certificates alone", "--replica-cert-dir /c", "--replica-cert-dir is given without --replicas", "", nil},
		{"replicas that wait for each other", "--replicas a:1 --replica-wait 2ms", "", "", func(f *serveFlags) bool { return f.exchange.ReplicaWait == 2*time.Millisecond }},
		{"replicas that do not wait", "--replicas a:1 --replica-wait 0", "", "", func(f *serveFlags) bool { return f.exchange.ReplicaWait == 0 }},
		{"replicas that wait too long", "--replicas a:1 --replica-wait 21ms", "--replica-wait is 21ms; from 0 to 20ms", "", nil},
		{"replicas that wait for the past", "--replicas a:1 --replica-wait -1ms", "--replica-wait is -1ms; from 0 to 20ms", "", nil},
		{"a wait for no replicas", "--replica-wait 2ms", "--replica-wait is given without --replicas", "", nil},
		{"too many replicas", "--replicas " + strings.Repeat("a:1,", 64) + "a:1", "--replicas has 65 names; at most 64", "", nil},
		{"what has no effect", "--tracing=false --health-checking --metrics-endpoint-auth=true --pool-namespace x", "", "--tracing has no effect: no spans", nil},
		{"election that is not wanted", "--ha-enable-leader-election=false --disable-endpoint-subset-filter=false", "", "", nil},
		{"election", "--ha-enable-leader-election", "--ha-enable-leader-election: replicas elect no leader", "", nil},
		{"a pool by name", "--pool-name p", "--pool-name: discovery by InferencePool is not available", "", nil},
		{"deprecated metrics", "--lora-info-metric x", "core-metrics-extractor", "", nil},
		{"X21 white space around values", "--config-file=\tc.yaml\r --endpoints= e.yaml", "", "--endpoints is \" e.yaml\", and is taken as \"e.yaml\"",
			func(f *serveFlags) bool { return f.configFile == "c.yaml" && f.endpointsFile == "e.yaml" }},
		{"a bound below nothing", "--max-held-bytes=-1", "--max-held-bytes is -1", "", nil},
		{"clients' certificates without TLS", "--metrics-client-ca-file /ca", "give --metrics-cert-dir", "", nil},
		{"an address for all, and one for one", "--bind-address ::1 --metrics-bind 10.0.0.1", "", "", func(f *serveFlags) bool {
			return f.host(f.grpcBind) == "::1" && f.host(f.metricsBind) == "10.0.0.1" && f.debugBind == "127.0.0.1"
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := strings.Split(row.line, " --")
			for i := range args[1:] {
				args[i+1] = "--" + args[i+1]
			}
			var words []string
			for _, a := range args {
				if strings.Contains(a, "=") {
					words = append(words, a)
				} else {
					words = append(words, strings.Fields(a)...)
				}
			}
			f, err := parsed(words...)
			switch {
			case row.fails == "" && err != nil:
				t.Fatal(err)
			case row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)):
				t.Fatalf("got %v, want %q", err, row.fails)
			}
			var b bytes.Buffer
			f.compatible.tell(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return a }})))
			if told := strings.ReplaceAll(b.String(), `\"`, `"`); !strings.Contains(told, row.tells) || row.tells == "" && b.Len() > 0 {
				t.Errorf("told %s, want %q", b.String(), row.tells)
			}
			if row.holds != nil && !row.holds(f) {
				t.Errorf("taken as %+v", f)
			}
		})
	}
}
