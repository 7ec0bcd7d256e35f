package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/traces"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

func parse(t testing.TB, text string) *workload.Spec {
	t.Helper()
	s, err := workload.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// all yields every request of a workload, each of which is answered after took.
func all(t testing.TB, s *workload.Spec, seed uint64, took time.Duration) []*fleet.Request {
	t.Helper()
	src, err := workload.New(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	type running struct {
		ends pool.Instant
		r    *fleet.Request
	}
	var out []*fleet.Request
	var open []running
	for len(out) < 100_000 {
		at, ok := src.Peek()
		if len(open) > 0 && (!ok || open[0].ends <= at) {
			src.Done(open[0].ends, open[0].r, fleet.Completed)
			open = open[1:]
			continue
		}
		if !ok {
			break
		}
		r := src.Pop()
		kept := *r
		kept.Hashes = slices.Clone(r.Hashes)
		out = append(out, &kept)
		open = append(open, running{at + pool.Instant(took), r})
	}
	if err := src.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func gaps(rs []*fleet.Request) (mean, cv float64) {
	var sum, squares float64
	n := float64(len(rs) - 1)
	for i := 1; i < len(rs); i++ {
		g := time.Duration(rs[i].At - rs[i-1].At).Seconds()
		sum, squares = sum+g, squares+g*g
	}
	mean = sum / n
	return mean, math.Sqrt(squares/n-mean*mean) / mean
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %.4g, want %.4g within %.0f %%", what, got, want, tolerance*100)
	}
}

func TestArrivals(t *testing.T) {
	for _, tt := range []struct {
		arrivals string
		cv       float64 // of the gaps; negative: not looked at
	}{
		{"{type: poisson, rate: 20}", 1},
		{"{type: constant, rate: 20}", 0},
		{"{type: gamma, rate: 20, cv: 3}", 3},
		{"{type: gamma, rate: 20, cv: 0.5}", 0.5},
		{"{type: weibull, rate: 20, cv: 2}", 2},
		{"{type: mmpp, rate: 20, high: 4, share: 0.2, dwell: 2s}", -1},
		{"{type: diurnal, rate: 20, period: 100s, amplitude: 0.8}", -1},
		{"{type: poisson, stages: [{rate: 10, duration: 500s}, {rate: 30, duration: 500s}]}", -1},
	} {
		t.Run(tt.arrivals, func(t *testing.T) {
			s := parse(t, "duration: 1000s\narrivals: "+tt.arrivals+"\nindependent: {input: 100, output: 10}\n")
			rs := all(t, s, 1, time.Millisecond)
			mean, cv := gaps(rs)
			near(t, "the rate", 1/mean, 20, 0.08)
			if tt.cv >= 0 {
				if math.Abs(cv-tt.cv) > 0.1*tt.cv+0.001 {
					t.Errorf("the gaps' coefficient of variation is %.3f, want %.3f", cv, tt.cv)
				}
			}
			if !slices.IsSortedFunc(rs, func(a, b *fleet.Request) int { return int(a.At - b.At) }) {
				t.Error("arrivals are out of order")
			}
		})
	}
}

// Bursts are bursts: in an mmpp, seconds with several times the mean rate are common; in a Poisson stream they are not.
func TestBursts(t *testing.T) {
	busy := func(arrivals string) int {
		per := map[int]int{}
		for _, r := range all(t, parse(t, "duration: 600s\narrivals: "+arrivals+"\nindependent: {input: 100, output: 10}\n"), 1, 0) {
			per[int(time.Duration(r.At).Seconds())]++
		}
		n := 0
		for _, c := range per {
			if c > 40 {
				n++
			}
		}
		return n
	}
	if n := busy("{type: mmpp, rate: 20, high: 4, share: 0.2, dwell: 4s}"); n < 50 {
		t.Errorf("%d of 600 seconds have more than twice the rate, want about 120", n)
	}
	if n := busy("{type: poisson, rate: 20}"); n > 3 {
		t.Errorf("%d of 600 seconds of a Poisson stream have more than twice the rate", n)
	}
}

// A closed loop never has more under way than it has users, and begins the next when one ends.
func TestAClosedLoop(t *testing.T) {
	rs := all(t, parse(t, "requests: 500\narrivals: {type: closed, users: 7}\nindependent: {input: 100, output: 10}\n"), 1, time.Second)
	if len(rs) != 500 {
		t.Fatalf("%d requests, want 500", len(rs))
	}
	for i := 7; i < len(rs); i++ {
		if rs[i].At < rs[i-7].At+pool.Instant(time.Second) {
			t.Fatalf("request %d comes at %v, while 7 are under way", i, time.Duration(rs[i].At))
		}
	}
}

// The same seed gives the same requests; another rate asks the same questions, sooner.
func TestSeedsAndRates(t *testing.T) {
	text := "requests: 200\narrivals: {type: gamma, rate: 5, cv: 2}\nsharedPrefix: {groups: 10, system: 500, question: {type: normal, mean: 100, stdDev: 30, min: 10}, output: {type: exponential, mean: 50, min: 1}}\n"
	one, again, other := all(t, parse(t, text), 1, 0), all(t, parse(t, text), 1, 0), all(t, parse(t, text), 2, 0)
	faster := all(t, parse(t, text).Scale(2), 1, 0)
	for i := range one {
		if fmt.Sprint(*one[i]) != fmt.Sprint(*again[i]) {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		f := *faster[i]
		if want := 1 + (one[i].At-1)/2; f.At < want-1 || f.At > want+1 {
			t.Fatalf("request %d at twice the rate comes at %v, want %v", i, f.At, want)
		}
		f.At = one[i].At
		if fmt.Sprint(f) != fmt.Sprint(*one[i]) {
			t.Fatalf("request %d at twice the rate is another request", i)
		}
	}
	if fmt.Sprint(*one[0]) == fmt.Sprint(*other[0]) {
		t.Error("two seeds give the same request")
	}
}

func shared(a, b *fleet.Request) int {
	n := 0
	for n < min(len(a.Hashes), len(b.Hashes)) && a.Hashes[n] == b.Hashes[n] {
		n++
	}
	return n
}

// Two prompts of one group share its system text, block by block and no more; of two groups nothing.
func TestSharedPrefixes(t *testing.T) {
	rs := all(t, parse(t, "blockTokens: 16\nrequests: 300\narrivals: {type: poisson, rate: 5}\nsharedPrefix: {groups: 5, system: 1000, question: 200, output: 50}\n"), 1, 0)
	sizes := map[int]int{}
	seen := map[uint64]bool{}
	for i, a := range rs {
		if a.Prompt != 1200 || len(a.Hashes) != 75 {
			t.Fatalf("request %d: %d tokens in %d blocks, want 1200 in 75", i, a.Prompt, len(a.Hashes))
		}
		if seen[a.Hashes[74]] {
			t.Fatalf("request %d is a duplicate", i)
		}
		seen[a.Hashes[74]] = true
		for _, b := range rs[:i] {
			sizes[shared(a, b)]++
		}
	}
	if len(sizes) != 2 || sizes[0] == 0 || sizes[1000/16] == 0 {
		t.Errorf("pairs by blocks shared: %v; want 0 and %d alone", sizes, 1000/16)
	}
	came := all(t, parse(t, "blockTokens: 16\nrequests: 300\narrivals: {type: poisson, rate: 5}\nsharedPrefix: {groups: 5, prompts: 2, system: 1000, question: 200, output: 50}\n"), 1, 0)
	distinct := map[uint64]bool{}
	for _, r := range came {
		distinct[r.Hashes[74]] = true
	}
	if len(distinct) != 10 {
		t.Errorf("%d different prompts of 5 groups with 2 questions, want 10", len(distinct))
	}
}

// Requests of several streams, as of several workers, never ask the same by accident.
func TestStreamsShareNothing(t *testing.T) {
	text := "blockTokens: 16\nrequests: 400\narrivals: {type: poisson, rate: 5}\nstreams:\n"
	for i := range 4 {
		text += fmt.Sprintf("- {name: w%d, share: 0.25, independent: {input: 320, output: 16}}\n", i)
	}
	seen := map[uint64]bool{}
	for i, r := range all(t, parse(t, text), 1, 0) {
		for _, h := range r.Hashes {
			if seen[h] {
				t.Fatalf("request %d shares a block with another", i)
			}
			seen[h] = true
		}
	}
}

// The next turn begins with all of the one before, its answer included, and comes after the wait.
// A burst's requests share its prompt, none of them all, and nothing with the next burst; bursts may overlap.
func TestSiblings(t *testing.T) {
	rs := all(t, parse(t, "requests: 10\narrivals: {type: constant, rate: 10}\nadapters: [0.5]\nsiblings: {each: 16, within: 0.16, prompt: 640, own: 64, output: 8}"), 1, 0)
	if len(rs) != 160 {
		t.Fatalf("%d requests, want 10 bursts of 16", len(rs))
	}
	bursts := map[uint64][]*fleet.Request{}
	for i, r := range rs {
		bursts[r.Hashes[0]] = append(bursts[r.Hashes[0]], r)
		if i > 0 && r.At < rs[i-1].At {
			t.Errorf("request %d comes %v before the one before", i, time.Duration(rs[i-1].At-r.At))
		}
	}
	if len(bursts) != 10 {
		t.Errorf("%d prompts, want 10", len(bursts))
	}
	for _, b := range bursts {
		if len(b) != 16 || b[0].Prompt != 704 || b[0].Hashes[9] != b[15].Hashes[9] || b[0].Hashes[10] == b[15].Hashes[10] || b[0].Adapter != b[15].Adapter {
			t.Errorf("%d siblings, the first %+v, the last %+v; want 16 with 640 of 704 tokens and the adapter in common", len(b), b[0], b[15])
		}
		if d := time.Duration(b[15].At - b[0].At); d != 150*time.Millisecond {
			t.Errorf("the last sibling comes %v after the first, want 150ms", d)
		}
	}
}

func TestConversations(t *testing.T) {
	rs := all(t, parse(t, "blockTokens: 16\nrequests: 20\narrivals: {type: poisson, rate: 1}\nconversation: {shared: 320, system: 160, turns: 4, input: 100, output: 60, wait: 5}\n"), 1, 2*time.Second)
	if len(rs) != 80 {
		t.Fatalf("%d requests, want 20 sessions of 4 turns", len(rs))
	}
	last := map[int32]*fleet.Request{}
	turns := map[int32]int{}
	for i, r := range rs {
		before := last[r.Session]
		if before != nil {
			if r.Prompt != before.Prompt+160 {
				t.Errorf("request %d: %d tokens after %d; want 160 more", i, r.Prompt, before.Prompt)
			}
			if got, want := shared(r, before), int(before.Prompt+before.Output)/16; got != want {
				t.Errorf("request %d shares %d blocks with the turn before, want %d", i, got, want)
			}
			if r.At != before.At+pool.Instant(7*time.Second) {
				t.Errorf("request %d comes %v after the turn before, want 2 s of answer and 5 s of wait", i, time.Duration(r.At-before.At))
			}
		} else if r.Prompt != 580 {
			t.Errorf("request %d begins a session with %d tokens, want 580", i, r.Prompt)
		}
		last[r.Session] = r
		turns[r.Session]++
	}
	if len(turns) != 20 {
		t.Errorf("%d sessions, want 20", len(turns))
	}
}

func TestAConversationEndsAtItsBound(t *testing.T) {
	for _, r := range all(t, parse(t, "requests: 50\narrivals: {type: poisson, rate: 1}\nconversation: {turns: 50, input: 100, output: 60, maxTokens: 1000}\n"), 1, 0) {
		if r.Prompt+r.Output > 1000 {
			t.Fatalf("%d + %d tokens, at most 1000", r.Prompt, r.Output)
		}
	}
}

func TestLabels(t *testing.T) {
	rs := all(t, parse(t, `requests: 4000
arrivals: {type: poisson, rate: 10}
streams:
- {name: a, share: 0.75, tenants: 3, priority: 5, adapters: [0.5, 0.2], independent: {input: 100, output: 10}}
- {name: b, share: 0.25, independent: {input: 100, output: 10}}
`), 1, 0)
	classes, tenants, adapters := map[int32]float64{}, map[int32]float64{}, map[int32]float64{}
	for _, r := range rs {
		classes[r.Class] += 1.0 / 4000
		tenants[r.Tenant] += 1.0 / 4000
		if r.Class == 0 {
			adapters[r.Adapter] += 1.0 / 3000
			if r.Priority != 5 {
				t.Fatal("a request of the first stream has not its priority")
			}
			if want := map[bool]string{true: "", false: workload.AdapterName(r.Adapter)}[r.Adapter == 0]; r.Model != want {
				t.Fatalf("adapter %d is asked for as %q", r.Adapter, r.Model)
			}
		}
	}
	near(t, "the first class's share", classes[0], 0.75, 0.05)
	for tenant, want := range map[int32]float64{0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25} {
		near(t, fmt.Sprintf("tenant %d's share", tenant), tenants[tenant], want, 0.1)
	}
	near(t, "adapter 1's share", adapters[1], 0.5, 0.1)
	near(t, "adapter 2's share", adapters[2], 0.2, 0.15)
}

// quantiles returns mean, median and 99th percentile.
func quantiles(v []float64) (mean, p50, p99 float64) {
	slices.Sort(v)
	for _, x := range v {
		mean += x / float64(len(v))
	}
	return mean, v[len(v)/2], v[len(v)*99/100]
}

// hits is the share of prompt tokens that an endless cache would have.
func hits(rs []*fleet.Request, block float64) float64 {
	seen := map[uint64]bool{}
	found, total := 0.0, 0.0
	for _, r := range rs {
		total += float64(r.Prompt)
		for _, h := range r.Hashes[:min(len(r.Hashes), int(float64(r.Prompt)/block))] {
			if seen[h] {
				found += block
			}
			seen[h] = true
		}
	}
	return found / total
}

// What stands in for the traces has their published figures; and where the traces are at hand, they have them, too.
func TestLikenesses(t *testing.T) {
	for _, tt := range []struct {
		name, trace, file              string
		requests                       int
		inMean, inP50, inP99           float64
		outMean, outP50, outP99, found float64
	}{
		{"mooncake-conversation", "mooncake", "mooncake-conversation.jsonl", 12_031, 12_035, 6_909, 85_400, 342.6, 350, 1118, 0.374},
		{"mooncake-synthetic", "mooncake", "mooncake-synthetic.jsonl", 3_993, 15_325, 11_587, 66_456, 149.1, 69, 768, 0.651},
		{"azure-code", "azure", "azure-2023-code.csv", 8_819, 2_047.8, 1_469, 7_436, 27.9, 13, 251, 0},
		{"azure-conversation", "azure", "azure-2023-conv.csv", 19_366, 1_154.7, 1_020, 4_142, 211.1, 129, 601, 0},
	} {
		check := func(t *testing.T, rs []*fleet.Request, strict float64) {
			t.Helper()
			var in, out []float64
			for _, r := range rs {
				in, out = append(in, float64(r.Prompt)), append(out, float64(r.Output))
			}
			mean, p50, p99 := quantiles(in)
			near(t, "the mean prompt", mean, tt.inMean, 0.08*strict)
			near(t, "the median prompt", p50, tt.inP50, 0.15*strict)
			near(t, "the longest prompts", p99, tt.inP99, 0.25*strict)
			mean, p50, p99 = quantiles(out)
			near(t, "the mean answer", mean, tt.outMean, 0.12*strict)
			near(t, "the median answer", p50, tt.outP50, 0.25*strict)
			near(t, "the longest answers", p99, tt.outP99, 0.6*strict)
			near(t, "what an endless cache has", hits(rs, 512), tt.found, 0.12*strict)
		}
		t.Run("like "+tt.name, func(t *testing.T) {
			check(t, all(t, parse(t, fmt.Sprintf("blockTokens: 512\nrequests: %d\narrivals: {type: poisson, rate: 4}\nlike: {trace: %s}\n", tt.requests, tt.name)), 1, 0), 1)
		})
		t.Run(tt.file, func(t *testing.T) {
			if _, err := traces.Find(tt.file); err != nil {
				t.Skip("needs the trace: ", err)
			}
			rs := all(t, parse(t, fmt.Sprintf("blockTokens: 512\ntrace: {format: %s, file: %s}\n", tt.trace, tt.file)), 1, 0)
			if len(rs) != tt.requests {
				t.Errorf("%d requests, want %d", len(rs), tt.requests)
			}
			check(t, rs, 0.1)
		})
	}
}

func TestWhatIsWrongWithAWorkload(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "requests: 1\n", "exactly one of"},
		{"two contents", "requests: 1\narrivals: {type: poisson, rate: 1}\nindependent: {input: 1, output: 1}\nlike: {trace: azure-code}\n", "2 contents"},
		{"no end", "arrivals: {type: poisson, rate: 1}\nindependent: {input: 1, output: 1}\n", "never ends"},
		{"an unknown member", "requests: 1\nindependant: {input: 1}\n", "independant"},
		{"an unknown member within", "requests: 1\narrivals: {type: poisson, rate: 1}\nindependent: {input: 1, output: {type: normal, mean: 1, sd: 3}}\n", "sd"},
		{"an unknown process", "requests: 1\narrivals: {type: possion, rate: 1}\nindependent: {input: 1, output: 1}\n", `"possion"`},
		{"no rate", "requests: 1\narrivals: {type: poisson}\nindependent: {input: 1, output: 1}\n", "rate is 0"},
		{"a burstiness of nothing", "requests: 1\narrivals: {type: gamma, rate: 1}\nindependent: {input: 1, output: 1}\n", "cv 0"},
		{"no output", "requests: 1\narrivals: {type: poisson, rate: 1}\nindependent: {input: 1}\n", "output is missing"},
		{"an unknown trace", "requests: 1\narrivals: {type: poisson, rate: 1}\nlike: {trace: azure}\n", `"azure"`},
		{"blocks that do not divide", "blockTokens: 100\ntrace: {format: mooncake, file: x}\n", "one must divide"},
		{"siblings of none", "requests: 1\narrivals: {type: poisson, rate: 1}\nsiblings: {prompt: 1, output: 1}\n", "each 0"},
		{"siblings that wait for each other", "requests: 1\narrivals: {type: closed, users: 1}\nsiblings: {each: 2, prompt: 1, output: 1}\n", "may not be closed"},
		{"adapters above one", "requests: 1\narrivals: {type: poisson, rate: 1}\nadapters: [0.8, 0.4]\nindependent: {input: 1, output: 1}\n", "sum to 1.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := workload.Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want something with %q", err, tt.want)
			}
		})
	}
}
