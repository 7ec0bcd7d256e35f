package extproc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// childVariable makes this test binary stand in for the program: with it set, the first argument chooses what it is.
const childVariable = "FAIRLEAD_EXTPROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := stand(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stand is the program's two servers: bench, the command under test, and epp, a no-op server behind an endpoint picker's
// flags; and two ways to fail.
func stand(what string, args []string) error {
	var c *cobra.Command
	switch what {
	case "bench":
		c = Command(nil, nil)
	case "epp":
		c = standInPicker()
	case "die":
		return fmt.Errorf("no such configuration: %s", strings.Join(args, " "))
	default: // hang, printing nothing
		<-time.After(time.Hour) // a process without timers or signals to wait for is taken to be deadlocked
	}
	c.SetArgs(args)
	return c.ExecuteContext(context.Background())
}

// standInPicker takes the flags that a comparison gives an endpoint picker.
func standInPicker() *cobra.Command {
	var config, endpoints string
	var grpcPort, healthPort, metricsPort int
	var secure bool
	c := &cobra.Command{RunE: func(c *cobra.Command, _ []string) error {
		for file, want := range map[string]string{config: "EndpointPickerConfig", endpoints: "127.0.0.1"} {
			if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
				return fmt.Errorf("file %q: %w; %q expected in %q", file, err, want, text)
			}
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM)
		defer stop()
		return ServeNoOp(ctx, Serving{
			Address: fmt.Sprintf("127.0.0.1:%d", grpcPort), MetricsAddress: fmt.Sprintf("127.0.0.1:%d", metricsPort),
			Destinations: []string{there}, TLS: secure,
		}, io.Discard)
	}}
	c.Flags().StringVar(&config, "config-file", "", "")
	c.Flags().StringVar(&endpoints, "endpoints", "", "")
	c.Flags().IntVar(&grpcPort, "grpc-port", 0, "")
	c.Flags().IntVar(&healthPort, "grpc-health-port", 0, "")
	c.Flags().IntVar(&metricsPort, "metrics-port", 0, "")
	c.Flags().BoolVar(&secure, "secure-serving", true, "")
	return c
}

// command runs the command in this process; its children are this test binary.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv(childVariable, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Command([]string{self, "bench"}, []string{self, "epp"})
	var out, errs bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs(args)
	c.SilenceUsage = true
	err = c.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func needProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this platform: CPU of a child cannot be read")
	}
}

func TestCompareMeasuresBothSides(t *testing.T) {
	needProc(t)
	for _, tls := range []string{"false", "true"} {
		out, progress, err := command(t, "--compare", "--json", "--chars=200,8000", "--rounds=2", "--requests=200", "--warm-up=50ms",
			"--idle=50ms", "--endpoints=3", "--tls="+tls)
		if err != nil {
			t.Fatalf("tls %s: %v\n%s", tls, err, progress)
		}
		var r struct {
			Rounds int
			Sizes  []struct {
				Chars     int
				NoOp, EPP struct {
					Median            map[string]float64
					Decisions, Failed uint64
				}
				Ratio map[string]float64
			}
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if len(r.Sizes) != 2 || r.Sizes[1].Chars != 8000 {
			t.Fatalf("sizes %+v", r.Sizes)
		}
		for _, s := range r.Sizes {
			if s.NoOp.Decisions != 400 || s.EPP.Decisions != 400 || s.NoOp.Failed+s.EPP.Failed != 0 {
				t.Errorf("%d characters: %d and %d decisions, %d and %d failed; want 400 each", s.Chars, s.NoOp.Decisions, s.EPP.Decisions, s.NoOp.Failed, s.EPP.Failed)
			}
			// both sides are the same server, so what is counted exactly is the same
			if a := s.Ratio["allocs"]; a < 0.8 || a > 1.25 {
				t.Errorf("%d characters: allocations differ by %gx: %v, %v", s.Chars, a, s.NoOp.Median, s.EPP.Median)
			}
			if m := s.NoOp.Median; m["allocs"] < 50 || m["allocs"] > 1000 || m["bytes"] < float64(s.Chars) || m["per_second"] <= 0 || m["p99_ms"] < m["p50_ms"] || m["rss_mb"] < 1 {
				t.Errorf("%d characters: floor %v", s.Chars, m)
			}
		}
	}
}

func TestCompareGivesBudgetLines(t *testing.T) {
	needProc(t)
	args := []string{"--compare", "--budget", "--chars=8000", "--rounds=1", "--requests=300", "--warm-up=20ms", "--idle=20ms"}
	out, _, err := command(t, args...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines, error %v:\n%s", len(lines), err, out)
	}
	for _, l := range lines {
		fields := strings.Split(l, " | ")
		if len(fields) != 4 || !strings.HasPrefix(fields[0], "ext_proc decision, 8000 characters: ") {
			t.Errorf("line %q; want name | figure | budget | verdict", l)
		}
	}
	if !strings.Contains(out, "characters: faults | 0 of 600 | 0 | ok") {
		t.Errorf("no line that says 0 faults of 600:\n%s", out)
	}
}

func TestNoOpIsMeasuredAlone(t *testing.T) {
	needProc(t)
	out, _, err := command(t, "--noop", "--chars=200,100000", "--requests=50", "--warm-up=20ms", "--idle=20ms", "--mode=edges")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(strings.TrimSpace(lines[2]), "100000") {
		t.Fatalf("a header and two rows expected:\n%s", out)
	}
	for _, l := range lines[1:] {
		if f := strings.Fields(l); len(f) != 12 || f[1] != "50" || f[2] != "0" || f[9] == "-" || f[11] == "-" {
			t.Errorf("row %q; want 50 decisions, 0 failed, and every column measured", l)
		}
	}
}

func TestTargetIsMeasuredWithoutAProcess(t *testing.T) {
	out, _, err := command(t, "--target", serveNoOp(t, there), "--chars=200", "--requests=20", "--rate=500", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []Measured
	if err := json.Unmarshal([]byte(out), &runs); err != nil || len(runs) != 1 || runs[0].Result.Decisions != 20 || runs[0].Cost.CPU != nil {
		t.Errorf("%v: %s; want 20 decisions and no CPU", err, out)
	}
}

func TestFaultsFailTheCommand(t *testing.T) {
	dropping := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		body, err := held(stream)
		if err == nil {
			err = stream.Send(decision(there, there))
		}
		if err == nil {
			err = sendBody(stream, body[1:], true)
		}
		return err
	}))
	out, _, err := command(t, "--target", dropping, "--chars=200", "--requests=5")
	if err == nil || err.Error() != "5 exchanges had a fault" || !strings.Contains(out, "5 x body differs") {
		t.Errorf("error %v, output:\n%s", err, out)
	}
}

func TestCommandRefuses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing to do", nil, "give one of"},
		{"two things to do", []string{"--noop", "--compare"}, "give one of"},
		{"a budget without a floor", []string{"--noop", "--budget"}, "--budget needs --compare"},
		{"no rounds", []string{"--compare", "--rounds=0"}, "rounds is 0"},
		{"a prompt without room", []string{"--compare", "--chars=50"}, "prompt size is 50"},
		{"a configuration that is not there", []string{"--compare", "--epp-config=/no/such/file"}, "/no/such/file"},
		{"a picker that is not there", []string{"--compare", "--epp-command=/no/such/program"}, "/no/such/program"},
		{"a picker that ends at once, with its last words", []string{"--compare", "--epp-command=" + self + " die hard"}, "no such configuration: hard"},
		{"an endpoint too few", []string{"--compare", "--endpoints=0"}, "endpoints is 0"},
	} {
		if _, _, err := command(t, row.args...); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want an error with %q", row.name, err, row.want)
		}
	}
}

func TestChildrenEnd(t *testing.T) {
	t.Setenv(childVariable, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := children.Start([]string{self, "hang"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Until(t.Context(), 30*time.Millisecond, func(context.Context) error { return fmt.Errorf("still silent") })
	if err == nil || !strings.Contains(err.Error(), "not ready after 30ms") || !strings.Contains(err.Error(), "still silent") {
		t.Errorf("error %v; want how long it was waited for, and why", err)
	}
	c.Stop(5 * time.Second)
	if err := syscall.Kill(c.PID(), 0); err == nil {
		t.Errorf("process %d is still there", c.PID())
	}
}

func TestEnginesServeThePageOfAModelServer(t *testing.T) {
	e, err := startEngines(2, "m")
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	response, err := http.Get("http://" + e.names()[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 5`, `vllm:num_requests_waiting{engine="0",model_name="m"} 1`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2`, `num_gpu_blocks="27000"`,
	} {
		if !strings.Contains(string(page), want+"\n") && !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

func TestVerdicts(t *testing.T) {
	side := func(cpu, allocs, bytes float64) Side {
		return Side{Rounds: []Figures{{CPUMicros: cpu, Allocs: allocs, Bytes: bytes, P50Millis: 1, P99Millis: 2, PerSecond: 10, RSSMegabytes: math.NaN()}}, Decisions: 10}
	}
	headers := Load{Mode: Headers}
	for _, row := range []struct {
		name      string
		load      Load
		chars     int
		noop, epp Side
		failed    uint64
		what      string
		want      Verdict
	}{
		{"CPU at its limit", headers, 8000, side(100, 1, 1), side(150, 1, 1), 0, "CPU", OK},
		{"CPU beyond it", headers, 8000, side(100, 1, 1), side(151, 1, 1), 0, "CPU", Over},
		{"CPU not measured", headers, 8000, side(100, 1, 1), side(math.NaN(), 1, 1), 0, "CPU", Over},
		{"a floor that used no tick", headers, 8000, side(0, 1, 1), side(5, 1, 1), 0, "CPU", Over},
		{"CPU at a size without budget", headers, 200, side(100, 1, 1), side(900, 1, 1), 0, "CPU", Reported},
		{"allocations at their limit", headers, 8000, side(1, 300, 1), side(1, 150, 1), 0, "allocations", OK},
		{"allocations beyond it", headers, 8000, side(1, 300, 1), side(1, 151, 1), 0, "allocations", Over},
		{"allocations not measured", headers, 8000, side(1, 300, 1), side(1, math.NaN(), 1), 0, "allocations", Over},
		{"bytes of a large prompt", headers, 100_000, side(1, 1, 1), side(1, 1, 250_000), 0, "bytes", OK},
		{"bytes of a large prompt beyond", headers, 100_000, side(1, 1, 1), side(1, 1, 250_001), 0, "bytes", Over},
		{"large prompts at a rate", Load{Mode: Headers, Rate: 10}, 400_000, side(1, 1, 1), side(10_000, 1, 1), 0, "cores", OK},
		{"large prompts at a rate that cost more", Load{Mode: Headers, Rate: 10}, 400_000, side(1, 1, 1), side(10_001, 1, 1), 0, "cores", Over},
		{"memory not measured", Load{Mode: Headers, Rate: 10}, 400_000, side(1, 1, 1), side(1, 1, 1), 0, "resident memory", Over},
		{"a rate has no ratio", Load{Mode: Headers, Rate: 10}, 8000, side(1, 1, 1), side(9, 900, 1), 0, "allocations", Reported},
		{"no fault", headers, 200, side(1, 1, 1), side(1, 1, 1), 0, "faults", OK},
		{"one fault", headers, 200, side(1, 1, 1), side(1, 1, 1), 1, "faults", Over},
		{"latency has no budget", headers, 8000, side(1, 1, 1), side(1, 1, 1), 0, "p99", Reported},
		{"an answer's CPU in edges", Load{Mode: Edges}, 200, side(1, 1, 1), side(2000, 1, 1), 0, "CPU time", OK},
		{"an answer's CPU in edges beyond", Load{Mode: Edges}, 200, side(1, 1, 1), side(2001, 1, 1), 0, "CPU time", Over},
		{"a decision's budgets are not those of edges", Load{Mode: Edges}, 8000, side(1, 1, 1), side(9, 900, 1), 0, "allocations", Reported},
		{"an answer of a thousand chunks in full", Load{Mode: Full, Chunks: 1000}, 200, side(100, 1, 1), side(40, 1, 1), 0, "CPU", OK},
		{"the same with more", Load{Mode: Full, Chunks: 1000}, 200, side(100, 1, 1), side(41, 1, 1), 0, "CPU", Over},
		{"its chunks allocate nothing", Load{Mode: Full, Chunks: 1000}, 200, side(1, 40_000, 1), side(1, 150, 1), 0, "allocations", OK},
		{"its chunks allocate", Load{Mode: Full, Chunks: 1000}, 200, side(1, 40_000, 1), side(1, 1050, 1), 0, "allocations", Over},
		{"a shorter answer has no budget", Load{Mode: Full, Chunks: 999}, 200, side(100, 1, 1), side(120, 1, 1), 0, "CPU", Reported},
	} {
		s := SizeReport{Chars: row.chars, NoOp: row.noop, EPP: row.epp}
		s.EPP.Failed = row.failed
		s.sum()
		report := Report{Load: row.load, Sizes: []SizeReport{s}}
		var found bool
		for _, l := range report.Lines() {
			if l.Name == report.name(row.chars, row.what) {
				found = true
				if l.Verdict != row.want {
					t.Errorf("%s: %s; want %s", row.name, l, row.want)
				}
			}
		}
		if !found {
			t.Errorf("%s: no line %q", row.name, report.name(row.chars, row.what))
		}
		if _, err := json.Marshal(report.Lines()); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestMediansAndRatiosArePaired(t *testing.T) {
	cpu := func(v ...float64) (s Side) {
		for _, v := range v {
			s.Rounds = append(s.Rounds, Figures{CPUMicros: v, Allocs: math.NaN()})
		}
		return s
	}
	// the machine is ten times slower in the second round; ratios 2, 1.5, 3
	s := SizeReport{NoOp: cpu(10, 100, 10), EPP: cpu(20, 150, 30)}
	s.sum()
	if s.Ratio.CPUMicros != 2 || s.NoOp.Median.CPUMicros != 10 || s.EPP.Median.CPUMicros != 30 || !math.IsNaN(s.Ratio.Allocs) {
		t.Errorf("ratio %g, medians %g and %g, allocations %g; want 2, 10, 30 and not measured",
			s.Ratio.CPUMicros, s.NoOp.Median.CPUMicros, s.EPP.Median.CPUMicros, s.Ratio.Allocs)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of an even number is %g; want 2.5", got)
	}
}
