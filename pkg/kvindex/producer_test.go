package kvindex_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// towards picks the endpoint that the test names, wherever the scores point.
type towards struct{ name string }

func (p *towards) Pick(c *plugins.Cycle, _ []float64, _ int, best []int) []int {
	for i, id := range c.Candidates {
		if c.Snapshot.Slots[id].Name == p.name {
			return append(best, i)
		}
	}
	panic("no candidate is named " + p.name)
}

// reader has the profile read what the producer makes.
type reader struct{}

func (*reader) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.CachedTokens)
	plugins.Needs(b, plugins.CachedBlocks)
	plugins.Needs(b, plugins.PromptBlocks)
	return nil
}

func (*reader) Score(*plugins.Cycle, []float64) {}

type rig struct {
	*pluginstest.Rig
	to *towards
}

func newRig(t testing.TB, change func(*kvindex.Producer), members ...string) rig {
	t.Helper()
	to := &towards{}
	return rig{pluginstest.NewRig(t, parts(change, to), members...), to}
}

func parts(change func(*kvindex.Producer), to *towards) []pluginstest.Part {
	p := kvindex.NewProducer()
	if change != nil {
		change(p)
	}
	return []pluginstest.Part{{Name: "producer", Plugin: p}, {Name: "reader", Plugin: &reader{}, Weight: 1}, {Name: "to", Plugin: to}}
}

func (g rig) send(to string, body *openai.Summary) *pluginstest.Sent {
	g.to.name = to
	return g.Send(body)
}

// body is a prompt of one text for a model.
func body(model, text string) *openai.Summary {
	s := openai.NewSummary()
	s.Model = model
	s.AddChunk([]byte(text))
	s.Prompt = []openai.Segment{{Kind: openai.SegmentText, Span: openai.Span{End: int64(len(text))}}}
	s.PromptBytes, s.Complete = int64(len(text)), true
	return s
}

// text is a prompt of n blocks of 64 tokens, and a little more, that differs by its beginning.
func text(name string, blocks int) string {
	return name + strings.Repeat(".", 256*blocks-len(name)) + "more"
}

func expect(t *testing.T, s *pluginstest.Sent, want string) {
	t.Helper()
	got := fmt.Sprintf("a=%d b=%d", s.Cached["a"], s.Cached["b"])
	if got != want {
		t.Errorf("cached tokens: got %s, want %s", got, want)
	}
}

func TestAPromptIsCachedWhereItWasSent(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	expect(t, g.send("a", body("m", text("x", 4))), "a=0 b=0")
	expect(t, g.send("b", body("m", text("x", 4))), "a=256 b=0")
	expect(t, g.send("a", body("m", text("x", 4))), "a=256 b=256")
	expect(t, g.send("a", body("m", text("y", 4))), "a=0 b=0")
	expect(t, g.send("a", body("other", text("x", 4))), "a=0 b=0")
}

func TestALongerPromptMatchesAsFarAsItGoes(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	long := text("x", 8)
	g.send("a", body("m", long[:256*3]))
	g.send("b", body("m", long[:256*5]))
	expect(t, g.send("a", body("m", long)), "a=192 b=320")
}

// An engine computes the last token anew whatever it has cached.
func TestAWholePromptIsOneTokenShortOfCached(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	exact := strings.Repeat("z", 512)
	g.send("a", body("m", exact))
	expect(t, g.send("a", body("m", exact)), "a=127 b=0")
}

func TestSaltSeparates(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	salted := body("m", text("x", 4))
	salted.Salt = "tenant"
	g.send("a", salted)
	expect(t, g.send("a", body("m", text("x", 4))), "a=0 b=0")
}

// A prompt of token ids has more bytes to a token than text: 1000 tokens in 5 blocks are 200 tokens to a block.
func TestTokensAreCountedByTheirBytes(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	ids := func() *openai.Summary {
		s := body("m", text("[1", 5)[:1280])
		s.PromptTokens = 200
		return s
	}
	first := ids()
	g.send("a", first)
	longer := body("m", text("[1", 5)[:1280]+strings.Repeat("1", 1280))
	longer.PromptTokens = 400
	expect(t, g.send("a", longer), "a=200 b=0")
}

func TestATracesHashesAreTaken(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	traced := func(hashes ...uint64) *openai.Summary {
		s := openai.NewSummary()
		s.BlockHashes, s.BlockTokens, s.PromptTokens = hashes, 512, int64(512*len(hashes))
		return s
	}
	given := []uint64{1, 2, 3, 4}
	g.send("a", traced(given...))
	expect(t, g.send("b", traced(1, 2, 5)), "a=1024 b=0")
	for i, h := range given {
		if h != uint64(i+1) {
			t.Errorf("the trace's own hashes became %v", given)
		}
	}
}

func TestTheCreditGoesToWhoServes(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	sent := g.send("a", body("m", text("x", 4)))
	expect(t, g.send("b", body("m", text("x", 2))), "a=128 b=0")
	sent.Answer("b")
	expect(t, g.send("b", body("m", text("x", 4))), "a=0 b=256")
}

func TestTheCreditGoesToWhoServedWhereThatIsLearnedAtTheEnd(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	sent := g.send("a", body("m", text("x", 4)))
	sent.Request.Served = g.Ref("b")
	sent.End(0)
	expect(t, g.send("b", body("m", text("x", 4))), "a=0 b=256")
}

func TestNothingIsTakenFromOthers(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("a", body("m", text("x", 4)[:512]))
	failed := g.send("a", body("m", text("x", 4)))
	failed.End(reason.UpstreamUnreachable)
	expect(t, g.send("b", body("m", text("x", 4))), "a=128 b=0")
}

func TestARequestThatReachedNobodyLeavesNothing(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("a", body("m", text("x", 4))).End(reason.UpstreamUnreachable)
	expect(t, g.send("a", body("m", text("x", 4))), "a=0 b=0")
}

// Blind: nobody sees who answers, and the end is clean as far as anybody knows.
func TestARequestOfWhichNothingIsSeenKeepsItsCredit(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("a", body("m", text("x", 4))).End(0)
	expect(t, g.send("a", body("m", text("x", 4))), "a=256 b=0")
}

func TestWhatALaterRequestBroughtAgainStays(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	failed := g.send("a", body("m", text("x", 4)))
	served := g.send("a", body("m", text("x", 4)[:512]))
	served.Answer("a")
	failed.End(reason.UpstreamUnreachable)
	expect(t, g.send("b", body("m", text("x", 4))), "a=128 b=0")
}

func TestARestartedEngineHasNothing(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	sample := func(start float64) pool.Sample {
		s := pool.NoSample()
		s.At, s.ProcessStart = g.Now, start
		return s
	}
	g.Pool.Observe(g.Now, g.Ref("a"), sample(100))
	running := g.send("a", body("m", text("x", 4)))
	g.send("b", body("m", text("x", 4)))
	g.Now++
	g.Pool.Observe(g.Now, g.Ref("a"), sample(200))
	expect(t, g.send("b", body("m", text("x", 4))), "a=0 b=256")
	running.End(reason.UpstreamBroken) // of the old engine: changes nothing
	expect(t, g.send("a", body("m", text("x", 4))), "a=0 b=256")
	expect(t, g.send("a", body("m", text("x", 4))), "a=256 b=256")
}

func TestAnEndpointThatComesBackHasNothing(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("a", body("m", text("x", 4)))
	g.Members("b")
	g.Members("a", "b")
	expect(t, g.send("a", body("m", text("x", 4))), "a=0 b=0")
}

func TestTheEnginesCacheBoundsWhatItHolds(t *testing.T) {
	for _, r := range []struct {
		name   string
		change func(*kvindex.Producer)
		want   string
	}{
		// 20 blocks of 16 tokens are 320 tokens, 5 blocks of 64
		{"by its own size", nil, "a=320 b=0"},
		{"by the parameter without autoTune", func(p *kvindex.Producer) { p.AutoTune, p.LRUCapacityPerServer = false, 3 }, "a=192 b=0"},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := newRig(t, r.change, "a", "b")
			s := pool.NoSample()
			s.At, s.Blocks, s.BlockTokens = g.Now, 20, 16
			g.Pool.Observe(g.Now, g.Ref("a"), s)
			g.send("a", body("m", text("x", 8)))
			expect(t, g.send("b", body("m", text("x", 8))), r.want)
		})
	}
	t.Run("by the parameter until the engine was scraped, and by its size from then on", func(t *testing.T) {
		g := newRig(t, func(p *kvindex.Producer) { p.LRUCapacityPerServer = 6 }, "a", "b")
		g.send("a", body("m", text("x", 8)))
		expect(t, g.send("b", body("m", text("x", 8))), "a=384 b=0")
		g.Now += pool.Instant(2 * time.Second)
		s := pool.NoSample()
		s.At, s.Blocks, s.BlockTokens = g.Now, 8, 16 // 2 blocks of 64
		g.Pool.Observe(g.Now, g.Ref("a"), s)
		g.send("a", body("m", text("y", 1)))
		expect(t, g.send("b", body("m", text("x", 8))), "a=64 b=384")
	})
}

func TestParameters(t *testing.T) {
	for _, r := range []struct {
		name   string
		change func(*kvindex.Producer)
		want   string // cached of a prompt of 8*64+1 tokens, sent before
	}{
		{"blocks below 64 tokens count as 64", func(p *kvindex.Producer) { p.BlockSizeTokens = 16 }, "a=512 b=0"},
		{"larger blocks match in larger steps", func(p *kvindex.Producer) { p.BlockSizeTokens = 200 }, "a=400 b=0"},
		{"a bound in tokens", func(p *kvindex.Producer) { p.MaxPrefixTokensToMatch = 200 }, "a=192 b=0"},
		{"a bound in blocks counts without one in tokens", func(p *kvindex.Producer) { p.MaxPrefixTokensToMatch, p.MaxPrefixBlocksToMatch = 0, 2 }, "a=128 b=0"},
		{"the bound in tokens wins", func(p *kvindex.Producer) { p.MaxPrefixTokensToMatch, p.MaxPrefixBlocksToMatch = 256, 2 }, "a=256 b=0"},
		{"both 0 are no bound", func(p *kvindex.Producer) { p.MaxPrefixTokensToMatch, p.MaxPrefixBlocksToMatch = 0, 0 }, "a=512 b=0"},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := newRig(t, r.change, "a", "b")
			g.send("a", body("m", text("x", 8)))
			expect(t, g.send("a", body("m", text("x", 8))), r.want)
		})
	}
	t.Run("a bound below one block is refused", func(t *testing.T) {
		p := kvindex.NewProducer()
		p.MaxPrefixTokensToMatch = 32
		_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "p", Type: "t", Construct: func() (any, error) { return p, nil }}}}, nil)
		if err == nil || !strings.Contains(err.Error(), "maxPrefixTokensToMatch is 32, less than one block of 64 tokens") {
			t.Errorf("got %v", err)
		}
	})
}

func TestARequestWithoutAPromptMatchesNothing(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	s := g.send("a", nil)
	expect(t, s, "a=0 b=0")
	s.Answer("b")
	s.End(0)
	short := g.send("a", body("m", "hello"))
	expect(t, short, "a=0 b=0")
}

func TestTheIndexOutlivesAConfigurationWithTheSameParameters(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	body := body("m", strings.Repeat("a prompt of some length. ", 400))
	before := g.send("a", body)
	running := g.send("b", body)
	if kept, lost := g.Replace(parts(nil, g.to)); len(kept) != 1 || len(lost) != 0 {
		t.Errorf("kept %v, lost %v", kept, lost)
	}
	before.Answer("a")
	before.End(0)
	running.End(reason.UpstreamBroken) // takes back what it had credited, where both know it
	if cached := g.send("b", body).Cached; cached["a"] == 0 || cached["b"] != 0 {
		t.Errorf("cached after the replacement: %v; want the prompt at a alone", cached)
	}
	if kept, lost := g.Replace(parts(func(p *kvindex.Producer) { p.BlockSizeTokens = 128 }, g.to)); len(kept) != 0 || len(lost) != 1 {
		t.Errorf("with other blocks: kept %v, lost %v", kept, lost)
	}
	if cached := g.send("b", body).Cached; cached["a"] != 0 || cached["b"] != 0 {
		t.Errorf("with other blocks %v is known as cached", cached)
	}
}

// An endpoint whose engine does not say how much it holds is believed to hold lruCapacityPerServer blocks, and no more.
func TestC04CapacityIsKept(t *testing.T) {
	g := newRig(t, func(p *kvindex.Producer) { p.LRUCapacityPerServer = 10 }, "a", "b")
	for i := range 250 {
		g.send("a", body("m", text(fmt.Sprint("x", i, "-"), 4))) // 1000 different blocks
	}
	held := 0
	for i := range 250 {
		s := g.send("b", body("m", text(fmt.Sprint("x", i, "-"), 4)))
		held += int(s.Cached["a"]) / 64
	}
	if held > 10 || held < 8 { // two whole prompts, and of a third what is left
		t.Errorf("%d blocks are believed cached, of a capacity of 10", held)
	}
}

// counted returns how many blocks are believed to be held.
func (g rig) counted() int {
	for p := range g.Built.Plugins {
		if p, ok := p.Plugin.(*kvindex.Producer); ok {
			return p.Blocks()
		}
	}
	return -1
}

// Siblings that come in the same instant, all prepared before the first of them is booked, see each other.
func TestSiblingsOfOneInstantMeet(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	var burst []*pluginstest.Sent
	for range 16 {
		burst = append(burst, g.Prepare(body("m", text("x", 128)+strings.Repeat("own", 10))))
	}
	g.to.name = "b"
	for i, s := range burst {
		want := "a=0 b=8192"
		if i == 0 {
			want = "a=0 b=0"
		}
		expect(t, s.Decide(), want)
	}
	if n := g.counted(); n != 128 {
		t.Errorf("%d blocks are held, want 128", n)
	}
}

// After a storm of siblings that are all broken off before anything can have been computed, nothing is left, whether the answers
// had begun or not.
func TestAStormOfAbortsLeavesNothing(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprint("begun=", begun), func(t *testing.T) {
			g := newRig(t, nil, "a", "b", "c")
			running := g.send("c", body("m", text("y", 10)))
			running.Answer("c")
			g.Load.UncachedPrefill = 1000
			var storm []*pluginstest.Sent
			for i := range 200 {
				storm = append(storm, g.send(string("ab"[i%2]), body("m", text("x", 20+i%5)+strings.Repeat("o", 256*(i%3)))))
			}
			for i, s := range storm {
				if begun {
					s.Answer(string("ab"[i%2]))
				}
			}
			for i := range storm { // in another order than they came
				storm[i*37%200].End(reason.ClientAborted)
			}
			if n := g.counted(); n != 10 {
				t.Errorf("%d blocks are held, want the 10 of the one that was served", n)
			}
		})
	}
}

// A request that nobody answers in time is no longer believed to have brought its prompt; an answer that comes after all brings
// it again.
func TestWhatIsNotConfirmedLapses(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("b", body("m", text("y", 2))).Answer("b") // answers are seen here
	late := g.send("a", body("m", text("x", 4)))
	g.Now += pool.Instant(4 * time.Second)
	expect(t, g.send("b", body("m", text("x", 1)[:256])), "a=63 b=0")
	g.Now += pool.Instant(2 * time.Second)
	expect(t, g.send("b", body("m", text("x", 4))), "a=0 b=64")
	if n := g.Notes[reason.PrefixUnconfirmed]; n != 1 {
		t.Errorf("noted %d times, want once: %v", n, g.Notes)
	}
	late.Answer("a")
	late.End(0)
	expect(t, g.send("b", body("m", text("x", 4))), "a=256 b=256")
}

// Blind: answers are never seen, and a credit stands until newer ones displace it.
func TestNothingLapsesWhereAnswersAreNotSeen(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	g.send("a", body("m", text("x", 4)))
	g.Now += pool.Instant(time.Hour)
	expect(t, g.send("b", body("m", text("x", 4))), "a=256 b=0")
}

// A booking that is given back leaves nothing behind, and others are told of a prompt only when its booking stands.
func TestAClaimIsTakenBack(t *testing.T) {
	g := newRig(t, nil, "a", "b")
	plan, index := g.Built.Plans[0], func() (tokens int64) {
		s := g.send("b", body("m", text("x", 4)))
		tokens = s.Cached["a"]
		s.End(reason.ClientAborted)
		return tokens
	}
	told := 0
	g.Pool.Follow(func(e pool.Event) {
		if e.Kind == pool.Brought {
			told++
		}
	})
	g.to.name = "a"
	s := g.Prepare(body("m", text("x", 4)))
	r := &s.Request
	r.Snapshot = g.Pool.Snapshot()
	legs := []plugins.Leg{{Profile: "default", Result: plugins.Result{Endpoints: []pool.ID{g.Ref("a").ID}}}}
	g.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) { plan.Claim(g.Notes, r, legs, books) })
	if told != 0 {
		t.Error("others were told of what does not stand yet")
	}
	if n := index(); n == 0 {
		t.Error("what was claimed is not believed to be cached")
	}
	before := told
	g.Pool.Decide(func(*pool.Snapshot, *pool.Books) { plan.Unclaim(g.Notes, r) })
	if n := index(); n != 0 {
		t.Errorf("%d tokens are believed to be cached where the request did not go", n)
	}
	told = before
	g.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		plan.Claim(g.Notes, r, legs, books)
		plan.Booked(g.Notes, r, legs, books)
	})
	if told != before+1 {
		t.Errorf("others were told %d times of a booking that stands", told-before)
	}
	g.Built.Settle(g.Notes, r, plugins.Outcome{Ending: reason.ClientAborted})
	if n := index(); n != 0 {
		t.Errorf("%d tokens are believed to be cached of a request that was broken off", n)
	}
}
