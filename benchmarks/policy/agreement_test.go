package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/load"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/server"
)

// wall is a run in wall-clock time: the production scheduler decides on bodies, and simulated servers answer over HTTP. What
// the scheduler hears is written down in order.
type wall struct {
	t         *testing.T
	began     time.Time
	scheduler *exchange.Scheduler
	pool      *pool.Pool
	client    *http.Client
	block     int32

	mu    sync.Mutex
	heard []heard
	picks []int32
	all   sync.WaitGroup
}

// heard is one thing that the scheduler was told.
type heard struct {
	now    pool.Instant
	what   string // arrive, first, end, sample
	number uint64
	r      *fleet.Request
	member int32
	sample pool.Sample
}

func (w *wall) note(h heard, f func(now pool.Instant)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.now = pool.Instant(time.Since(w.began)) + 1
	w.heard = append(w.heard, h)
	f(h.now)
}

func (w *wall) one(r *fleet.Request, engines []netip.AddrPort) {
	var x *exchange.Exchange
	var number uint64
	var to netip.AddrPort
	var body []byte
	w.note(heard{what: "arrive", r: r}, func(now pool.Instant) {
		number = uint64(len(w.picks))
		w.heard[len(w.heard)-1].number = number
		body, _ = json.Marshal(map[string]any{
			"model": "m", "stream": true, "max_tokens": r.Output, "ignore_eos": true, "stream_options": map[string]bool{"include_usage": true},
			"messages": []map[string]string{{"role": "user", "content": load.Prompt(number, r, w.block)}},
		})
		x = w.scheduler.Begin(now, nil)
		x.Headers(now, openai.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: "content-type", Value: "application/json"}},
			exchange.Via{Adapter: "test", Fallbacks: true, Sees: plugins.FirstByte | plugins.Usage, StreamLasts: true, TellsEnd: true}, false)
		a := x.Body(now, body, true)
		to = a.To[0]
		w.picks = append(w.picks, fleet.Member(to))
	})
	res, err := w.client.Post("http://"+engines[fleet.Member(to)].String()+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return
	}
	w.note(heard{what: "first", number: number}, func(now pool.Instant) { x.Response(now, nil, to, false) })
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	w.note(heard{what: "end", number: number}, func(now pool.Instant) { x.End(now, exchange.Ending{Clean: err == nil}) })
}

var figure = map[string]*regexp.Regexp{
	"waiting": regexp.MustCompile(`(?m)^vllm:num_requests_waiting\{[^}]*\} (\S+)`),
	"running": regexp.MustCompile(`(?m)^vllm:num_requests_running\{[^}]*\} (\S+)`),
	"usage":   regexp.MustCompile(`(?m)^vllm:kv_cache_usage_perc\{[^}]*\} (\S+)`),
}

// scrape reads an engine's page.
func (w *wall) scrape(member int32, at netip.AddrPort) {
	asked := pool.Instant(time.Since(w.began)) + 1
	res, err := w.client.Get("http://" + at.String() + "/metrics")
	if err != nil {
		w.t.Error(err)
		return
	}
	page, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		w.t.Error(err)
		return
	}
	get := func(name string) float64 {
		m := figure[name].FindSubmatch(page)
		if m == nil {
			w.t.Errorf("no %s on the page", name)
			return -1
		}
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		return v
	}
	s := pool.NoSample()
	s.At, s.Waiting, s.Running, s.KVUsage, s.Blocks, s.BlockTokens = asked, int32(get("waiting")), int32(get("running")), get("usage"), 29_205, 16
	w.note(heard{what: "sample", member: member, sample: s}, func(now pool.Instant) { observe(w.pool, now, member, s) })
}

func observe(p *pool.Pool, now pool.Instant, member int32, s pool.Sample) {
	snapshot := p.Snapshot()
	if id, ok := snapshot.Lookup(fleet.Addr(member)); ok {
		p.Observe(now, snapshot.Slots[id].Ref, s)
	}
}

func members(n int) []pool.Endpoint {
	var out []pool.Endpoint
	for i := range int32(n) {
		out = append(out, pool.Endpoint{Namespace: "default", Name: fmt.Sprint("pod-", i), Addr: fleet.Addr(i)})
	}
	return out
}

// follower is the picker that goes where another one went, and notes where it would have gone: so a pick that differs does not
// make others differ.
type follower struct {
	pickers.MaxScore
	leader, own int32
}

func (f *follower) Pick(c *plugins.Cycle, totals []float64, want int, dst []int) []int {
	from := len(dst)
	dst = f.MaxScore.Pick(c, totals, want, dst)
	member := func(i int) int32 { return fleet.Member(c.Snapshot.Slots[c.Candidates[i]].Addr) }
	f.own = member(dst[from])
	if led := slices.IndexFunc(c.Candidates, func(id pool.ID) bool { return fleet.Member(c.Snapshot.Slots[id].Addr) == f.leader }); led >= 0 {
		if at := slices.Index(dst[from:], led); at >= 0 {
			dst[from+at] = dst[from]
		}
		dst[from] = led
	}
	return dst
}

// freely runs the same requests on as many simulated engines of the same speed, in virtual time, with nothing heard from the wall.
func freely(t *testing.T, spec *workload.Spec, seed uint64, engines int) *fleet.Result {
	t.Helper()
	r, _ := run(t, policy.Default, spec, seed, func(o *fleet.Options) {
		o.Pods = o.Pods[:engines]
		o.Signals.Every = pool.Instant(100 * time.Millisecond)
		for i := range o.Pods {
			o.Events = append(o.Events, fleet.Event{Kind: fleet.Slow, Pod: int32(i), Factor: 1.0 / speed})
		}
	})
	return r
}

// speed is how many times as fast as the wall's time the engines' is.
const speed = 8

// Given the arrivals, readings, first tokens and ends of a run in wall-clock time, the fleet's scheduler picks as the serving
// one did. There the prompts were bytes, whose blocks and tokens were estimated; here they are the workload's names and counts.
func TestVirtualPicksAgreeWithWallClock(t *testing.T) {
	if testing.Short() {
		t.Skip("needs three seconds of wall-clock time")
	}
	const engines, seed = 4, 9
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served, err := server.Start(ctx, server.Options{Engines: engines, Speed: speed, ServedNames: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	spec, err := workload.Parse([]byte("blockTokens: 64\nduration: 3s\narrivals: {type: poisson, rate: 150}\nsharedPrefix: {groups: 12, system: {type: uniform, min: 300, max: 2500}, question: {type: lognormal, mean: 400, stdDev: 300, min: 20}, output: {type: exponential, mean: 60, min: 1, max: 400}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := workload.New(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	file, problems := config.Default(catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	w := &wall{t: t, began: time.Now(), pool: pool.New(built.Plans[0].Pool.Name, reason.Discard{}), block: spec.BlockTokens, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 500}}}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Seed = built, []*pool.Pool{w.pool}, seed
	if w.scheduler, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	w.pool.Update(1, members(engines))

	addrs := served.Addrs()
	done := make(chan struct{})
	var scraping sync.WaitGroup
	for i, at := range addrs {
		scraping.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				w.scrape(int32(i), at)
				select {
				case <-tick.C:
				case <-done:
					return
				}
			}
		})
	}
	for {
		at, ok := source.Peek()
		if !ok {
			break
		}
		<-time.After(time.Duration(at) - time.Since(w.began))
		r := source.Pop()
		w.all.Go(func() { w.one(r, addrs) })
	}
	w.all.Wait()
	close(done)
	scraping.Wait()

	f := &follower{MaxScore: *pickers.NewMaxScore()}
	entries := catalog.Builtin()
	entries[slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == "max-score-picker" })].New = func() any { return f }
	d, err := policy.NewDefault(entries, seed)
	if err != nil {
		t.Fatal(err)
	}
	d.Members(1, members(engines))
	agree, cached := 0, map[int32]int{}
	for _, h := range w.heard {
		switch h.what {
		case "sample":
			d.Observe(h.now, h.member, h.sample)
		case "first":
			d.FirstToken(h.now, h.number)
		case "end":
			d.Finish(h.now, h.number, openai.NoUsage, true)
		case "arrive":
			s := openai.NewSummary()
			s.Complete, s.Stream, s.Model, s.PromptTokens, s.BlockTokens, s.MaxTokens = true, true, "m", int64(h.r.Prompt), spec.BlockTokens, int64(h.r.Output)
			s.BlockHashes = h.r.Hashes[:min(int(h.r.Prompt/spec.BlockTokens), len(h.r.Hashes))]
			f.leader = w.picks[h.number]
			d.Arrive(h.now, h.number, h.r, s)
			if f.own == f.leader {
				agree++
			}
			cached[w.picks[h.number]]++
		}
	}
	share := float64(agree) / float64(len(w.picks))
	t.Logf("%d of %d picks agree (%.2f %%), over %v", agree, len(w.picks), 100*share, cached)
	if share < 0.99 {
		t.Errorf("%d of %d picks agree, %.1f %%; want at least 99 %%", agree, len(w.picks), 100*share)
	}
	free := freely(t, spec, seed, engines)
	same := 0
	for i := range free.Outcomes {
		if free.Outcomes[i].Pod == w.picks[i] {
			same++
		}
	}
	t.Logf("run freely, %d of %d picks agree (%.1f %%; chance is %.0f %%)", same, len(w.picks), 100*float64(same)/float64(len(w.picks)), 100.0/engines)
	if len(w.picks) < 350 || len(cached) < engines {
		t.Errorf("%d requests over %v; the test shows little", len(w.picks), cached)
	}
}
