package filters

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// TwoChoice leaves a few candidates, drawn for each request, where what is known of load is old or known to others as well, so
// that not everybody who knows the same runs to the same endpoint.
//
// With n candidates and r replicas of the picker, d = max(2, ⌈n/r⌉) are left; old signals count as twice the replicas. One or
// more of them are homes: the endpoints where the beginning of the prompt scores highest in a hash, the same for all replicas,
// so that caches stay warm (rendezvous hashing); the others are drawn at random. All are left while this is the only
// replica and its signals are fresh, and below four candidates.
//
// A prompt's beginning is its first 1, 4, 16, 64 … blocks, the longest of these that it has: its first home. That of the next
// shorter one is its second, so that a conversation that grows finds the home that it had.
type TwoChoice struct {
	// Replicas is how many pickers decide for the pool at a time, this one included.
	Replicas int `json:"replicas" schema:"min=1,max=1000"`

	// OldAfterMs is the age of the median sample, in milliseconds, from which on signals are old; never scraped is old too. 0:
	// they never are.
	OldAfterMs int64 `json:"oldAfterMs" schema:"min=0"`

	// Homes is how many of those left are homes, at most; one at least is drawn.
	Homes int `json:"homes" schema:"min=0,max=2"`

	hashes plugins.RequestValue[[]uint64]
	ages   plugins.EndpointValues[int64]
}

var _ plugins.Filter = (*TwoChoice)(nil)

// NewTwoChoice returns a TwoChoice with its defaults.
func NewTwoChoice() *TwoChoice { return &TwoChoice{Replicas: 1, OldAfterMs: 10_000, Homes: 1} }

// Provision says what Filter reads.
func (f *TwoChoice) Provision(b *plugins.Builder) error {
	f.hashes, f.ages = plugins.Needs(b, plugins.BlockHashes), plugins.Needs(b, plugins.SampleAges)
	if f.Replicas == 1 && f.OldAfterMs == 0 {
		b.Warn("replicas", "replicas is 1 and oldAfterMs 0, so that all candidates are always left; set one of them, or remove the filter")
	}
	return nil
}

// fewest is the number of candidates below which choosing among fewer gains nothing.
const fewest = 4

// Filter clears the bits of those that were not drawn.
func (f *TwoChoice) Filter(c *plugins.Cycle, keep plugins.Bits) {
	n := len(c.Candidates)
	if n < fewest {
		return
	}
	among := f.Replicas
	if f.old(c) {
		c.Note(reason.SignalsOld, "")
		among *= 2
	}
	d := max(2, (n+among-1)/among)
	if d >= n {
		return
	}
	for i := range n {
		keep.Clear(i)
	}
	left := d
	hashes := f.hashes.Of(c.Request)
	for depth, homes := deepest(len(hashes)), min(f.Homes, d-1); homes > 0 && depth > 0; depth, homes = depth/4, homes-1 {
		if i := home(c, hashes[depth-1]); !keep.Has(i) {
			keep.Add(i)
			left--
		}
	}
	draw(c.Rand(), keep, n, left)
}

// old reports whether half of the candidates' samples or more are old.
func (f *TwoChoice) old(c *plugins.Cycle) bool {
	if f.OldAfterMs == 0 {
		return false
	}
	ages, old := f.ages.Of(c), 0
	for _, id := range c.Candidates {
		if a := ages[id]; a == plugins.Unknown || a >= f.OldAfterMs {
			old++
		}
	}
	return 2*old >= len(c.Candidates)
}

// deepest returns the largest power of four up to n, 0 for none.
func deepest(n int) int {
	depth := 0
	for next := 1; next <= n; next *= 4 {
		depth = next
	}
	return depth
}

// home returns the index of the candidate whose address and the prefix hash highest together.
func home(c *plugins.Cycle, prefix uint64) int {
	best, at := uint64(0), 0
	for i, id := range c.Candidates {
		addr := c.Snapshot.Slots[id].Addr
		bytes := addr.Addr().As16()
		h := mixed(mixed(prefix^binary.BigEndian.Uint64(bytes[:8])) ^ binary.BigEndian.Uint64(bytes[8:]) + uint64(addr.Port())<<1)
		if i == 0 || h > best {
			best, at = h, i
		}
	}
	return at
}

// mixed is the finalizer of splitmix64: each bit of the outcome depends on each of z.
func mixed(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// draw adds so many of the n that are not kept yet, each as likely as any other (selection sampling, Knuth 3.4.2 S).
func draw(random *rand.Rand, keep plugins.Bits, n, count int) {
	open := 0
	for i := range n {
		if !keep.Has(i) {
			open++
		}
	}
	for i := 0; i < n && count > 0; i++ {
		if keep.Has(i) {
			continue
		}
		if random.IntN(open) < count {
			keep.Add(i)
			count--
		}
		open--
	}
}
