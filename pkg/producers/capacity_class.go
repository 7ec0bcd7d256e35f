package producers

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// CapacityClass tells on what each endpoint runs, by the labels that NVIDIA's GPU feature discovery gives nodes: have what
// starts the pods copy them to the pods' labels. An annotation that names a class comes before them.
//
// A class says how fast an endpoint is expected to be before anything was measured, relative to an H100 SXM: its prefill in
// proportion to the peak of dense 16-bit operations, its decode to the bandwidth of its memory, by the data sheets. A slice
// (MIG) has its share of both, and where n pods share a GPU or a slice, by turns or by MPS, each has an n-th: what it has when all
// are busy. Labels are read when they change.
//
// An endpoint that says nothing has the class unknown, and counts as an H100 SXM; so does one whose product or class is not
// known here, which is noted.
type CapacityClass struct {
	// Product is the label that names the GPU, or the slice of one.
	Product string `json:"product" schema:"min=1,max=317"`

	// Config is the label that names into what a node's GPUs are cut, where Product names the whole GPU.
	Config string `json:"config" schema:"min=1,max=317"`

	// Replicas is the label that says how many pods share a GPU. That of slices whose product is not named is known by it: for
	// nvidia.com/gpu.replicas it is nvidia.com/mig-3g.40gb.replicas. Where a product ends in -SHARED and nothing says how many
	// share it, they are taken to be two, which is noted.
	Replicas string `json:"replicas" schema:"min=1,max=317"`

	// Memory is the label that gives the memory in MiB. It counts before what is known of the product.
	Memory string `json:"memory" schema:"min=1,max=317"`

	// Annotation is that which names the class.
	Annotation string `json:"annotation" schema:"min=1,max=317"`

	// Classes are further classes, to be named by the annotation or by the label Product. One with the name of a class that is
	// known takes its place.
	Classes []CapacityClassSpec `json:"classes,omitempty" schema:"max=100"`

	class plugins.EndpointValues[plugins.CapacityClass]

	mu    sync.Mutex
	pools []classes
}

// CapacityClassSpec is a class of the operator's own.
type CapacityClassSpec struct {
	// Name is that of the class.
	Name string `json:"name" schema:"required,min=1,max=253"`

	// Prefill is how fast prompts are computed, relative to an H100 SXM.
	Prefill float64 `json:"prefill" schema:"required,min=0.001,max=1000"`

	// Decode is how fast tokens are generated, relative to an H100 SXM.
	Decode float64 `json:"decode" schema:"required,min=0.001,max=1000"`

	// Memory is how much memory there is, relative to an H100 SXM.
	Memory float64 `json:"memory" schema:"required,min=0.001,max=1000"`
}

// classes are what the labels of one membership say, by id.
type classes struct {
	version uint64
	at      []plugins.CapacityClass
	said    map[string]bool // labels and annotations of which it was noted that nobody knows them
}

// saidMost bounds how many unknown products are remembered as noted.
const saidMost = 100

var _ plugins.Producer = (*CapacityClass)(nil)

// NewCapacityClass returns a CapacityClass that reads the labels of NVIDIA's GPU feature discovery.
func NewCapacityClass() *CapacityClass {
	return &CapacityClass{
		Product: "nvidia.com/gpu.product", Config: "nvidia.com/mig.config", Memory: "nvidia.com/gpu.memory",
		Replicas: "nvidia.com/gpu.replicas", Annotation: "fairlead.dev/capacity-class",
	}
}

// Provision says what is made, and refuses classes of one name and what no label can be called.
func (p *CapacityClass) Provision(b *plugins.Builder) error {
	p.class = plugins.Provides(b, plugins.CapacityClasses)
	p.pools = make([]classes, len(b.Pools))
	seen := map[string]bool{plugins.UnknownClass: true}
	for i := range p.Classes {
		name := p.Classes[i].Name
		if seen[name] {
			return fmt.Errorf("classes: %q is given twice, or is the name of what is not known; give each class a name of its own", name)
		}
		seen[name] = true
	}
	return errors.Join(plugins.LabelName("product", p.Product), plugins.LabelName("config", p.Config), plugins.LabelName("replicas", p.Replicas),
		plugins.LabelName("memory", p.Memory), plugins.LabelName("annotation", p.Annotation))
}

// Produce fills in the class of each endpoint. Labels are read once per membership.
func (p *CapacityClass) Produce(c *plugins.Cycle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.pools[c.PoolIndex]
	if of.version != c.Snapshot.Version {
		p.read(c, of)
	}
	copy(p.class.Of(c), of.at)
}

func (p *CapacityClass) read(c *plugins.Cycle, of *classes) {
	of.version, of.at = c.Snapshot.Version, make([]plugins.CapacityClass, len(c.Snapshot.Slots))
	for _, id := range c.Snapshot.Members {
		e := &c.Snapshot.Slots[id]
		class, unknown := p.Class(e)
		of.at[id] = class
		if unknown != "" && !of.said[unknown] && len(of.said) < saidMost {
			if of.said == nil {
				of.said = map[string]bool{}
			}
			of.said[unknown] = true
			c.Note(reason.CapacityUnknown, plugins.EndpointName(e)+": "+unknown)
		}
	}
}

// Class returns the class of an endpoint. unknown is what it says of itself that nobody knows; empty if there is nothing.
func (p *CapacityClass) Class(e *pool.Endpoint) (c plugins.CapacityClass, unknown string) {
	c, known := plugins.CapacityClass{}, false
	if name := e.Annotations[p.Annotation]; name != "" {
		if c, known = p.named(name); !known {
			unknown = p.Annotation + " is " + strconv.Quote(name)
		}
	}
	sharing := 1
	if product := e.Labels[p.Product]; !known && product != "" {
		var more string
		c, sharing, more = p.labelled(e, product)
		known = c.Class != ""
		if unknown == "" {
			unknown = more
		}
	}
	if !known {
		c = plugins.CapacityClass{Class: plugins.UnknownClass, Prefill: 1, Decode: 1, Memory: 1}
	}
	whole := strings.Contains(c.Class, "-mig-") && !strings.Contains(e.Labels[p.Product], "-MIG-") // the label is that of the whole GPU
	if mib, err := strconv.ParseFloat(e.Labels[p.Memory], 64); !whole && err == nil && mib > 0 && !math.IsInf(mib, 0) {
		c.Memory = mib / 1024 / reference.gigabytes
	}
	if sharing > 1 {
		c = shared(c, sharing)
	}
	return c, unknown
}

// labelled returns the class that labels give, empty for a product that nobody knows, and how many share it.
func (p *CapacityClass) labelled(e *pool.Endpoint, product string) (c plugins.CapacityClass, sharing int, unknown string) {
	if c, known := p.own(product); known {
		return c, 1, ""
	}
	base, is := strings.CutSuffix(product, "-SHARED")
	config := e.Labels[p.Config]
	c, profile, known := classOfProduct(base, config)
	if !known {
		unknown = p.Product + " is " + strconv.Quote(product)
		if config != "" {
			unknown += ", " + p.Config + " is " + strconv.Quote(config)
		}
		return plugins.CapacityClass{}, 1, unknown
	}
	label := p.Replicas
	if profile != "" {
		label = strings.Replace(label, "/gpu.", "/mig-"+profile+".", 1)
	}
	said := e.Labels[label]
	n, err := strconv.Atoi(said)
	switch {
	case err == nil && n > 1 && n <= mostSharing:
		return c, n, ""
	case is:
		return c, 2, p.Product + " is " + strconv.Quote(product) + ", " + label + " is " + strconv.Quote(said)
	case said != "" && (err != nil || n < 0 || n > mostSharing):
		return c, 1, label + " is " + strconv.Quote(said)
	}
	return c, 1, ""
}

func (p *CapacityClass) named(name string) (plugins.CapacityClass, bool) {
	if c, ok := p.own(name); ok {
		return c, true
	}
	return classNamed(name)
}

func (p *CapacityClass) own(name string) (plugins.CapacityClass, bool) {
	for i := range p.Classes {
		if s := &p.Classes[i]; s.Name == name {
			return plugins.CapacityClass{Class: name, Prefill: s.Prefill, Decode: s.Decode, Memory: s.Memory}, true
		}
	}
	return plugins.CapacityClass{}, false
}
