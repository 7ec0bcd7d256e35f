package tuning

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/policy"
)

// Plugin is one line of a profile: a filter, scorer or picker, its parameters as YAML, and the weight of a scorer.
type Plugin struct {
	Type   string  `json:"type"`
	Params string  `json:"parameters,omitempty"`
	Weight float64 `json:"weight,omitempty"`
}

// Candidate is a configuration with one profile.
type Candidate []Plugin

// String is the candidate in one line.
func (c Candidate) String() string {
	var parts []string
	for _, p := range c {
		s := p.Type
		if p.Params != "" {
			s += "{" + p.Params + "}"
		}
		if p.Weight != 0 {
			s += "=" + number(p.Weight)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

// Text is the candidate as a configuration file.
func (c Candidate) Text() string {
	var b strings.Builder
	b.WriteString("apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n")
	for _, p := range c {
		fmt.Fprintf(&b, "- type: %s\n", p.Type)
		if p.Params != "" {
			fmt.Fprintf(&b, "  parameters: {%s}\n", p.Params)
		}
	}
	b.WriteString("schedulingProfiles:\n- name: default\n  plugins:\n")
	for _, p := range c {
		fmt.Fprintf(&b, "  - pluginRef: %s\n", p.Type)
		if p.Weight != 0 {
			fmt.Fprintf(&b, "    weight: %s\n", number(p.Weight))
		}
	}
	return b.String()
}

// Policy is the candidate as something to run, called by its line.
func (c Candidate) Policy() (policy.Policy, error) {
	return policy.FromText(c.String(), []byte(c.Text()))
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// best is the picker of candidates that are not about pickers.
var best = Plugin{Type: "max-score-picker"}

// known are candidates that operators use or that stand for one idea alone.
func known() []Candidate {
	one := func(t, params string, weight float64) Plugin { return Plugin{t, params, weight} }
	queue, kv, prefix := "queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"
	out := []Candidate{
		{one(queue, "", 2), one(kv, "", 2), one(prefix, "", 3), best},
		{one(queue, "", 2), one(prefix, "", 3), best},
		{one(queue, "", 1), one(kv, "", 1), one(prefix, "", 1), best},
		{one(queue, "", 1), one(prefix, "", 2), one("no-hit-lru-scorer", "", 2), best},
		{one(queue, "", 1), one(kv, "", 1), one("lora-affinity-scorer", "", 2), best},
		{one(prefix, "", 1), best},
		{one(queue, "", 1), best},
		{one(kv, "", 1), best},
		{one("running-requests-size-scorer", "", 1), best},
		{one("active-request-scorer", "", 1), best},
		{one("token-load-scorer", "queueThresholdTokens: 262144", 1), best},
		{one("prefix-cache-affinity-filter", "", 0), one("token-load-scorer", "", 1), best},
		{one("prefix-cache-affinity-filter", "", 0), one("active-request-scorer", "", 1), best},
	}
	// Only the ratio of the prices matters.
	for _, itl := range []string{"0.1", "0.3", "0.6", "1", "1.6", "3", "10"} {
		out = append(out, Candidate{one("cost-scorer", "ttftPrice: 1, itlPrice: "+itl, 1), best})
	}
	for _, weight := range []float64{0.5, 1, 2, 4} {
		for _, load := range []Plugin{one("active-request-scorer", "", 1), one("token-load-scorer", "queueThresholdTokens: 65536", 1), one("queue-headroom-scorer", "full: 16", 1)} {
			out = append(out, Candidate{load, one(prefix, "", weight), best})
		}
	}
	return out
}

// Candidates returns n configurations: those that are known first, and others drawn from the space of weights, thresholds, filters
// and pickers. More of them begin with the same ones.
func Candidates(n int) []Candidate {
	r := rand.New(rand.NewPCG(1, 'T'))
	out := known()
	seen := map[string]bool{}
	for _, c := range out {
		seen[c.String()] = true
	}
	for len(out) < n {
		if c := drawn(r); !seen[c.String()] {
			seen[c.String()] = true
			out = append(out, c)
		}
	}
	return out[:n]
}

// drawn is a configuration at random.
func drawn(r *rand.Rand) Candidate {
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	var c Candidate
	add := func(t, params string, weight float64) {
		if weight > 0 {
			c = append(c, Plugin{t, params, weight})
		}
	}
	if r.Float64() < 0.25 {
		c = append(c, Plugin{Type: "prefix-cache-affinity-filter", Params: fmt.Sprintf("affinityThreshold: %s, maxTTFTPenaltyMs: %s, explorationProbability: %s, peakPrefillThroughput: %s",
			number(pick(0.4, 0.8)), number(pick(500, 2000, 18000)), number(pick(0, 0.05)), number(pick(15928, 32000)))})
	}
	if r.Float64() < 0.15 {
		c = append(c, Plugin{Type: "utilization-filter", Params: fmt.Sprintf("fallbackOnEmpty: true, conditions: [{metric: waiting-queue, maxValue: %s}]", number(pick(1, 4, 16)))})
	}
	loads := []Plugin{
		{"queue-scorer", "", 1},
		{"queue-headroom-scorer", "full: " + number(pick(4, 16, 64)), 1},
		{"load-aware-scorer", "threshold: " + number(pick(8, 32, 128)), 1},
		{"running-requests-size-scorer", "", 1},
		{"active-request-scorer", "", 1},
		{"token-load-scorer", "queueThresholdTokens: " + number(pick(16384, 65536, 262144, 1048576)), 1},
	}
	r.Shuffle(len(loads), func(i, k int) { loads[i], loads[k] = loads[k], loads[i] })
	for _, l := range loads[:1+r.IntN(2)] {
		add(l.Type, l.Params, pick(1, 2, 3, 5))
	}
	add("kv-cache-utilization-scorer", "", pick(0, 0, 1, 2, 4))
	add("prefix-cache-scorer", "matchLengthWeight: "+number(pick(0, 0.5)), pick(0, 1, 2, 3, 5, 8))
	add("no-hit-lru-scorer", "", pick(0, 0, 0, 1, 3))
	add("lora-affinity-scorer", "", pick(0, 0, 0, 2, 5))
	if r.Float64() < 0.15 {
		return append(c, Plugin{Type: "weighted-random-picker"})
	}
	return append(c, best)
}
