package admission_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/admission"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/reason"
)

// asked has an admitter stand where a filter does, and keeps what it said.
type asked struct {
	*admission.LatencySLO
	said *reason.Refusal
}

// Filter removes everybody from a request that is refused.
func (a *asked) Filter(c *plugins.Cycle, keep plugins.Bits) {
	if a.said = a.Admit(c); a.said != nil {
		for i := range c.Candidates {
			keep.Clear(i)
		}
	}
}

func TestLatencySLO(t *testing.T) {
	const busy = " in-flight=3 running=3 kv-usage=0.5"
	for _, r := range []struct {
		name, world string
		priority    int32
		refuses     string // a part of what it says; empty: it admits
	}{
		{"nobody keeps the target", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=300" + busy, -1, "it wants 200 ms to its first token, and the best of 2 endpoints is predicted to take 300 ms"},
		{"somebody keeps it", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=200" + busy, -1, ""},
		{"a priority of 0 is not refused", "ttft-target=200 | a predicted-ttft=500" + busy, 0, ""},
		{"no target", "a predicted-ttft=500" + busy, -1, ""},
		{"the time between tokens counts", "itl-target=20 | a predicted-ttft=10 predicted-itl=30" + busy, -5, "20 ms between tokens"},
		{"nobody keeps both", "ttft-target=200 itl-target=20 | a predicted-ttft=100 predicted-itl=30" + busy + "; b predicted-ttft=300 predicted-itl=10" + busy, -1, "200 ms to its first token and 20 ms between tokens"},
		{"the time between tokens is not predicted", "ttft-target=200 itl-target=1 | a predicted-ttft=100" + busy, -1, ""},
		{"one is not predicted", "ttft-target=200 | a predicted-ttft=500" + busy + "; b" + busy, -1, ""},
		{"one is idle", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=500 in-flight=0 running=0 kv-usage=0.5", -1, ""},
		{"one that was never scraped is not known to be idle", "ttft-target=200 | a predicted-ttft=500 in-flight=0", -1, "200 ms"},
		{"one has others' requests", "ttft-target=200 | a predicted-ttft=500 in-flight=0 running=1 kv-usage=0.5", -1, "200 ms"},
		{"one is cold", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=500 in-flight=3 running=3 kv-usage=0.019", -1, ""},
		{"one at 2 % is not", "ttft-target=200 | a predicted-ttft=500 in-flight=3 running=3 kv-usage=0.02", -1, "200 ms"},
	} {
		t.Run(r.name, func(t *testing.T) {
			a := &asked{LatencySLO: admission.NewLatencySLO()}
			left := pluginstest.Filter(t, a, r.world, pluginstest.Request(func(q *plugins.Request) { q.Target.Priority = r.priority }))
			switch {
			case r.refuses == "":
				if a.said != nil || len(left) == 0 {
					t.Errorf("refused: %v", a.said)
				}
			case a.said == nil || a.said.ID != reason.TargetOutOfReach || !strings.Contains(a.said.Detail, r.refuses):
				t.Errorf("got %v, want a refusal that says %q", a.said, r.refuses)
			}
		})
	}
}
