package scorers_test

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// One endpoint begins at once and has gaps of 50 ms, the other begins after three seconds and has short ones: which is cheaper, the
// price of gaps says.
func TestThePriceOfGapsIsAFactor(t *testing.T) {
	for _, r := range []struct {
		price float64
		out   int
		want  string
	}{
		{0, 4000, "a"}, {0.01, 4000, "a"}, {1, 4000, "b"},
		{1, 10, "a"}, {1000, 10, "b"},
	} {
		world := fmt.Sprintf(`traffic={"perSecond":10,"prefillMs":30,"outputTokens":200} prompt-tokens=100 expected-output=%d | a %s; b %s`,
			r.out, h100(`"running":1,"residentTokens":900000`), h100(`"backlogMs":3000`))
		got := pluginstest.Choose(t, world, []pluginstest.Part{{Name: "it", Plugin: &scorers.Cost{TTFTPrice: 1, ITLPrice: r.price}, Weight: 1}})
		if got[0] != r.want {
			t.Errorf("at a price of %v answers of %d tokens go to %s, want %s", r.price, r.out, got[0], r.want)
		}
	}
}

// A long prompt leaves the last free endpoint to others, even where that costs far less, unless most of the prompt is cached there: then it
// is none that others would wait for.
func TestWhatIsMostlyCachedNeedLeaveNothing(t *testing.T) {
	const gaps = `"residentTokens":960000` // so long that the free endpoint costs a third of what the others do, cached or not
	for _, r := range []struct {
		name   string
		cached int
		want   string
	}{
		{"nothing is cached", 0, "abdef"},
		{"most is cached", 95_000, "c"},
	} {
		t.Run(r.name, func(t *testing.T) {
			busy := h100(`"backlogMs":900`)
			world := fmt.Sprintf(`prompt-tokens=100000 traffic={"perSecond":1,"prefillMs":100,"outputTokens":200} | a %[1]s; b %[1]s; c %[2]s cached-tokens=%[3]d; d %[1]s; e %[1]s; f %[1]s`,
				busy, h100(gaps), r.cached)
			got := pluginstest.Choose(t, world, []pluginstest.Part{{Name: "it", Plugin: scorers.NewCost(), Weight: 1}})
			for _, c := range r.want {
				if got[0] == string(c) {
					return
				}
			}
			t.Errorf("%s, want one of %s; scores %v", got[0], r.want, pluginstest.Score(t, scorers.NewCost(), world))
		})
	}
}
