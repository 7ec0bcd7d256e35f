package engine

import (
	"fmt"
	"strings"
)

// Hardware is one kind of device that an engine runs on: a GPU, or a MIG slice of one.
type Hardware struct {
	// Name is the device's name on a command line, such as "h100-sxm" or "h100-mig-3g.40gb".
	Name string

	// Product is the device as NVIDIA's GPU feature discovery names it in a node's label nvidia.com/gpu.product; of a slice with the
	// strategy "single", so that the name is that of the slice.
	Product string

	// MemoryBytes is the memory of one device.
	MemoryBytes int64

	// BytesPerSecond is the peak bandwidth of that memory.
	BytesPerSecond float64

	// FLOPS16 and FLOPS8 are the peak dense operations per second in 16-bit and 8-bit floating point; FLOPS8 equals FLOPS16 on
	// devices without 8-bit units.
	FLOPS16, FLOPS8 float64

	// Slice says that the device is a MIG slice. Slices have no peer-to-peer access: an engine runs on one alone, and contents
	// go from slice to slice through the host's memory.
	Slice bool

	// PeerBytesPerSecond is the bandwidth, one way, between two of these devices in one machine; 0 where they cannot reach
	// each other. NetworkBytesPerSecond is that between two machines, per device.
	PeerBytesPerSecond, NetworkBytesPerSecond float64

	// Source says where the figures come from.
	Source string
}

const (
	gib           = 1 << 30
	peak          = "NVIDIA data sheet, dense"
	h100SMs       = 132
	h100Bandwidth = 3.35e12
	h100FLOPS16   = 989.5e12
	h100FLOPS8    = 1979e12

	// A whole H100's 79 GiB as its slices see them, in 8 memory slices: 3g.40gb shows 39.5 GiB.
	sliceMemory = 79 * gib / 8
)

// Devices returns the built-in hardware.
func Devices() []Hardware {
	return []Hardware{
		{Name: "h100-sxm", Product: "NVIDIA-H100-80GB-HBM3", MemoryBytes: 80 * gib, BytesPerSecond: h100Bandwidth, FLOPS16: h100FLOPS16, FLOPS8: h100FLOPS8, PeerBytesPerSecond: 450e9, NetworkBytesPerSecond: 50e9, Source: peak},
		{Name: "h100-pcie", Product: "NVIDIA-H100-PCIe", MemoryBytes: 80 * gib, BytesPerSecond: 2.0e12, FLOPS16: 756e12, FLOPS8: 1513e12, PeerBytesPerSecond: 64e9, NetworkBytesPerSecond: 50e9, Source: peak},
		{Name: "h200", Product: "NVIDIA-H200", MemoryBytes: 141 * gib, BytesPerSecond: 4.8e12, FLOPS16: h100FLOPS16, FLOPS8: h100FLOPS8, PeerBytesPerSecond: 450e9, NetworkBytesPerSecond: 50e9, Source: peak},
		{Name: "a100-80", Product: "NVIDIA-A100-SXM4-80GB", MemoryBytes: 80 * gib, BytesPerSecond: 2.039e12, FLOPS16: 312e12, FLOPS8: 312e12, PeerBytesPerSecond: 300e9, NetworkBytesPerSecond: 25e9, Source: peak},
		{Name: "a100-40", Product: "NVIDIA-A100-SXM4-40GB", MemoryBytes: 40 * gib, BytesPerSecond: 1.555e12, FLOPS16: 312e12, FLOPS8: 312e12, PeerBytesPerSecond: 300e9, NetworkBytesPerSecond: 25e9, Source: peak},
		{Name: "l40s", Product: "NVIDIA-L40S", MemoryBytes: 48 * gib, BytesPerSecond: 0.864e12, FLOPS16: 362e12, FLOPS8: 733e12, PeerBytesPerSecond: 32e9, NetworkBytesPerSecond: 12.5e9, Source: peak},
		h100Slice("1g.10gb", 16, 1),
		h100Slice("1g.20gb", 26, 2),
		h100Slice("2g.20gb", 32, 2),
		h100Slice("3g.40gb", 60, 4),
		h100Slice("4g.40gb", 64, 4),
		h100Slice("7g.80gb", 132, 8),
	}
}

// h100Slice is a MIG slice of an H100 with so many of its 132 multiprocessors and of its 8 memory slices.
func h100Slice(name string, multiprocessors, memorySlices int64) Hardware {
	compute := float64(multiprocessors) / h100SMs
	return Hardware{
		Name:                  "h100-mig-" + name,
		Product:               "NVIDIA-H100-80GB-HBM3-MIG-" + name,
		MemoryBytes:           memorySlices * sliceMemory,
		BytesPerSecond:        h100Bandwidth * float64(memorySlices) / 8,
		FLOPS16:               h100FLOPS16 * compute,
		FLOPS8:                h100FLOPS8 * compute,
		Slice:                 true,
		NetworkBytesPerSecond: 50e9 * float64(memorySlices) / 8,
		Source:                fmt.Sprintf("NVIDIA MIG user guide: %d of %d multiprocessors, %d of 8 memory slices; the H100's peaks in proportion", multiprocessors, h100SMs, memorySlices),
	}
}

// Labels returns what the labels of a node with this hardware say of it, by NVIDIA's GPU feature discovery and MIG manager.
func (h Hardware) Labels() map[string]string {
	labels := map[string]string{"nvidia.com/gpu.product": h.Product}
	if _, slice, ok := strings.Cut(h.Product, "-MIG-"); ok {
		labels["nvidia.com/mig.config"] = "all-" + slice
	}
	return labels
}

// HardwareFor returns the built-in hardware of this name. The error lists what there is.
func HardwareFor(name string) (Hardware, error) {
	var names []string
	for _, h := range Devices() {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	return Hardware{}, fmt.Errorf("no hardware %q; there is %s", name, strings.Join(names, ", "))
}

// Limits returns vLLM's defaults for its API server on this device: the token budget of a step and the most requests that
// run at a time (vllm/engine/arg_utils.py, EngineArgs.get_batch_defaults: 70 GiB or more and not an A100, or everything
// else). A slice counts by its own memory, whatever the GPU's name.
func (h Hardware) Limits() (maxBatchedTokens, maxSeqs int32) {
	if h.MemoryBytes >= 70*gib && !strings.HasPrefix(h.Name, "a100") {
		return 8192, 1024
	}
	return 2048, 256
}
