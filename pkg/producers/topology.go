package producers

import (
	"errors"
	"sync"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Topology tells where endpoints are, by their labels. The values of Kubernetes' well-known labels are on nodes: have what
// starts the pods copy them to the pods' labels. An endpoint without the label of its host has its node as host, where
// discovery knows it.
type Topology struct {
	// Hostname is the label that names the host.
	Hostname string `json:"hostname" schema:"min=1,max=317"`

	// Rack is the label that names the rack, or whatever else shares one switch.
	Rack string `json:"rack" schema:"min=1,max=317"`

	// Zone is the label that names the zone.
	Zone string `json:"zone" schema:"min=1,max=317"`

	// Region is the label that names the region.
	Region string `json:"region" schema:"min=1,max=317"`

	where plugins.EndpointValues[plugins.Locality]

	mu    sync.Mutex
	pools []places
}

// places are what the labels of one membership say, by id.
type places struct {
	version uint64
	at      []plugins.Locality
}

var _ plugins.Producer = (*Topology)(nil)

// NewTopology returns a Topology that reads Kubernetes' well-known labels.
func NewTopology() *Topology {
	return &Topology{
		Hostname: "kubernetes.io/hostname", Rack: "topology.kubernetes.io/rack",
		Zone: "topology.kubernetes.io/zone", Region: "topology.kubernetes.io/region",
	}
}

// Provision says what is made, and refuses what no label can be called.
func (t *Topology) Provision(b *plugins.Builder) error {
	t.where = plugins.Provides(b, plugins.Localities)
	t.pools = make([]places, len(b.Pools))
	return errors.Join(plugins.LabelName("hostname", t.Hostname), plugins.LabelName("rack", t.Rack), plugins.LabelName("zone", t.Zone), plugins.LabelName("region", t.Region))
}

// Produce fills in where each endpoint is. Labels are read once per membership.
func (t *Topology) Produce(c *plugins.Cycle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.pools[c.PoolIndex]
	if p.version != c.Snapshot.Version {
		t.read(c, p)
	}
	copy(t.where.Of(c), p.at)
}

func (t *Topology) read(c *plugins.Cycle, p *places) {
	p.version, p.at = c.Snapshot.Version, make([]plugins.Locality, len(c.Snapshot.Slots))
	for _, id := range c.Snapshot.Members {
		e := &c.Snapshot.Slots[id]
		l := plugins.Locality{Host: e.Labels[t.Hostname], Rack: e.Labels[t.Rack], Zone: e.Labels[t.Zone], Region: e.Labels[t.Region]}
		if l.Host == "" {
			l.Host = e.Node
		}
		p.at[id] = l
	}
}
