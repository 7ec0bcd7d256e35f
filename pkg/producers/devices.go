package producers

import (
	"math"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// device is a whole GPU by the figures of its data sheet.
type device struct {
	class, sliced string // the name of its class, and what those of its slices begin with
	// products are what NVIDIA's GPU feature discovery writes into nvidia.com/gpu.product.
	products  []string
	gigabytes float64 // of memory; GiB, as data sheets count
	bandwidth float64 // of memory, TB/s
	flops     float64 // dense 16-bit, TFLOP/s
	slices    []slice
}

// slice is a part that a GPU can be cut into: NVIDIA MIG user guide, "Supported MIG profiles". Its profile is called
// Ng.Mgb, of N compute slices and as many gigabytes as its share of the eight memory slices has.
type slice struct {
	compute, memory int
	share           float64 // of the GPU's multiprocessors
}

var (
	hopper = []slice{{1, 1, 16. / 132}, {1, 2, 26. / 132}, {2, 2, 32. / 132}, {3, 4, 60. / 132}, {4, 4, 64. / 132}, {7, 8, 1}}
	ampere = []slice{{1, 1, 14. / 108}, {1, 2, 14. / 108}, {2, 2, 28. / 108}, {3, 4, 42. / 108}, {4, 4, 56. / 108}, {7, 8, 98. / 108}}
	// An A30 has four slices of either kind, so that each has two of the eight.
	ampereSmall = []slice{{1, 2, 14. / 56}, {2, 4, 28. / 56}, {4, 8, 1}}
	// Of these the guide gives no numbers of multiprocessors, but sevenths.
	sevenths = []slice{{1, 1, 1. / 7}, {1, 2, 1. / 7}, {2, 2, 2. / 7}, {3, 4, 3. / 7}, {4, 4, 4. / 7}, {7, 8, 1}}
)

// reference is what the figures of classes are relative to.
var reference = devices[0]

// devices are the GPUs that have a class, by NVIDIA's data sheets. Reading a prompt is bound by computation, so that a
// class's prefill is in proportion to flops; generating is bound by reading memory, and in proportion to bandwidth. Of the B200
// it is a share of what the sheet of the DGX B200 says of eight.
var devices = []device{
	{"h100-sxm", "h100-mig-", []string{"NVIDIA-H100-80GB-HBM3"}, 80, 3.35, 989.5, hopper},
	{"h100-pcie", "h100-pcie-mig-", []string{"NVIDIA-H100-PCIe"}, 80, 2.0, 756, hopper},
	{"h100-nvl", "h100-nvl-mig-", []string{"NVIDIA-H100-NVL"}, 94, 3.9, 835, hopper},
	{"h200", "h200-mig-", []string{"NVIDIA-H200", "NVIDIA-H200-NVL"}, 141, 4.8, 989.5, hopper},
	{"h20", "h20-mig-", []string{"NVIDIA-H20"}, 96, 4.0, 148, sevenths},
	{"b200", "b200-mig-", []string{"NVIDIA-B200"}, 180, 8.0, 2250, sevenths},
	{"gh200", "gh200-mig-", []string{"NVIDIA-GH200-480GB"}, 96, 4.0, 989.5, hopper},
	{"a100-80", "a100-mig-", []string{"NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-80GB"}, 80, 2.039, 312, ampere},
	{"a100-40", "a100-mig-", []string{"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-40GB"}, 40, 1.555, 312, ampere},
	{"a30", "a30-mig-", []string{"NVIDIA-A30"}, 24, 0.933, 165, ampereSmall},
	{"l40s", "", []string{"NVIDIA-L40S"}, 48, 0.864, 362, nil},
	{"l4", "", []string{"NVIDIA-L4"}, 24, 0.3, 121, nil},
	{"a10", "", []string{"NVIDIA-A10", "NVIDIA-A10G"}, 24, 0.6, 125, nil},
	{"t4", "", []string{"Tesla-T4", "NVIDIA-T4"}, 16, 0.32, 65, nil},
}

// whole returns the class of the whole device.
func (d *device) whole() plugins.CapacityClass {
	return plugins.CapacityClass{Class: d.class, Prefill: d.flops / reference.flops, Decode: d.bandwidth / reference.bandwidth, Memory: d.gigabytes / reference.gigabytes}
}

// slice returns the class of a slice such as 3g.40gb; ok is false for one that the device cannot be cut into.
func (d *device) slice(profile string) (c plugins.CapacityClass, ok bool) {
	profile, _, _ = strings.Cut(profile, "+") // media extensions change neither rate
	profile = strings.TrimSuffix(profile, ".me")
	per := d.gigabytes / 8
	for _, s := range d.slices {
		number, fits := strings.CutPrefix(profile, strconv.Itoa(s.compute)+"g.")
		number, gb := strings.CutSuffix(number, "gb")
		gigabytes, err := strconv.Atoi(number)
		if !fits || !gb || err != nil || math.Abs(float64(gigabytes)-per*float64(s.memory)) > per/4 {
			continue
		}
		c = d.whole()
		c.Class = d.sliced + profile
		c.Prefill *= s.share
		c.Decode *= float64(s.memory) / 8
		c.Memory *= float64(s.memory) / 8
		return c, true
	}
	return c, false
}

// sharedInfix stands in the name of a class between what is shared and among how many.
const sharedInfix = "-shared-"

// mostSharing bounds among how many a GPU or slice is shared.
const mostSharing = 1000

// shared returns the class of each of n that share what c is, from 2 to mostSharing: an n-th of all.
func shared(c plugins.CapacityClass, n int) plugins.CapacityClass {
	of := float64(n)
	return plugins.CapacityClass{Class: c.Class + sharedInfix + strconv.Itoa(n), Prefill: c.Prefill / of, Decode: c.Decode / of, Memory: c.Memory / of}
}

// classNamed returns the class of this name: that of a device, of a slice of one, or of those that share either, such as
// l40s-shared-4.
func classNamed(name string) (c plugins.CapacityClass, ok bool) {
	if of, number, is := strings.Cut(name, sharedInfix); is {
		n, err := strconv.Atoi(number)
		if c, ok = classNamed(of); !ok || err != nil || n < 2 || n > mostSharing || strconv.Itoa(n) != number {
			return c, false
		}
		return shared(c, n), true
	}
	for i := range devices {
		d := &devices[i]
		if d.class == name {
			return d.whole(), true
		}
		if profile, sliced := strings.CutPrefix(name, d.sliced); sliced && d.sliced != "" {
			if c, ok = d.slice(profile); ok {
				return c, true
			}
		}
	}
	return c, false
}

// classOfProduct returns the class that the product and configuration of a node's GPU give. profile is the slice where the
// configuration names it.
//
// With MIG strategy single the product names the slice, as in NVIDIA-H100-80GB-HBM3-MIG-3g.40gb. With strategy mixed it names
// the GPU, and a configuration such as all-3g.40gb the slices; where slices of several sizes are on one GPU, only an
// annotation of the pod tells.
func classOfProduct(product, config string) (c plugins.CapacityClass, profile string, ok bool) {
	base, named, sliced := strings.Cut(product, "-MIG-")
	if !sliced && config != "" && config != "all-disabled" {
		if profile, sliced = strings.CutPrefix(config, "all-"); !sliced || profile == "enabled" || profile == "balanced" {
			return c, "", false
		}
		named = profile
	}
	for i := range devices {
		for _, p := range devices[i].products {
			switch {
			case p != base:
			case sliced:
				c, ok = devices[i].slice(named)
				return c, profile, ok
			default:
				return devices[i].whole(), "", true
			}
		}
	}
	return c, "", false
}
