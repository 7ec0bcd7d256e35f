package extproc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFrames(t *testing.T) {
	for _, row := range []struct {
		name    string
		framing Framing
		number  uint64
		bytes   int
		want    []int
	}{
		{"a small body is read at once, its end is a message of its own", HTTP1, 0, 60, []int{60, 0}},
		{"so it is whatever the number", HTTP1, 1, 4096, []int{4096, 0}},
		{"a large body may come at once", HTTP1, 0, 200_069, []int{200_069, 0}},
		{"or in growing reads", HTTP1, 1, 200_069, []int{4096, 32_768, 163_205, 0}},
		{"or after one of 96 KiB", HTTP1, 2, 1 << 20, []int{98_304, 950_272, 0}},
		{"no read is larger than the listener's buffer", HTTP1, 0, 1<<20 + 1, []int{1 << 20, 1, 0}},
		{"HTTP/2 ends with its last frame", HTTP2, 0, 60, []int{60}},
		{"HTTP/2 comes by frames of 16 KiB", HTTP2, 1, 3*16384 + 1, []int{16384, 16384, 16384, 1}},
		{"a full last frame is no reason for an empty one", HTTP2, 0, 16384, []int{16384}},
	} {
		if got := row.framing.frames(nil, row.number, row.bytes); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v; want %v", row.name, got, row.want)
		}
	}
}

func TestFramesCarryAllBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5<<20).Draw(t, "bytes")
		f := rapid.SampledFrom([]Framing{HTTP1, HTTP2}).Draw(t, "framing")
		frames := f.frames(nil, rapid.Uint64().Draw(t, "number"), n)
		var sum int
		for i, size := range frames {
			if size < 0 || size > readMax || size == 0 && i < len(frames)-1 {
				t.Fatalf("frame %d of %d bytes", i, size)
			}
			sum += size
		}
		if sum != n {
			t.Fatalf("%d bytes in frames; want %d", sum, n)
		}
	})
}
