package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// BenchmarkCycle is one cycle of the default without body, commit and books: what stands in the pool's lock, and the facts before it.
func BenchmarkCycle(b *testing.B) {
	for _, endpoints := range []int{8, 100} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			file, _ := config.Default(catalog.Builtin())
			built, problems := file.Build()
			if built == nil {
				b.Fatal(problems)
			}
			p := members(endpoints)
			s := openai.NewScanner(openai.ChatCompletions)
			if err := s.Feed(chat(8_000, "")); err != nil {
				b.Fatal(err)
			}
			sum, err := s.Finish()
			if err != nil {
				b.Fatal(err)
			}
			c := built.Plans[0].NewCycle(reason.Discard{})
			c.Want = 3
			var r plugins.Request
			r.Prepare(built, nil)
			r.Now, r.API, r.Body = pool.Instant(time.Second), openai.ChatCompletions, sum
			_ = built.Plans[0].Describe(reason.Discard{}, &r) // refuses only where a describer panics
			b.ReportAllocs()
			for b.Loop() {
				r.Number++
				if no := c.Prepare(&r, p.Snapshot(), p.StaleAfter(), 1, nil); no != nil {
					b.Fatal(no)
				}
				p.Decide(func(_ *pool.Snapshot, books *pool.Books) {
					if _, no := c.Decide(books); no != nil {
						b.Fatal(no)
					}
				})
			}
		})
	}
}
