package exchange_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

const head = "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\n"

// configured builds a scheduler of a configuration with one pool of endpoints a, b, c … at 192.0.2.1…:8000, each scraped as
// idle. An empty text is the default configuration.
func configured(t *testing.T, text string, endpoints int, extra ...plugins.Entry) *world {
	t.Helper()
	if text == "" {
		text = config.DefaultText
	}
	file, problems := config.Load([]byte(text), t.Name(), append(catalog.Builtin(), extra...))
	if file == nil {
		t.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		t.Fatal(problems)
	}
	w := &world{t: t, now: pool.Instant(time.Second), noted: &notes{n: map[reason.ID]int{}}, alarm: &alarm{}, woken: make(chan struct{}, 8)}
	for _, plan := range built.Plans {
		w.pools = append(w.pools, pool.New(plan.Pool.Name, w.noted))
	}
	p := w.pools[0]
	w.members(endpoints)
	for _, id := range p.Snapshot().Members {
		p.Observe(w.now, p.Snapshot().Slots[id].Ref, pool.Sample{At: w.now, Waiting: 0, Running: 0, Blocks: 27000, BlockTokens: 16, KVUsage: 0.1, ProcessStart: -1})
	}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Alarm, o.Seed = built, w.pools, w.noted, w.alarm, 7
	var err error
	if w.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// members makes so many endpoints the membership.
func (w *world) members(n int) {
	var ends []pool.Endpoint
	for i := range n {
		ends = append(ends, pool.Endpoint{Namespace: "ns", Name: string(rune('a' + i)), Addr: address(0, i)})
	}
	w.pools[0].Update(w.now, ends)
}

// send forwards a chat completion of this prompt; nobody but those of subset may take it, if there are any.
func (w *world) send(prompt string, subset []string, fields ...openai.Header) (*exchange.Exchange, netip.AddrPort) {
	w.t.Helper()
	x := w.begin()
	via := static
	via.Subset, via.HasSubset = subset, subset != nil
	a := x.Headers(w.now, post("/v1/chat/completions", fields...), via, false)
	if a.Do == exchange.Continue {
		a = x.Body(w.now, []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"`+prompt+`"}]}`), true)
	}
	if a.Do != exchange.Forward {
		w.t.Fatalf("not forwarded: %v %+v", a.Do, a.Reply)
	}
	return x, a.To[0]
}

// requests returns how many requests are in flight on each endpoint.
func (w *world) requests() (n []int32) {
	w.pools[0].Decide(func(_ *pool.Snapshot, books *pool.Books) { n = slices.Clone(books.Requests) })
	return n
}

func (w *world) respond(x *exchange.Exchange, status string) exchange.Action {
	return x.Response(w.now, openai.Headers{{Name: ":status", Value: status}}, netip.AddrPort{}, false)
}

// A burst that is decided on one snapshot spreads, although all hold its prompt.
func TestL01ABurstOnOneSnapshot(t *testing.T) {
	w := configured(t, "", 8)
	prompt := strings.Repeat("the same for all ", 400)
	for i := range 8 {
		x, _ := w.send(prompt, []string{address(0, i).String()})
		w.respond(x, "200")
		x.Chunk(w.now, nil, true)
	}
	for range 800 {
		w.now += pool.Instant(25 * time.Microsecond)
		w.send(prompt, nil)
	}
	for i, n := range w.requests() {
		if n > 120 { // mean 100
			t.Errorf("endpoint %d has %d of 800 requests in flight; at most 1.2 times the mean: %v", i, n, w.requests())
		}
	}
}

// One request at a time finds all endpoints equally good, and does not always take the first.
func TestL02EqualScoresOneAtATime(t *testing.T) {
	w := configured(t, "", 4)
	counts := map[netip.AddrPort]int{}
	for i := range 400 {
		w.now += pool.Instant(time.Millisecond)
		x, to := w.send(fmt.Sprintf("%d is another prompt %s", i, strings.Repeat(".", 400)), nil)
		counts[to]++
		w.respond(x, "200")
		x.Chunk(w.now, nil, true)
	}
	for i := range 4 {
		if n := counts[address(0, i)]; n < 60 || n > 140 {
			t.Errorf("endpoint %d got %d of 400; want 15 to 35 percent: %v", i, n, counts)
		}
	}
}

// A long prompt counts from its decision on, not from the beginning of its answer.
func TestL04LoadCountsFromTheDecision(t *testing.T) {
	for name, text := range map[string]string{
		"by default":  "",
		"by tokens":   head + "plugins: [{type: token-load-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: token-load-scorer}]}]\n",
		"by requests": head + "plugins: [{type: active-request-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := configured(t, text, 4)
			for i := range 40 {
				w.send(fmt.Sprintf("%d %s", i, strings.Repeat("32k of it ", 12800)), nil)
			}
			for i, n := range w.requests() {
				if n < 8 || n > 12 {
					t.Errorf("endpoint %d has %d of 40; want 10, give or take a quarter: %v", i, n, w.requests())
				}
			}
		})
	}
}

// An endpoint that leaves and comes back under its name begins at zero, and the end of what it had before changes nothing.
func TestL05AnEndpointFlapsWhileRequestsRun(t *testing.T) {
	w := configured(t, "", 1)
	at := func(what string, want ...int32) {
		t.Helper()
		if got := w.requests(); !slices.Equal(got, want) {
			t.Errorf("%s: in flight %v, want %v", what, got, want)
		}
	}
	r1, _ := w.send("one", nil)
	at("the first is on its way", 1)
	w.members(0)
	at("the endpoint is gone", 0)
	w.members(1)
	at("it is back", 0)
	r2, _ := w.send("two", nil)
	at("the second is on its way", 1)
	w.respond(r1, "200")
	r1.Chunk(w.now, nil, true)
	r1.End(w.now, exchange.Ending{ByClient: true})
	at("the first has ended", 1)
	w.respond(r2, "200")
	r2.Chunk(w.now, nil, true)
	at("the second has ended", 0)
	if n := w.pools[0].Open(); n != 0 {
		t.Errorf("%d bookings are open", n)
	}
}

// tally counts settlements.
type tally struct {
	mu sync.Mutex
	of map[string]int // by the decision
}

func (s *tally) Settle(r *plugins.Request, _ plugins.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[r.ID]++
}

// Every signal of an end may come, in any order and twice: one counts.
func TestL07EndsInAnyOrder(t *testing.T) {
	settled := &tally{of: map[string]int{}}
	w := configured(t, strings.Replace(config.DefaultText, "plugins:\n", "plugins:\n- type: tally\n", 1), 3, plugins.Plugin("tally", func() *tally { return settled }))
	random := rand.New(rand.NewPCG(7, 7))
	for range 10_000 {
		x, _ := w.send("hello", nil)
		other, _ := w.send("hello", nil) // whose booking must stay
		signals := []func(){
			func() { w.respond(x, "500") },
			func() { x.Chunk(w.now, []byte("{}"), true) },
			func() { x.End(w.now, exchange.Ending{}) },
			func() { x.End(w.now, exchange.Ending{ByClient: true}) },
			func() { x.End(w.now, exchange.Ending{From: exchange.FromLog, Clean: true}) },
			func() { x.Failed(w.now, address(0, 0), reason.UpstreamBroken) },
		}
		random.Shuffle(len(signals), func(i, j int) { signals[i], signals[j] = signals[j], signals[i] })
		for range 2 {
			for _, signal := range signals {
				signal()
			}
		}
		if n := w.pools[0].Open(); n != 1 {
			t.Fatalf("%d bookings are open, want that of the other request", n)
		}
		other.Chunk(w.now, nil, true)
		if sum := w.requests(); sum[0]|sum[1]|sum[2] != 0 {
			t.Fatalf("in flight after all ended: %v", sum)
		}
	}
	for id, n := range settled.of {
		if n != 1 {
			t.Fatalf("%s was settled %d times", id, n)
		}
	}
	if len(settled.of) != 20_000 {
		t.Errorf("%d requests were settled of 20000", len(settled.of))
	}
}

// witness scores nothing, and looks whether what it knows of a request is that request's own.
type witness struct {
	header plugins.RequestValue[string]
	model  plugins.RequestValue[string]
	prompt plugins.RequestValue[int64]
	wrong  func(string)
}

func (p *witness) Provision(b *plugins.Builder) error {
	p.header, p.model = plugins.Needs(b, plugins.HeaderValue("x-number")), plugins.Needs(b, plugins.RequestedModel)
	p.prompt = plugins.Needs(b, plugins.PromptTokens)
	return nil
}

func (p *witness) Score(c *plugins.Cycle, _ []float64) {
	own := c.Request.Headers.Get("x-number")
	if got := p.header.Of(c.Request); got != own {
		p.wrong(fmt.Sprintf("request %q has the header of %q", own, got))
	}
	if got := p.model.Of(c.Request); got != "m"+own {
		p.wrong(fmt.Sprintf("request %q has the model %q", own, got))
	}
	if got := p.prompt.Of(c.Request); got != (int64(len(own))+3)/4 {
		p.wrong(fmt.Sprintf("request %q has a prompt of %d tokens", own, got))
	}
}

// The memory of a request is used again by others that run beside it: nothing of it shines through. (Under -race, too.)
func TestL08MemoryIsUsedAgain(t *testing.T) {
	look := &witness{wrong: func(what string) { t.Error(what) }}
	w := configured(t, head+"plugins: [{type: witness}, {type: queue-scorer}]\n", 3, plugins.Plugin("witness", func() *witness { return look }))
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 250 {
				number := "" // every third has no header and no prompt
				if i%3 != 0 {
					number = fmt.Sprint(worker*1000 + i)
				}
				x := w.s.Begin(w.now, nil)
				h := post("/v1/completions")
				if number != "" {
					h = append(h, openai.Header{Name: "x-number", Value: number})
				}
				x.Headers(w.now, h, static, false)
				a := x.Body(w.now, []byte(`{"model":"m`+number+`","prompt":"`+number+`"}`), true)
				if a.Do != exchange.Forward {
					t.Errorf("not forwarded: %v", a.Reply)
					return
				}
				w.respond(x, "200")
				x.Chunk(w.now, nil, true)
			}
		})
	}
	all.Wait()
	if got := w.requests(); got[0]|got[1]|got[2] != 0 || w.pools[0].Open() != 0 {
		t.Errorf("in flight after all ended: %v", got)
	}
}

// A request that an engine refuses warms nobody.
func TestL10AShedRequestWarmsNobody(t *testing.T) {
	text := head + "plugins: [{type: prefix-cache-scorer}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer}]}]\n"
	for _, r := range []struct {
		name   string
		shed   func(w *world, x *exchange.Exchange)
		leaves bool
	}{
		{"429", func(w *world, x *exchange.Exchange) { w.respond(x, "429"); x.Chunk(w.now, nil, true) }, false},
		{"503", func(w *world, x *exchange.Exchange) { w.respond(x, "503"); x.Chunk(w.now, nil, true) }, false},
		{"nobody answers", func(w *world, x *exchange.Exchange) { x.Failed(w.now, address(0, 0), reason.UpstreamUnreachable) }, false},
		{"an answer", func(w *world, x *exchange.Exchange) { w.respond(x, "200"); x.Chunk(w.now, nil, true) }, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := configured(t, text, 2)
			prompt := strings.Repeat("a prompt ", 400)
			x, _ := w.send(prompt, []string{address(0, 0).String()})
			r.shed(w, x)
			warm := 0
			for range 40 { // by chance where nobody holds it
				y, to := w.send(prompt, nil)
				if to == address(0, 0) {
					warm++
				}
				w.respond(y, "503")
				y.Chunk(w.now, nil, true)
			}
			if (warm == 40) != r.leaves {
				t.Errorf("%d of 40 went to the first endpoint", warm)
			}
		})
	}
}

// An engine that says once that it is full is asked again at once: no mark stays.
func TestL11OneRefusalMarksNobody(t *testing.T) {
	w := configured(t, "", 2)
	x, full := w.send("one", nil)
	w.respond(x, "503")
	x.Chunk(w.now, nil, true)
	w.now += pool.Instant(time.Second)
	again := 0
	for i := range 40 {
		y, to := w.send(fmt.Sprint(i, " is another"), nil)
		if to == full {
			again++
		}
		w.respond(y, "200")
		y.Chunk(w.now, nil, true)
	}
	if again < 10 {
		t.Errorf("it got %d of the next 40 requests", again)
	}
}

// Where filters leave nobody the status says whether to wait.
func TestL13FiltersRemoveAll(t *testing.T) {
	const profile = "schedulingProfiles: [{name: default, plugins: [{pluginRef: it}, {pluginRef: random-picker}]}]\n"
	of := func(filter string) string {
		return head + "plugins: [{name: it, " + filter + "}, {type: random-picker}]\n" + profile
	}
	for _, r := range []struct {
		name, text, code, dropped string
		status                    int
	}{
		{"for want of room", of("type: utilization-filter, parameters: {conditions: [{metric: active-requests, maxValue: 0}]}"), "all_filtered", "rejected-saturated", 429},
		{"by label", of("type: label-selector-filter, parameters: {matchLabels: {gpu: none}}"), "no_endpoint", "rejected-no-endpoints", 503},
		{"by role", of("type: prefill-filter"), "no_endpoint", "rejected-no-endpoints", 503},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := configured(t, r.text, 2)
			if r.status == 429 {
				w.send("one", nil)
				w.send("two", nil)
			}
			x := w.begin()
			a := x.Headers(w.now, post("/v1/chat/completions"), static, false)
			if a.Do == exchange.Continue {
				a = x.Body(w.now, []byte(chat), true)
			}
			if a.Do != exchange.Reply || a.Reply.Status != r.status || !strings.Contains(string(a.Reply.Body), r.code) ||
				a.Reply.Headers.Get("x-llm-d-request-dropped-reason") != r.dropped || !strings.Contains(string(a.Reply.Body), "2 by it") {
				t.Errorf("got %v %+v %s", a.Do, a.Reply, a.Reply.Body)
			}
		})
	}
}

// A token of an endpoint that is gone, of nobody, of another pool or of any address leads nowhere but into the pool, and the
// answer brings a new one.
func TestL19SessionTokensLeadIntoThePoolAlone(t *testing.T) {
	for _, kind := range []string{"session-affinity-scorer", "session-affinity-filter"} {
		w := configured(t, head+"plugins: [{type: "+kind+"}, {type: random-picker}]\npools: [{name: default, models: [{name: m}]}, {name: other, models: [{name: n}]}]\n", 3)
		elsewhere := netip.MustParseAddrPort("10.9.9.9:8000")
		w.pools[1].Update(w.now, []pool.Endpoint{{Namespace: "ns", Name: "elsewhere", Addr: elsewhere, Metrics: elsewhere}})
		for _, token := range []string{
			base64.StdEncoding.EncodeToString([]byte("ns/pod-gone")), "!!garbage", base64.StdEncoding.EncodeToString([]byte("other/a")),
			base64.StdEncoding.EncodeToString([]byte("ns/elsewhere")),
			"169.254.169.254:80", base64.StdEncoding.EncodeToString([]byte("169.254.169.254:80")), base64.StdEncoding.EncodeToString([]byte("ns/b")),
		} {
			x, to := w.send("hello", nil, openai.Header{Name: "x-session-token", Value: token})
			id, member := w.pools[0].Snapshot().Lookup(to)
			if !member {
				t.Fatalf("%s, token %q: sent to %v, which is not of the pool", kind, token, to)
			}
			want := base64.StdEncoding.EncodeToString([]byte("ns/" + w.pools[0].Snapshot().Slots[id].Name))
			set := w.respond(x, "200").Out.Set
			if got := set.Get("x-session-token"); got != want {
				t.Errorf("%s, token %q: the answer has %q, want %q of who served", kind, token, got, want)
			}
			x.Chunk(w.now, nil, true)
		}
		if kind == "session-affinity-filter" {
			for range 20 {
				if _, to := w.send("hello", nil, openai.Header{Name: "x-session-token", Value: base64.StdEncoding.EncodeToString([]byte("ns/b"))}); to != address(0, 1) {
					t.Errorf("a good token led to %v", to)
				}
			}
		}
	}
}

// The backlog of an endpoint is what the clock says where no first byte will tell: the prompts of answers that nobody shows are computed
// after their time, and not at their end.
func TestBacklogOfAnswersThatNobodyShows(t *testing.T) {
	for _, r := range []struct {
		name string
		sees plugins.Parts
		left bool
	}{
		{"the first byte is shown: until then something is to be done", plugins.FirstByte, true},
		{"nothing is shown", 0, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := configured(t, "", 1)
			x := w.begin()
			x.Headers(w.now, post("/v1/chat/completions"), exchange.Via{Adapter: "ext_proc", Sees: r.sees, StreamLasts: true}, false)
			if a := x.Body(w.now, []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 2000)+`"}]}`), true); a.Do != exchange.Forward {
				t.Fatalf("not forwarded: %+v", a)
			}
			w.pass(time.Minute)
			w.pools[0].Decide(func(_ *pool.Snapshot, b *pool.Books) {
				if left := b.StillToDo(0); (left > 0) != r.left {
					t.Errorf("%d tokens are still to be done after a minute", left)
				}
			})
		})
	}
}
