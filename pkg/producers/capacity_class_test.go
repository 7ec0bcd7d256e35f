package producers_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestCapacityClassReadsLabels(t *testing.T) {
	const replicas, slices = "nvidia.com/gpu.replicas", "nvidia.com/mig-1g.10gb.replicas"
	const product, config, memory, note = "nvidia.com/gpu.product", "nvidia.com/mig.config", "nvidia.com/gpu.memory", "fairlead.dev/capacity-class"
	p := producers.NewCapacityClass()
	p.Classes = []producers.CapacityClassSpec{{Name: "mi300x", Prefill: 1.2, Decode: 1.5, Memory: 2.4}}
	for _, r := range []struct {
		name    string
		is      map[string]string // labels; the annotation among them
		want    plugins.CapacityClass
		unknown string
	}{
		{"nothing is said", nil, plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, ""},
		{"a whole GPU", map[string]string{product: "NVIDIA-H100-80GB-HBM3", memory: "81920"}, plugins.CapacityClass{Class: "h100-sxm", Prefill: 1, Decode: 1, Memory: 1}, ""},
		{"a slice that the product names", map[string]string{product: "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", config: "all-3g.40gb", memory: "40448"},
			plugins.CapacityClass{Class: "h100-mig-3g.40gb", Prefill: 60. / 132, Decode: 0.5, Memory: 40448. / 81920}, ""},
		{"a slice that the configuration names; the memory is that of the GPU", map[string]string{product: "NVIDIA-H100-80GB-HBM3", config: "all-1g.10gb", memory: "81559"},
			plugins.CapacityClass{Class: "h100-mig-1g.10gb", Prefill: 16. / 132, Decode: 1. / 8, Memory: 1. / 8}, ""},
		{"a slice with media extensions", map[string]string{product: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"},
			plugins.CapacityClass{Class: "h100-mig-1g.10gb", Prefill: 16. / 132, Decode: 1. / 8, Memory: 1. / 8}, ""},
		{"slicing is off", map[string]string{product: "NVIDIA-H200", config: "all-disabled"}, plugins.CapacityClass{Class: "h200", Prefill: 1, Decode: 4.8 / 3.35, Memory: 141. / 80}, ""},
		{"slices of several sizes", map[string]string{product: "NVIDIA-H100-80GB-HBM3", config: "all-balanced"},
			plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, `nvidia.com/gpu.product is "NVIDIA-H100-80GB-HBM3", nvidia.com/mig.config is "all-balanced"`},
		{"slices of several sizes, and the pod tells", map[string]string{product: "NVIDIA-H100-80GB-HBM3", config: "all-balanced", note: "h100-mig-2g.20gb"},
			plugins.CapacityClass{Class: "h100-mig-2g.20gb", Prefill: 32. / 132, Decode: 0.25, Memory: 0.25}, ""},
		{"a small slice of a small A100", map[string]string{product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
			plugins.CapacityClass{Class: "a100-mig-1g.5gb", Prefill: 312 / 989.5 * 14 / 108, Decode: 1.555 / 3.35 / 8, Memory: 0.5 / 8}, ""},
		{"a slice is of the A100 that has it", map[string]string{note: "a100-mig-3g.20gb"},
			plugins.CapacityClass{Class: "a100-mig-3g.20gb", Prefill: 312 / 989.5 * 42 / 108, Decode: 1.555 / 3.35 / 2, Memory: 0.25}, ""},
		{"a slice that cannot be", map[string]string{product: "NVIDIA-H100-80GB-HBM3-MIG-5g.50gb"},
			plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, `nvidia.com/gpu.product is "NVIDIA-H100-80GB-HBM3-MIG-5g.50gb"`},
		{"an L40S has no slices", map[string]string{product: "NVIDIA-L40S", config: "all-1g.6gb"},
			plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, `nvidia.com/gpu.product is "NVIDIA-L40S", nvidia.com/mig.config is "all-1g.6gb"`},
		{"a GPU that four pods share has a fourth for each, and its memory is that of the GPU", map[string]string{product: "NVIDIA-L40S-SHARED", replicas: "4", memory: "49152"},
			plugins.CapacityClass{Class: "l40s-shared-4", Prefill: 362 / 989.5 / 4, Decode: 0.864 / 3.35 / 4, Memory: 48. / 80 / 4}, ""},
		{"a shared GPU whose resource has a name of its own", map[string]string{product: "NVIDIA-L40S", replicas: "4"},
			plugins.CapacityClass{Class: "l40s-shared-4", Prefill: 362 / 989.5 / 4, Decode: 0.864 / 3.35 / 4, Memory: 48. / 80 / 4}, ""},
		{"a shared GPU, and nobody says among how many", map[string]string{product: "NVIDIA-L40S-SHARED"},
			plugins.CapacityClass{Class: "l40s-shared-2", Prefill: 362 / 989.5 / 2, Decode: 0.864 / 3.35 / 2, Memory: 48. / 80 / 2},
			`nvidia.com/gpu.product is "NVIDIA-L40S-SHARED", nvidia.com/gpu.replicas is ""`},
		{"a shared slice", map[string]string{product: "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb-SHARED", replicas: "2"},
			plugins.CapacityClass{Class: "h100-mig-3g.40gb-shared-2", Prefill: 30. / 132, Decode: 0.25, Memory: 0.25}, ""},
		{"a shared slice that the configuration names", map[string]string{product: "NVIDIA-H100-80GB-HBM3", config: "all-1g.10gb", replicas: "0", slices: "2", memory: "81559"},
			plugins.CapacityClass{Class: "h100-mig-1g.10gb-shared-2", Prefill: 8. / 132, Decode: 1. / 16, Memory: 1. / 16}, ""},
		{"a slice that nobody shares, on a node that shares GPUs", map[string]string{product: "NVIDIA-H100-80GB-HBM3", config: "all-1g.10gb", replicas: "4", slices: "1"},
			plugins.CapacityClass{Class: "h100-mig-1g.10gb", Prefill: 16. / 132, Decode: 1. / 8, Memory: 1. / 8}, ""},
		{"a GPU that nobody shares", map[string]string{product: "NVIDIA-L40S", replicas: "1"}, plugins.CapacityClass{Class: "l40s", Prefill: 362 / 989.5, Decode: 0.864 / 3.35, Memory: 48. / 80}, ""},
		{"a number of pods that cannot be", map[string]string{product: "NVIDIA-L40S", replicas: "-3"},
			plugins.CapacityClass{Class: "l40s", Prefill: 362 / 989.5, Decode: 0.864 / 3.35, Memory: 48. / 80}, `nvidia.com/gpu.replicas is "-3"`},
		{"more than can be told apart", map[string]string{product: "NVIDIA-L40S", replicas: "1000000000"},
			plugins.CapacityClass{Class: "l40s", Prefill: 362 / 989.5, Decode: 0.864 / 3.35, Memory: 48. / 80}, `nvidia.com/gpu.replicas is "1000000000"`},
		{"a shared GPU by annotation", map[string]string{note: "l40s-shared-3"},
			plugins.CapacityClass{Class: "l40s-shared-3", Prefill: 362 / 989.5 / 3, Decode: 0.864 / 3.35 / 3, Memory: 48. / 80 / 3}, ""},
		{"an annotation is not divided by the label", map[string]string{note: "l40s", product: "NVIDIA-L40S-SHARED", replicas: "4"},
			plugins.CapacityClass{Class: "l40s", Prefill: 362 / 989.5, Decode: 0.864 / 3.35, Memory: 48. / 80}, ""},
		{"shared with nobody", map[string]string{note: "l40s-shared-1"}, plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, `fairlead.dev/capacity-class is "l40s-shared-1"`},
		{"a B200", map[string]string{product: "NVIDIA-B200"}, plugins.CapacityClass{Class: "b200", Prefill: 2250 / 989.5, Decode: 8 / 3.35, Memory: 180. / 80}, ""},
		{"a slice of a B200", map[string]string{product: "NVIDIA-B200-MIG-1g.23gb"}, plugins.CapacityClass{Class: "b200-mig-1g.23gb", Prefill: 2250 / 989.5 / 7, Decode: 1 / 3.35, Memory: 22.5 / 80}, ""},
		{"an H20 reads prompts slowly and writes fast", map[string]string{product: "NVIDIA-H20"}, plugins.CapacityClass{Class: "h20", Prefill: 148 / 989.5, Decode: 4 / 3.35, Memory: 96. / 80}, ""},
		{"an A30", map[string]string{product: "NVIDIA-A30"}, plugins.CapacityClass{Class: "a30", Prefill: 165 / 989.5, Decode: 0.933 / 3.35, Memory: 24. / 80}, ""},
		{"a slice of an A30 is a fourth", map[string]string{product: "NVIDIA-A30-MIG-1g.6gb"}, plugins.CapacityClass{Class: "a30-mig-1g.6gb", Prefill: 165 / 989.5 / 4, Decode: 0.933 / 3.35 / 4, Memory: 6. / 80}, ""},
		{"an A30 has no third", map[string]string{note: "a30-mig-3g.12gb"}, plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 1}, `fairlead.dev/capacity-class is "a30-mig-3g.12gb"`},
		{"a T4", map[string]string{product: "Tesla-T4"}, plugins.CapacityClass{Class: "t4", Prefill: 65 / 989.5, Decode: 0.32 / 3.35, Memory: 16. / 80}, ""},
		{"a product that nobody knows, with its memory", map[string]string{product: "NVIDIA-X1", memory: "20480"},
			plugins.CapacityClass{Class: "unknown", Prefill: 1, Decode: 1, Memory: 0.25}, `nvidia.com/gpu.product is "NVIDIA-X1"`},
		{"an annotation that nobody knows, and a product that is known", map[string]string{product: "NVIDIA-H200", note: "h201"},
			plugins.CapacityClass{Class: "h200", Prefill: 1, Decode: 4.8 / 3.35, Memory: 141. / 80}, `fairlead.dev/capacity-class is "h201"`},
		{"a class of the operator's own", map[string]string{note: "mi300x"}, plugins.CapacityClass{Class: "mi300x", Prefill: 1.2, Decode: 1.5, Memory: 2.4}, ""},
		{"memory that is no number", map[string]string{product: "NVIDIA-H100-80GB-HBM3", memory: "lots"}, plugins.CapacityClass{Class: "h100-sxm", Prefill: 1, Decode: 1, Memory: 1}, ""},
	} {
		e := &pool.Endpoint{Labels: r.is, Annotations: map[string]string{note: r.is[note]}}
		got, unknown := p.Class(e)
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if got.Class != r.want.Class || !near(got.Prefill, r.want.Prefill) || !near(got.Decode, r.want.Decode) || !near(got.Memory, r.want.Memory) || unknown != r.unknown {
			t.Errorf("%s:\n got %+v %s\nwant %+v %s", r.name, got, unknown, r.want, r.unknown)
		}
	}
}

// classed scores nothing and keeps the classes that it reads.
type classed struct {
	class plugins.EndpointValues[plugins.CapacityClass]
	got   []string
}

func (p *classed) Provision(b *plugins.Builder) error {
	p.class = plugins.Needs(b, plugins.CapacityClasses)
	return nil
}

func (p *classed) Score(c *plugins.Cycle, _ []float64) {
	p.got = nil
	for _, id := range c.Candidates {
		p.got = append(p.got, p.class.Of(c)[id].Class)
	}
}

func TestAPodThatMovesToASliceIsClassedAnew(t *testing.T) {
	read := &classed{}
	g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "read", Plugin: read, Weight: 1}, {Name: "class", Plugin: producers.NewCapacityClass()}})
	product := "NVIDIA-H100-80GB-HBM3"
	like := func(e *pool.Endpoint) { e.Labels = map[string]string{"nvidia.com/gpu.product": product} }
	for _, r := range []struct {
		product, want string
		noted         int
	}{
		{product, "h100-sxm h100-sxm", 0},
		{product + "-MIG-3g.40gb", "h100-mig-3g.40gb h100-mig-3g.40gb", 0},
		{"NVIDIA-X1", "unknown unknown", 1}, // said once, though two have it
		{product, "h100-sxm h100-sxm", 1},
		{"NVIDIA-X1", "unknown unknown", 1}, // and not again
	} {
		product = r.product
		g.MembersLike(like, "a", "b")
		for range 2 { // the second time from memory
			g.Send(openai.NewSummary())
			if got := strings.Join(read.got, " "); got != r.want || g.Notes[reason.CapacityUnknown] != r.noted {
				t.Errorf("%s: got %s, noted %d; want %s, %d", product, got, g.Notes[reason.CapacityUnknown], r.want, r.noted)
			}
		}
	}
}

func TestCapacityClassesOfOneNameAreRefused(t *testing.T) {
	for _, names := range []string{"a a", "unknown"} {
		b, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "c", Type: "c", Construct: func() (any, error) {
			p := producers.NewCapacityClass()
			for name := range strings.FieldsSeq(names) {
				p.Classes = append(p.Classes, producers.CapacityClassSpec{Name: name, Prefill: 1, Decode: 1, Memory: 1})
			}
			return p, nil
		}}}}, nil)
		if err == nil || !strings.Contains(err.Error(), "is given twice") {
			t.Errorf("%s: %v %v", names, b, err)
		}
	}
}
