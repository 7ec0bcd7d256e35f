package flow_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Room that is kept for higher priorities is kept before the first request of one has come: each priority that the configuration names
// has its rank from the start, and so has 0, which is that of all requests that name no objective.
func TestARankThatNobodyHasAskedForYet(t *testing.T) {
	const ten = "- {type: concurrency-detector, parameters: {maxConcurrency: 10}}\n"
	const half = "- {type: priority-holdback-policy, parameters: {minCeiling: 0.5}}\n"
	own := func(parameters, rest string) string {
		return "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n" + ten + half +
			"- {type: flow-control, parameters: {saturationDetectorRef: concurrency-detector, usageLimitPolicyRef: priority-holdback-policy" + parameters + "}}\n" + rest
	}
	for _, r := range []struct {
		name, text string
		priority   int32
		fills      int // of ten places, alone
	}{
		{"below 0, nothing is named", own("", ""), -1, 5},
		{"0, nothing is named", own("", ""), 0, 10},
		{"objectives", own("", "objectives: [{name: chat, priority: 10}, {name: batch, priority: -1}]\n"), -1, 5},
		{"0 among objectives", own("", "objectives: [{name: chat, priority: 10}, {name: batch, priority: -1}]\n"), 0, 8},
		{"the highest objective", own("", "objectives: [{name: chat, priority: 10}, {name: batch, priority: -1}]\n"), 10, 10},
		{"listed bands", own(", priorityBands: [{priority: 10}, {priority: -1}]", ""), -1, 5},
		{"0 below a listed band", own(", priorityBands: [{priority: 10}]", ""), 0, 5},
		{"an objective below 0 alone", own("", "objectives: [{name: batch, priority: -1}]\n"), -1, 5},
		{"an objective of another pool has no rank here", own("", "pools: [{name: default, models: [{name: m}]}, {name: other, models: [{name: n}]}]\nobjectives: [{name: batch, priority: -1}, {name: chat, priority: 10, pool: other}]\n"), 0, 10},
		{"beyond the bound of bands", own(", maxPriorityBands: 2", "objectives: [{name: a, priority: 10}, {name: b, priority: 20}, {name: c, priority: -1}, {name: d, priority: -2}]\n"), -2, 5},
		{"another priority, beyond the bound of bands", own(", maxPriorityBands: 2", "objectives: [{name: a, priority: 10}, {name: b, priority: 20}, {name: c, priority: -1}, {name: d, priority: -2}]\n"), 7, 8},
		{"llm-d's section", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\nplugins:\n- type: queue-scorer\n" + ten + half +
			"flowControl: {saturationDetector: {pluginRef: concurrency-detector}, usageLimitPolicyPluginRef: priority-holdback-policy, priorityBands: [{priority: 5}]}\n", 0, 5},
	} {
		t.Run(r.name, func(t *testing.T) {
			file, problems := config.Load([]byte(r.text), "ranks", catalog.Builtin())
			if file == nil {
				t.Fatal(problems)
			}
			built, problems := file.Build()
			if built == nil {
				t.Fatal(problems)
			}
			h := &house{t: t, built: built, model: "m", now: pool.Instant(time.Second)}
			o := exchange.Defaults()
			o.Built = built
			for _, p := range file.Spec.Pools {
				o.Pools = append(o.Pools, pool.New(p.Name, nil))
			}
			h.p = o.Pools[0]
			h.members(1)
			var err error
			if h.s, err = exchange.New(o); err != nil {
				t.Fatal(err)
			}
			went := 0
			for range 12 {
				if _, a := h.come(exchange.Said{Priority: r.priority}); a.Do == exchange.Forward {
					went++
				}
			}
			if went != r.fills {
				t.Errorf("%d of ten places are filled by priority %d alone, want %d", went, r.priority, r.fills)
			}
		})
	}
}
