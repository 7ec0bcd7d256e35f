package fleet_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// turns sends requests to the members in turn, and writes down what it hears.
type turns struct {
	members  []pool.Endpoint
	next     int
	told     []string
	observed []pool.Sample
	when     []pool.Instant
	hold     bool // until the first Due at or after release
	held     []uint64
	release  pool.Instant
}

func (d *turns) Members(now pool.Instant, m []pool.Endpoint) {
	d.members = m
	names := []string{}
	for i := range m {
		name := m[i].Name
		if m[i].Draining {
			name += "(draining)"
		}
		names = append(names, name)
	}
	d.told = append(d.told, fmt.Sprintf("%v members %s", time.Duration(now).Round(time.Millisecond), strings.Join(names, " ")))
}

func (d *turns) Observe(now pool.Instant, _ int32, s pool.Sample) {
	d.observed, d.when = append(d.observed, s), append(d.when, now)
}

func (d *turns) Arrive(_ pool.Instant, number uint64, _ *fleet.Request, _ *openai.Summary) fleet.Answer {
	if d.hold {
		d.held = append(d.held, number)
		return fleet.Answer{Held: true}
	}
	return d.choose(number)
}

func (d *turns) choose(number uint64) fleet.Answer {
	for range d.members {
		m := &d.members[d.next%len(d.members)]
		d.next++
		if !m.Draining {
			return fleet.Answer{Number: number, To: fleet.Member(m.Addr)}
		}
	}
	return fleet.Answer{Number: number, Refused: "no_endpoint"}
}

func (d *turns) Unreachable(_ pool.Instant, number uint64, member int32) fleet.Answer {
	for _, m := range d.members {
		if fleet.Member(m.Addr) != member {
			return fleet.Answer{To: fleet.Member(m.Addr)}
		}
	}
	return fleet.Answer{Refused: "upstream_unreachable"}
}

func (d *turns) FirstToken(pool.Instant, uint64) {}

func (d *turns) Finish(now pool.Instant, number uint64, u openai.Usage, clean bool) {
	d.held = slices.DeleteFunc(d.held, func(held uint64) bool { return held == number })
	if !clean {
		d.told = append(d.told, fmt.Sprintf("%v request %d broke", time.Duration(now).Round(time.Millisecond), number))
	}
}

func (d *turns) Due(now pool.Instant, released []fleet.Answer) ([]fleet.Answer, pool.Instant) {
	if !d.hold || now < d.release {
		return released, d.release
	}
	for _, n := range d.held {
		released = append(released, d.choose(n))
	}
	d.held, d.hold = nil, false
	return released, 0
}

// list is a source of requests that are known from the start.
type list struct {
	requests []fleet.Request
	done     []fleet.Status
	finished []pool.Instant
}

func (l *list) BlockTokens() int32 { return 16 }
func (l *list) Peek() (pool.Instant, bool) {
	if len(l.requests) == 0 {
		return 0, false
	}
	return l.requests[0].At, true
}
func (l *list) Pop() *fleet.Request {
	r := &l.requests[0]
	l.requests = l.requests[1:]
	return r
}
func (l *list) Done(now pool.Instant, _ *fleet.Request, s fleet.Status) {
	l.done, l.finished = append(l.done, s), append(l.finished, now)
}

func every(n int, gap time.Duration, prompt, output int32) *list {
	l := &list{}
	for i := range n {
		l.requests = append(l.requests, fleet.Request{At: 1 + pool.Instant(i)*pool.Instant(gap), Prompt: prompt, Output: output})
	}
	return l
}

func pods(t testing.TB, n int) []fleet.Pod {
	p, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]fleet.Pod, n)
	for i := range out {
		out[i].Profile = p
	}
	return out
}

func run(t testing.TB, o fleet.Options) *fleet.Result {
	t.Helper()
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const second = pool.Instant(time.Second)

// A fleet of one pod is that engine: its figures are those of the engine driven alone.
func TestOnePodIsItsEngine(t *testing.T) {
	const n, gap, prompt, output = 50, 30 * time.Millisecond, 700, 40
	r := run(t, fleet.Options{Pods: pods(t, 1), Decider: &turns{}, Source: every(n, gap, prompt, output)})

	e, err := engine.New(pods(t, 1)[0].Profile, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	order := map[engine.ID]int{}
	want := make([]engine.Timeline, n)
	collect := func(r engine.Result) {
		for _, f := range r.Finished {
			want[order[f.ID]] = f.Timeline
		}
	}
	for i := range n {
		at := 1 + time.Duration(i)*gap
		for {
			next, busy := e.Next()
			if !busy || next > at {
				break
			}
			collect(e.Step(next))
		}
		id, err := e.Add(at, engine.Request{Prompt: prompt, Output: output})
		if err != nil {
			t.Fatal(err)
		}
		order[id] = i
		if _, busy := e.Next(); !busy {
			e.Step(at)
		}
	}
	for {
		next, busy := e.Next()
		if !busy {
			break
		}
		collect(e.Step(next))
	}
	for i, o := range r.Outcomes {
		got := engine.Timeline{
			Arrived: time.Duration(o.Sent), Admitted: time.Duration(o.Admitted), FirstToken: time.Duration(o.FirstToken),
			LastToken: time.Duration(o.End), Prompt: o.Prompt, Cached: o.Cached, Output: o.Generated, Preemptions: o.Preemptions,
		}
		if got != want[i] {
			t.Fatalf("request %d: %+v in the fleet, %+v in the engine alone", i, got, want[i])
		}
	}
	if r.Pods[0].Counters != e.Counters() {
		t.Errorf("counters %+v in the fleet, %+v alone", r.Pods[0].Counters, e.Counters())
	}
}

func TestWhatHappensToPods(t *testing.T) {
	tests := []struct {
		name     string
		events   []fleet.Event
		until    pool.Instant
		told     []string
		statuses map[fleet.Status]int
	}{
		{"nothing", nil, 0, []string{"0s members pod-0 pod-1"}, map[fleet.Status]int{fleet.Completed: 40}},
		{
			"a crash breaks what runs; until it is noticed, the next member is tried",
			[]fleet.Event{{At: second, Kind: fleet.Crash, Pod: 1, Detected: second}}, 0,
			[]string{"0s members pod-0 pod-1", "1s request 5 broke", "1s request 7 broke", "1s request 9 broke", "2s members pod-0"},
			map[fleet.Status]int{fleet.Completed: 37, fleet.Failed: 3},
		},
		{
			"a pod that comes back is a member again",
			[]fleet.Event{{At: second, Kind: fleet.Crash, Pod: 1}, {At: 2 * second, Kind: fleet.Restart, Pod: 1}}, 0,
			[]string{"0s members pod-0 pod-1", "1s request 5 broke", "1s request 7 broke", "1s request 9 broke", "1s members pod-0", "2s members pod-0 pod-1"},
			map[fleet.Status]int{fleet.Completed: 37, fleet.Failed: 3},
		},
		{
			"a drained pod ends what it has, and leaves",
			[]fleet.Event{{At: second, Kind: fleet.Drain, Pod: 1}}, 0,
			[]string{"0s members pod-0 pod-1", "1s members pod-0 pod-1(draining)", "1.471s members pod-0"},
			map[fleet.Status]int{fleet.Completed: 40},
		},
		{
			"a new pod joins",
			[]fleet.Event{{At: second, Kind: fleet.Add}}, 0,
			[]string{"0s members pod-0 pod-1", "1s members pod-0 pod-1 pod-2"},
			map[fleet.Status]int{fleet.Completed: 40},
		},
		{
			"what hangs for ever is unfinished",
			[]fleet.Event{{At: second, Kind: fleet.Hang, Pod: 0}}, 0,
			[]string{"0s members pod-0 pod-1"}, map[fleet.Status]int{fleet.Completed: 22, fleet.Unfinished: 18},
		},
		{
			"what hangs for a while is late",
			[]fleet.Event{{At: second, Kind: fleet.Hang, Pod: 0}, {At: 9 * second, Kind: fleet.Resume, Pod: 0}}, 0,
			[]string{"0s members pod-0 pod-1"}, map[fleet.Status]int{fleet.Completed: 40},
		},
		{
			"what came to an idle pod that hung is served when it goes on",
			[]fleet.Event{{At: 0, Kind: fleet.Hang, Pod: 1}, {At: 9 * second, Kind: fleet.Resume, Pod: 1}}, 0,
			[]string{"0s members pod-0 pod-1"}, map[fleet.Status]int{fleet.Completed: 40},
		},
		{"the run is cut off", nil, 2 * second, []string{"0s members pod-0 pod-1"}, map[fleet.Status]int{fleet.Completed: 14, fleet.Unfinished: 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &turns{}
			source := every(40, 100*time.Millisecond, 1000, 80)
			r := run(t, fleet.Options{Pods: pods(t, 2), Decider: d, Source: source, Events: tt.events, Until: tt.until})
			if !reflect.DeepEqual(d.told, tt.told) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(d.told, "\n"), strings.Join(tt.told, "\n"))
			}
			statuses := map[fleet.Status]int{}
			for i := range r.Outcomes {
				statuses[r.Outcomes[i].Status]++
			}
			if !reflect.DeepEqual(statuses, tt.statuses) {
				t.Errorf("statuses %v, want %v", statuses, tt.statuses)
			}
			if got, want := len(source.done), len(r.Outcomes)-statuses[fleet.Unfinished]; got != want {
				t.Errorf("the source heard of %d ends, want %d", got, want)
			}
		})
	}
}

func TestASlowPodTakesLonger(t *testing.T) {
	at := func(events ...fleet.Event) pool.Instant {
		return run(t, fleet.Options{Pods: pods(t, 1), Decider: &turns{}, Source: every(1, 0, 10, 100), Events: events}).Outcomes[0].End
	}
	normal, slow := at(), at(fleet.Event{At: 0, Kind: fleet.Slow, Factor: 2})
	if ratio := float64(slow) / float64(normal); math.Abs(ratio-2) > 0.02 { // the step that runs already is not slowed
		t.Errorf("%v against %v: %.3f times as long, want 2", time.Duration(slow), time.Duration(normal), ratio)
	}
}

func TestSignals(t *testing.T) {
	read := func(s fleet.Signals, events ...fleet.Event) *turns {
		d := &turns{}
		run(t, fleet.Options{Seed: 3, Pods: pods(t, 2), Decider: d, Source: every(100, 100*time.Millisecond, 1000, 50), Signals: s, Events: events})
		return d
	}
	whole := read(fleet.Signals{Every: second})
	if n := len(whole.observed); n < 18 || n > 22 {
		t.Errorf("%d readings of 2 pods in 10 s at one a second", n)
	}
	for i, s := range whole.observed {
		if s.At != whole.when[i] {
			t.Errorf("reading %d was taken at %v and arrived at %v; want at once", i, s.At, whole.when[i])
		}
		if s.Running < 0 || s.Waiting < 0 || s.KVUsage < 0 || s.KVUsage > 1 || s.BlockTokens != 16 || s.ProcessStart <= 0 {
			t.Errorf("reading %d: %+v", i, s)
		}
	}
	old := read(fleet.Signals{Every: second, Age: second / 2, Jitter: second / 4})
	if len(old.observed) < len(whole.observed)-2 {
		t.Errorf("%d readings arrive late, %d at once", len(old.observed), len(whole.observed))
	}
	for i, s := range old.observed {
		if age := old.when[i] - s.At; age < second/2 || age > second*3/4 {
			t.Errorf("reading %d is %v old, want 500 to 750 ms", i, time.Duration(age))
		}
	}
	if n := len(read(fleet.Signals{Every: second / 20, Loss: 0.5}).observed); n < 160 || n > 240 {
		t.Errorf("%d of 400 readings arrive at a loss of one half", n)
	}
	if n := len(read(fleet.Signals{}).observed); n != 0 {
		t.Errorf("%d readings with no period", n)
	}
	blind := read(fleet.Signals{Every: second}, fleet.Event{At: 0, Kind: fleet.Blind, Pod: 0}, fleet.Event{At: 5 * second, Kind: fleet.See, Pod: 0})
	if n, all := len(blind.observed), len(whole.observed); n < all*3/4-2 || n > all*3/4+2 {
		t.Errorf("%d of %d readings with one of two pods blind for half of the time", n, all)
	}
}

func TestHeldRequestsGoWhenReleased(t *testing.T) {
	d := &turns{hold: true, release: 3 * second}
	r := run(t, fleet.Options{Pods: pods(t, 2), Decider: d, Source: every(10, time.Millisecond, 100, 5)})
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Status != fleet.Completed || o.Sent != 3*second {
			t.Errorf("request %d: %s, sent at %v", i, o.Status, time.Duration(o.Sent))
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := func() fleet.Options {
		return fleet.Options{Pods: pods(t, 1), Decider: &turns{}, Source: every(1, 0, 1, 1)}
	}
	for _, tt := range []struct {
		name   string
		change func(*fleet.Options)
		want   string
	}{
		{"no pods", func(o *fleet.Options) { o.Pods = nil }, "no pods"},
		{"no decider", func(o *fleet.Options) { o.Decider = nil }, "a decider"},
		{"loss above one", func(o *fleet.Options) { o.Signals.Loss = 1.5 }, "0 to 1"},
		{"loss that is no number", func(o *fleet.Options) { o.Signals.Loss = math.NaN() }, "0 to 1"},
		{"a negative age", func(o *fleet.Options) { o.Signals.Age = -1 }, "negative"},
		{"a negative delay of events", func(o *fleet.Options) { o.Signals.EventDelay = -1 }, "negative"},
		{"a loss of events below zero", func(o *fleet.Options) { o.Signals.EventLoss = -0.5 }, "0 to 1"},
		{"an event of no kind", func(o *fleet.Options) { o.Events = []fleet.Event{{Kind: "burn"}} }, `"burn"`},
		{"an event of no pod", func(o *fleet.Options) { o.Events = []fleet.Event{{Kind: fleet.Crash, Pod: 1}} }, "pod 1"},
		{"slow by nothing", func(o *fleet.Options) { o.Events = []fleet.Event{{Kind: fleet.Slow}} }, "factor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good()
			tt.change(&o)
			if _, err := fleet.New(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want something with %q", err, tt.want)
			}
		})
	}
}

func TestAddressesAreMembers(t *testing.T) {
	for _, n := range []int32{0, 1, 255, 256, 65_535, 65_536, 1 << 20} {
		if got := fleet.Member(fleet.Addr(n)); got != n {
			t.Errorf("member %d comes back as %d", n, got)
		}
	}
}
