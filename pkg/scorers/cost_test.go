package scorers_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// h100 is an engine whose prompts cost 0.03 ms a token and whose steps 7 ms and 0.05 ms for each thousand tokens, with further
// members of its load.
func h100(more string) string {
	if more != "" {
		more = "," + more
	}
	return `engine-load={"prefillMsPerToken":0.03,"stepMs":7,"stepMsPerKToken":0.05,"promisedTokens":-1,"capacityTokens":-1` + more + `}`
}

func TestCostChooses(t *testing.T) {
	const steady = `traffic={"perSecond":10,"prefillMs":30,"outputTokens":200} `
	tests := []struct {
		name    string
		price   scorers.Cost
		request string
		a, b    string
		want    string
	}{
		{"idle before busy", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"running":8,"residentTokens":8000`), h100(""), "b"},
		{"what is cached before what is idle", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=10000",
			h100(`"running":1,"residentTokens":1000`) + " cached-tokens=9500", h100(""), "a"},
		{"what is cached is left where others wait for it", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=10000",
			h100(`"running":1,"residentTokens":1000,"backlogMs":600`) + " cached-tokens=9500", h100(""), "b"},
		{"where gaps are long a prompt goes where few wait for its end", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=4000",
			h100(`"running":20,"residentTokens":700000`), h100(`"running":2,"residentTokens":700000,"backlogMs":100`), "b"},
		{"where gaps are short it goes where it is computed sooner", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"running":20,"residentTokens":1000`), h100(`"running":2,"residentTokens":1000,"backlogMs":100`), "a"},
		{"without a price of gaps the first token alone counts", scorers.Cost{TTFTPrice: 1}, "prompt-tokens=4000",
			h100(`"running":20,"residentTokens":1000`), h100(`"running":2,"residentTokens":1000,"backlogMs":100`), "a"},
		{"without a price of first tokens the backlog does not count where nobody runs", scorers.Cost{ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"running":2,"residentTokens":2000`), h100(`"backlogMs":5000`), "b"},
		{"for those who run there it adds to this prompt", scorers.Cost{ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"running":2,"residentTokens":2000`), h100(`"running":1,"residentTokens":1000,"backlogMs":5000`), "a"},
		{"a slower engine must be emptier", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=1000",
			`engine-load={"prefillMsPerToken":0.07,"stepMs":15,"promisedTokens":-1,"capacityTokens":-1}`, h100(`"running":6,"residentTokens":6000`), "b"},
		{"a full cache is waited for", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"promisedTokens":120000,"capacityTokens":100000`), h100(`"promisedTokens":10000,"capacityTokens":100000,"running":3`), "b"},
		{"long answers go where steps are short", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100 expected-output=4000",
			h100(`"running":1,"residentTokens":900000`), h100(`"backlogMs":3000`), "b"},
		{"short answers need not", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100 expected-output=10",
			h100(`"running":1,"residentTokens":900000`), h100(`"backlogMs":3000`), "a"},
		{"a tie goes to the smaller product of work and requests", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=1000",
			h100(`"running":1,"backlogMs":8`), h100(`"running":0,"backlogMs":9`), "b"},
		{"an adapter goes where it is at work", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100",
			h100(`"running":4`) + ` adapter-here=true adapter-places=0`, h100("") + ` adapter-here=false adapter-places=1`, "a"},
		{"unless that is far from free", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100",
			h100(`"running":4,"backlogMs":3000`) + ` adapter-here=true adapter-places=0`, h100("") + ` adapter-here=false adapter-places=1`, "b"},
		{"a free place is better than none", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100",
			h100("") + ` adapter-here=false adapter-places=0`, h100(`"running":4`) + ` adapter-here=false adapter-places=1`, "b"},
		{"a free place is cheap", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100",
			h100(`"running":4,"backlogMs":150`) + ` adapter-here=true adapter-places=0`, h100("") + ` adapter-here=false adapter-places=1`, "b"},
		{"who asks for no adapter needs no place", scorers.Cost{TTFTPrice: 1, ITLPrice: 1}, "prompt-tokens=100",
			h100("") + ` adapter-here=false adapter-places=-1`, h100(`"running":4`) + ` adapter-here=false adapter-places=-1`, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			world := steady + tt.request + " | a " + tt.a + "; b " + tt.b
			got := pluginstest.Choose(t, world, []pluginstest.Part{{Name: "it", Plugin: &tt.price, Weight: 1}})
			if got[0] != tt.want {
				t.Errorf("%s, want %s; scores %v", got[0], tt.want, pluginstest.Score(t, &tt.price, world))
			}
		})
	}
}

// Cost is worked out by hand: 30 ms of prefill behind 20 ms, two that run, 100 tokens; with steps whose gaps are short, and with steps
// whose gaps are past what clients bear, where prompts cost more than longer steps.
func TestCostIsTheSumOfItsParts(t *testing.T) {
	tests := []struct {
		name string
		step float64
		want string
	}{
		{"short gaps", 7, "TTFT 61 ms, ITL 14.3 ms; costs wait 97 + gaps 160 + others 195 + place 0; at prices 452 (backlog 20 ms, 0.0300 ms a token, step 7.1 ms, not measured)"},
		{"late already", 40, "TTFT 110 ms, ITL 80.3 ms; costs wait 231 + gaps 37073 + others 1344 + place 0; at prices 38648 (backlog 20 ms, 0.0300 ms a token, step 40.1 ms, not measured)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			world := fmt.Sprintf(`prompt-tokens=1000 expected-output=100 traffic={"perSecond":20,"prefillMs":30,"reuse":0.5,"outputTokens":200} | a `+
				`engine-load={"backlogMs":20,"prefillMsPerToken":0.03,"stepMs":%v,"stepMsPerSequence":0.05,"running":2,"busy":0.5,"promisedTokens":-1,"capacityTokens":-1}`, tt.step)
			first, itl, before := 20+30+1.5*(tt.step+0.1), (tt.step+0.15)/0.5, (tt.step+0.1)/0.5
			upTo50 := func(ms float64) float64 { return 0.1*ms + 9*50/5*math.Pow(min(ms, 50)/50, 5) }
			gap := func(ms float64) float64 { return upTo50(ms) + 9*max(ms-50, 0) }
			broken := func(ms float64) float64 { return upTo50(ms) + 13.5*max(ms-50, 0) }
			own, gaps := first+first*first/100, 100*gap(itl)
			running := 2*50*(gap(itl)-gap(before)) + 2*5*(broken(itl+(10+30)/5)-broken(itl+10/5)) // a twentieth of 100 tokens are 5, half of 20 ms 10
			coming, displaced := 0.02*first*(1+2*first/100)*30/0.5, 0.3*0.5*30*3.0
			want := 1000 / (1000 + own + gaps + running + coming + displaced)
			said := pluginstest.Run(t, world, []pluginstest.Part{{Name: "it", Plugin: scorers.NewCost(), Weight: 1}}).Explained["it"][0]
			if said != tt.want {
				t.Errorf("explained as %q, want %q", said, tt.want)
			}
			if got := pluginstest.Score(t, scorers.NewCost(), world)[0]; got < want-1e-9 || got > want+1e-9 {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// Six endpoints, a prompt of three seconds among those of 100 ms: as long as enough of them are free it takes one, and of the last ones
// only where waiting would cost far more.
func TestLongPromptsLeaveEndpointsToOthers(t *testing.T) {
	const world = `traffic={"perSecond":1,"prefillMs":100,"outputTokens":200} `
	after := func(ms int) string { return h100(fmt.Sprintf(`"backlogMs":%d`, ms)) }
	tests := []struct {
		name   string
		prompt int
		before []int // the backlog of each in ms
		want   string
	}{
		{"three are free", 100_000, []int{900, 0, 900, 0, 900, 0}, "bdf"},
		{"the last that is free is left", 100_000, []int{900, 900, 0, 900, 900, 950}, "abde"},
		{"unless all others have far more before them", 100_000, []int{60_000, 60_000, 0, 60_000, 60_000, 60_000}, "c"},
		{"to short prompts it is open", 1000, []int{900, 900, 0, 900, 900, 950}, "c"},
		{"if none is free there is nothing to leave", 100_000, []int{900, 900, 900, 900, 900, 800}, "f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []string
			for i, ms := range tt.before {
				all = append(all, string(rune('a'+i))+" "+after(ms))
			}
			got := pluginstest.Choose(t, fmt.Sprintf("prompt-tokens=%d ", tt.prompt)+world+"| "+strings.Join(all, "; "), []pluginstest.Part{{Name: "it", Plugin: scorers.NewCost(), Weight: 1}})
			if !strings.Contains(tt.want, got[0]) {
				t.Errorf("%s, want one of %s", got[0], tt.want)
			}
		})
	}
}

// Equal candidates score equally, so that the picker draws; the order of the others follows from their costs.
func TestCostTies(t *testing.T) {
	world := `prompt-tokens=1000 traffic={"outputTokens":100} | a ` + h100("") + "; b " + h100("") + "; c " + h100(`"running":1,"backlogMs":4`) + "; d " + h100(`"backlogMs":2000`)
	got := pluginstest.Score(t, scorers.NewCost(), world)
	if got[0] != got[1] || got[2] >= got[0] || got[3] >= got[2] {
		t.Errorf("scores %v", got)
	}
}

func TestCostRefusesTwoPricesOfNothing(t *testing.T) {
	_, err := plugins.Build(plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "cost", Type: "cost-scorer", Construct: func() (any, error) { return &scorers.Cost{}, nil }},
			{Name: "single", Type: "single-profile-handler", Construct: construct(t, "single-profile-handler")},
			{Name: "max", Type: "max-score-picker", Construct: construct(t, "max-score-picker")},
		},
		Profiles: []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{{Ref: "cost"}, {Ref: "max"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "single"}},
	}, catalog.Builtin())
	if err == nil || !strings.Contains(err.Error(), "give one of them a price") {
		t.Errorf("%v; want a refusal that says what to do", err)
	}
}

func construct(t *testing.T, typ string) func() (any, error) {
	t.Helper()
	all := catalog.Builtin()
	i := slices.IndexFunc(all, func(e plugins.Entry) bool { return e.Type == typ })
	return func() (any, error) { return all[i].New(), nil }
}
