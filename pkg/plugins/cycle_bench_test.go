package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// standard is a pool of so many endpoints under llm-d's profile (queue 2, KV utilisation 2, prefix 3, max-score), and complete
// one under the default: health, hot prefixes and the cost in milliseconds.
func standard(t testing.TB, endpoints int) *world {
	t.Helper()
	return profiled(t, endpoints, []string{"queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "max-score-picker"}, []float64{2, 2, 3, 0})
}

func complete(t testing.TB, endpoints int) *world {
	t.Helper()
	return profiled(t, endpoints, []string{"health-filter", "hot-prefix-filter", "cost-scorer", "max-score-picker"}, []float64{0, 0, 1, 0})
}

// profiled is a pool of so many endpoints under a profile of these plugins, all scraped, half of them holding a part of the
// prompt of 8,000 characters that every decision is about.
func profiled(t testing.TB, endpoints int, names []string, weights []float64) *world {
	t.Helper()
	built, err := plugins.Build(builtin(names, weights), catalog.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, built, endpoints)
	w.now = 1000
	for i, id := range w.pool.Snapshot().Members {
		w.pool.Observe(w.now, w.pool.Snapshot().Slots[id].Ref, pool.Sample{
			At: w.now, Waiting: int32(i % 7), Running: int32(i % 11), Blocks: 27000, BlockTokens: 16, KVUsage: float64(i%10) / 10, ProcessStart: -1,
		})
	}
	for i := range endpoints {
		w.request.Body = prompt(8000 * (i + 1) / endpoints)
		legs := w.mustDecide(t)
		if i%2 == 0 {
			built.Plans[0].Commit(w.notes, &w.request, legs, &plugins.Outgoing{})
		}
	}
	w.request.Body = prompt(8000)
	w.mustDecide(t)
	return w
}

func prompt(bytes int) *openai.Summary {
	text := strings.Repeat("A prompt. ", bytes/10+1)[:bytes]
	s := openai.NewSummary()
	s.AddChunk([]byte(text))
	s.Prompt = []openai.Segment{{Span: openai.Span{End: int64(bytes)}}}
	s.PromptBytes = int64(bytes)
	return s
}

// once runs the cycle again for the described request: facts, filters, scorers, picker, inside the pool's lock but for the
// prefix match.
func (w *world) once(t testing.TB) {
	if no := w.cycle.Prepare(&w.request, w.pool.Snapshot(), w.pool.StaleAfter(), w.seed, nil); no != nil {
		t.Fatal(no)
	}
	w.pool.Decide(w.inLock)
	w.request.Number++
}

func (w *world) inLock(_ *pool.Snapshot, books *pool.Books) {
	if _, no := w.cycle.Decide(books); no != nil {
		panic(no)
	}
}

func TestACycleAllocatesNothing(t *testing.T) {
	for name, w := range map[string]*world{"weights": standard(t, 100), "cost": complete(t, 100)} {
		if n := testing.AllocsPerRun(200, func() { w.once(t) }); n > 0 {
			t.Errorf("%s: a cycle over 100 endpoints allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{8, 64, 100, 256, 1024} {
		b.Run(fmt.Sprint(n, " endpoints"), func(b *testing.B) {
			w := standard(b, n)
			b.ReportAllocs()
			for b.Loop() {
				w.once(b)
			}
		})
		b.Run(fmt.Sprint(n, " endpoints, cost"), func(b *testing.B) {
			w := complete(b, n)
			b.ReportAllocs()
			for b.Loop() {
				w.once(b)
			}
		})
	}
}

// What a record costs beside the cycle itself: the columns read are copied, so that the decision can be made again.
func BenchmarkRecordedCycle(b *testing.B) {
	w := standard(b, 100)
	w.cycle.Record = true
	b.ReportAllocs()
	for b.Loop() {
		w.once(b)
	}
}
