package bench_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

type dump struct{ n int }

func (*dump) Decided(exchange.Metered, reason.ID, pool.Instant) {}
func (g *dump) Settled(m exchange.Metered, o plugins.Outcome) {
	itl := (o.Total - o.TTFT).Seconds() * 1000 / float64(o.Out-1)
	fmt.Printf("D %d out %d prompt %d ttft %.0f pttft %.0f itl %.2f pitl %.2f\n", g.n, o.Out, o.Prompt, (o.TTFT-o.Held).Seconds()*1000, m.Foreseen.TTFT, itl, m.Foreseen.ITL)
	g.n++
}

func TestZZ(t *testing.T) {
	s := load(t, os.Getenv("SC"))
	p, err := policy.Named(predicted)
	if err != nil {
		t.Fatal(err)
	}
	var all dump
	p = p.Watched(func(d *policy.Production) { d.Meter(&all) })
	_ = time.Now
	if _, err := s.Run(p, 1, 0); err != nil {
		t.Fatal(err)
	}
}
