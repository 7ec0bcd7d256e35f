package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// TopologyAffinity prefers endpoints that are near: to the endpoint that an earlier profile of the same decision chose, as
// a prefill that hands its KV cache over is to its decode; in the first profile, to the place that Own names.
//
//	same host 1    same rack 0.2    same zone 0.05    same region 0.02    else 0
//
// The steps follow the bandwidth by which a KV cache travels. What is not known of either is shared with nobody; where
// nothing is known to be near to, all score 0.
type TopologyAffinity struct {
	// TopologyProducerName names the plugin that tells where endpoints are. Empty: the one that the configuration has.
	TopologyProducerName string `json:"topologyProducerName,omitempty"`

	// Own is where the requests come from, such as the zone of the gateway. Absent: only an earlier profile's choice counts.
	Own *plugins.Locality `json:"own,omitempty"`

	where plugins.EndpointValues[plugins.Locality]
}

var _ plugins.Scorer = (*TopologyAffinity)(nil)

// NewTopologyAffinity returns a TopologyAffinity with its defaults.
func NewTopologyAffinity() *TopologyAffinity { return &TopologyAffinity{} }

// Provision says what Score reads, and refuses the name of a producer that is not there.
func (t *TopologyAffinity) Provision(b *plugins.Builder) error {
	t.where = plugins.Needs(b, plugins.Localities)
	return plugins.CheckProducer(b, plugins.Localities, "topologyProducerName", t.TopologyProducerName)
}

// nearness maps what is shared to a score.
var nearness = [...]float64{plugins.Apart: 0, plugins.SameRegion: 0.02, plugins.SameZone: 0.05, plugins.SameRack: 0.2, plugins.SameHost: 1}

// Score writes one score per candidate into out.
func (t *TopologyAffinity) Score(c *plugins.Cycle, out []float64) {
	where, near := t.where.Of(c), plugins.Locality{}
	if peer, ok := c.Peer(); ok {
		near = where[peer]
	} else if t.Own != nil {
		near = *t.Own
	}
	if !near.Known() {
		return
	}
	for i, id := range c.Candidates {
		out[i] = nearness[near.Nearness(where[id])]
	}
}
