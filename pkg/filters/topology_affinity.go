package filters

import "github.com/fairlead/fairlead/pkg/plugins"

// TopologyAffinity keeps the endpoints that are near enough: to the endpoint that an earlier profile of the same decision
// chose; in the first profile, to the place that own names.
//
// What is not known of an endpoint is shared with nobody. Where nothing is known to be near to, or nobody is near enough, all
// are kept: nearness never makes a request unroutable.
type TopologyAffinity struct {
	// MinAffinity is the least that must be shared: host, rack, zone or region.
	MinAffinity string `json:"minAffinity" schema:"enum=host|rack|zone|region"`

	// TopologyProducerName names the plugin that tells where endpoints are. Empty: the one that the configuration has.
	TopologyProducerName string `json:"topologyProducerName,omitempty"`

	// Own is where the requests come from, such as the zone of the gateway. Absent: only an earlier profile's choice counts.
	Own *plugins.Locality `json:"own,omitempty"`

	where plugins.EndpointValues[plugins.Locality]
	least plugins.Nearness
}

var _ plugins.Filter = (*TopologyAffinity)(nil)

// NewTopologyAffinity returns a TopologyAffinity with its defaults.
func NewTopologyAffinity() *TopologyAffinity { return &TopologyAffinity{MinAffinity: "host"} }

// Provision says what Filter reads, and refuses the name of a producer that is not there.
func (f *TopologyAffinity) Provision(b *plugins.Builder) error {
	f.where = plugins.Needs(b, plugins.Localities)
	switch f.MinAffinity {
	case "host":
		f.least = plugins.SameHost
	case "rack":
		f.least = plugins.SameRack
	case "zone":
		f.least = plugins.SameZone
	default:
		f.least = plugins.SameRegion
	}
	return plugins.CheckProducer(b, plugins.Localities, "topologyProducerName", f.TopologyProducerName)
}

// Filter clears the bit of every candidate that is too far, unless all are.
func (f *TopologyAffinity) Filter(c *plugins.Cycle, keep plugins.Bits) {
	where, near := f.where.Of(c), plugins.Locality{}
	if peer, ok := c.Peer(); ok {
		near = where[peer]
	} else if f.Own != nil {
		near = *f.Own
	}
	left := 0
	for i, id := range c.Candidates {
		if near.Nearness(where[id]) >= f.least {
			left++
		} else {
			keep.Clear(i)
		}
	}
	if left == 0 {
		keepAll(c, keep)
	}
}
