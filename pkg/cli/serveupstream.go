package cli

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// upstreamFlags are those of the reference endpoint picker that mean nothing here, or that another flag stands for: existing
// command lines are taken, and told what of them has no effect; what would change where requests go is refused.
type upstreamFlags struct {
	flags                *pflag.FlagSet
	verbosity            int
	zapLevel, zapEncoder string
	ignored              []string // flags that were given and have no effect, with why
	trimmed              []string // flags whose value had white space around it
}

// withoutEffect are flags that are taken, with their default there and why they do nothing.
var withoutEffect = []struct {
	flag, otherwise string
	kind            byte // b: bool, s: string, d: duration
	why             string
}{
	{"health-checking", "false", 'b', "gRPC health is always served beside ext_proc"},
	{"allow-experimental-plugins", "false", 'b', "every plugin type of this version is allowed"},
	{"metrics-endpoint-auth", "true", 'b', "metrics are served without asking Kubernetes who asks; --metrics-client-ca-file asks for certificates, --metrics-bind chooses who reaches them"},
	{"refresh-prometheus-metrics-interval", "5s", 's', "gauges are made when a page is asked for"},
	{"enable-grpc-stream-metrics", "false", 'b', "fairlead_ext_proc_messages_total is always counted"},
	{"tracing", "true", 'b', "no spans are exported in this version"},
	{"zap-devel", "false", 'b', "see --log-level and --log-format"},
	{"zap-stacktrace-level", "", 's', "stack traces are not logged"},
	{"zap-time-encoding", "", 's', "times are logged as RFC 3339"},
	{"pool-namespace", "", 's', "pools are those of the configuration"},
	{"pool-group", "inference.networking.k8s.io", 's', "pools are those of the configuration"},
}

// refusedFlags are flags without which a process would do something else than was asked for, with what to write instead.
var refusedFlags = []struct {
	flag    string
	kind    byte
	instead string
}{
	{"pool-name", 's', "discovery by InferencePool is not available in this version; list the endpoints in a file and give --endpoints FILE"},
	{"endpoint-selector", 's', "discovery by labels of pods is not available in this version; list the endpoints in a file and give --endpoints FILE"},
	{"endpoint-target-ports", 's', "ports stand in the endpoint file; give --endpoints FILE"},
	{"ha-enable-leader-election", 'b', "replicas elect no leader here: each serves; run several, which tell each other what they book (--replicas)"},
	{"disable-endpoint-subset-filter", 'b', "a subset hint is always honoured; remove what writes envoy.lb.subset_hint"},
	{"emit-endpoint-scores", 'b', "scores are shown by fairlead explain, not in headers"},
	{"total-queued-requests-metric", 's', "name the engine's metrics in a core-metrics-extractor of the configuration"},
	{"total-running-requests-metric", 's', "name the engine's metrics in a core-metrics-extractor of the configuration"},
	{"kv-cache-usage-percentage-metric", 's', "name the engine's metrics in a core-metrics-extractor of the configuration"},
	{"lora-info-metric", 's', "name the engine's metrics in a core-metrics-extractor of the configuration"},
	{"cache-info-metric", 's', "name the engine's metrics in a core-metrics-extractor of the configuration"},
}

// UpstreamFlag tells what comes of a flag of the reference endpoint picker that --help does not list: "mapped" to another one,
// "ignored" or "refused", and what is said of it. It is "" for a flag that is not known.
func UpstreamFlag(name string) (state, why string) {
	for _, w := range withoutEffect {
		if w.flag == name {
			return "ignored", w.why
		}
	}
	for _, r := range refusedFlags {
		if r.flag == name {
			return "refused", r.instead
		}
	}
	var u upstreamFlags
	u.register(pflag.NewFlagSet("", pflag.ContinueOnError))
	if f := u.flags.Lookup(name); f != nil {
		return "mapped", f.Usage
	}
	return "", ""
}

// register declares them, hidden from --help.
func (u *upstreamFlags) register(fs *pflag.FlagSet) {
	u.flags = fs
	fs.IntVarP(&u.verbosity, "v", "v", 2, "verbosity; 4 and more is --log-level debug")
	fs.StringVar(&u.zapLevel, "zap-log-level", "", "the same as --log-level; a number is --v")
	fs.StringVar(&u.zapEncoder, "zap-encoder", "", "the same as --log-format: json, or console for text")
	hidden := []string{"v", "zap-log-level", "zap-encoder"}
	declare := func(flag string, kind byte, otherwise, usage string) {
		hidden = append(hidden, flag)
		if kind == 'b' {
			yes, _ := strconv.ParseBool(otherwise) // false for none
			fs.Bool(flag, yes, usage)
			return
		}
		fs.String(flag, otherwise, usage)
	}
	for _, w := range withoutEffect {
		declare(w.flag, w.kind, w.otherwise, "no effect: "+w.why)
	}
	for _, r := range refusedFlags {
		declare(r.flag, r.kind, "", r.instead)
	}
	for _, flag := range hidden {
		fs.Lookup(flag).Hidden = true
	}
}

// check refuses and notes what was given of them.
func (u *upstreamFlags) check(f *serveFlags, given func(flag string) bool) error {
	for _, r := range refusedFlags {
		if value := u.flags.Lookup(r.flag).Value.String(); given(r.flag) && value != "" && value != "false" {
			return fmt.Errorf("--%s: %s", r.flag, r.instead)
		}
	}
	for _, w := range withoutEffect {
		if given(w.flag) {
			u.ignored = append(u.ignored, "--"+w.flag+" has no effect: "+w.why)
		}
	}
	level := u.zapLevel
	if n, err := strconv.Atoi(level); err == nil {
		u.verbosity, level = n, ""
	}
	switch {
	case given("log-level"):
	case level != "":
		f.logLevel = level
	case u.verbosity >= 4:
		f.logLevel = "debug"
	}
	if !given("log-format") {
		switch u.zapEncoder {
		case "":
		case "json":
			f.logFormat = "json"
		case "console":
			f.logFormat = "text"
		default:
			return fmt.Errorf("--zap-encoder is %q; json or console", u.zapEncoder)
		}
	}
	return nil
}

// trim takes white space from around the values of flags, as a file that was edited elsewhere leaves it there.
func (u *upstreamFlags) trim(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		bare := strings.TrimSpace(value)
		if f.Value.Type() != "string" || f.Name == "config-text" || bare == value || err != nil {
			return
		}
		if err = f.Value.Set(bare); err == nil {
			u.trimmed = append(u.trimmed, fmt.Sprintf("--%s is %q, and is taken as %q", f.Name, value, bare))
		}
	})
	return err
}

// tell logs what has no effect, and what was trimmed.
func (u *upstreamFlags) tell(log *slog.Logger) {
	for _, line := range append(u.trimmed, u.ignored...) {
		log.Warn("flag", "note", line)
	}
}
