package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// KVUtilization prefers endpoints whose KV cache has room:
//
//	score = 1 - usage
//
// An endpoint without telemetry scores the mean of those with; if there are none, all score 0.5.
type KVUtilization struct {
	usage plugins.EndpointValues[float64]
}

var _ plugins.Scorer = (*KVUtilization)(nil)

// NewKVUtilization returns a KVUtilization; it has no parameters.
func NewKVUtilization() *KVUtilization { return &KVUtilization{} }

// Provision says what Score reads.
func (k *KVUtilization) Provision(b *plugins.Builder) error {
	k.usage = plugins.Needs(b, plugins.KVUsage)
	return nil
}

// Score writes one score per candidate into out.
func (k *KVUtilization) Score(c *plugins.Cycle, out []float64) {
	usage := k.usage.Of(c)
	for i, id := range c.Candidates {
		out[i] = unknown
		if u := usage[id]; u != plugins.Unknown {
			out[i] = 1 - u
		}
	}
	neutral(out)
}
