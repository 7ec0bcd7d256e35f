package kvindex

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/pool"
)

const roomy = 64 * 1000 // tokens

// matched is what one endpoint is believed to hold of a chain.
func matched(x *Approximate, s *pool.Snapshot, id pool.ID, chain []uint64) int {
	out := make([]int32, len(s.Slots))
	x.Match(s, s.Members, chain, out)
	return int(out[id])
}

// Chains that share a beginning and then differ, by name.
func branch(name uint64, shared, own int) []uint64 {
	out := chain(1, shared)
	for i := range uint64(own) {
		out = append(out, name<<32|i)
	}
	return out
}

func TestAClaimIsMatchedBeforeItIsWritten(t *testing.T) {
	x, s := &Approximate{}, uniform(2)
	c := x.Claim(s.Slots[1].Ref, branch(7, 10, 5), 64, roomy, 0, 0, 0)
	for _, r := range []struct {
		name  string
		chain []uint64
		want  int
	}{
		{"the same prompt", branch(7, 10, 5), 15},
		{"a longer one", branch(7, 10, 9), 15},
		{"a shorter one", branch(7, 10, 2), 12},
		{"a sibling", branch(8, 10, 5), 10},
		{"a stranger", chain(3, 5), 0},
		{"none", nil, 0},
	} {
		if got := matched(x, s, 1, r.chain); got != r.want || matched(x, s, 0, r.chain) != 0 {
			t.Errorf("%s: matched %d blocks, want %d", r.name, got, r.want)
		}
	}
	if n := x.Blocks(s.Slots[1].Ref); n != 0 {
		t.Errorf("%d blocks are written already", n)
	}
	x.Write(c)
	if n := x.Blocks(s.Slots[1].Ref); n != 15 || matched(x, s, 1, branch(8, 10, 5)) != 10 {
		t.Errorf("%d blocks are written, want 15", n)
	}
}

func TestAClaimOfWhoLeftIsNotMatched(t *testing.T) {
	x, s := &Approximate{}, membership(1, 1, 1)
	x.Claim(s.Slots[1].Ref, chain(1, 5), 64, roomy, 0, 0, 0)
	if n := matched(x, membership(2, 1, 2), 1, chain(1, 5)); n != 0 {
		t.Errorf("a restarted engine holds %d blocks", n)
	}
}

func TestAClaimLapsesWhereNobodyAnswers(t *testing.T) {
	x, s := &Approximate{}, uniform(1)
	to := s.Slots[0].Ref
	first := x.Claim(to, chain(1, 5), 64, roomy, 0, 5, 10)
	x.Write(first)
	if n := x.Lapse(1000); n != 0 || x.Blocks(to) != 5 {
		t.Errorf("%d lapsed, though nobody ever sees answers", n)
	}
	other := claimed(x, to, chain(2, 3), roomy)
	x.Confirm(other)
	if n := x.Lapse(9); n != 0 {
		t.Errorf("%d lapsed before their time", n)
	}
	if n := x.Lapse(10); n != 1 || x.Blocks(to) != 3 {
		t.Errorf("%d lapsed, %d blocks are held; want 1 and 3", n, x.Blocks(to))
	}
	x.Confirm(first)
	if n := x.Blocks(to); n != 8 {
		t.Errorf("%d blocks are held after the answer came late; want 8", n)
	}
	x.Release(first)
	x.Release(other)
	x.Release(other)
	if x.Claims() != 0 || x.Blocks(to) != 8 {
		t.Errorf("%d claims, %d blocks are left; want 0 and 8", x.Claims(), x.Blocks(to))
	}
}

func TestAClaimIsTakenBackBeforeItsPromptIsComputed(t *testing.T) {
	for _, r := range []struct {
		after int64
		want  int
	}{{29, 0}, {30, 5}} {
		x, to := &Approximate{}, uniform(1).Slots[0].Ref
		c := x.Claim(to, chain(1, 5), 64, roomy, 100, 130, 0)
		x.Write(c)
		x.Confirm(c)
		x.TakeBackBefore(c, time.Duration(r.after))
		if n := x.Blocks(to); n != r.want {
			t.Errorf("broken off after %d of 30: %d blocks are held, want %d", r.after, n, r.want)
		}
	}
}

// A claim that is taken back leaves to others what they have in common with it, whichever goes first; after all are gone
// nothing is left.
func TestWhatIsCommonStaysUntilTheLastIsTakenBack(t *testing.T) {
	chains := [][]uint64{branch(1, 10, 4), branch(2, 10, 2), branch(3, 6, 3), chain(1, 10)}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			x, s := &Approximate{}, uniform(1)
			var claims []Claim
			for _, c := range chains {
				claims = append(claims, claimed(x, s.Slots[0].Ref, c, roomy))
			}
			for n, i := range order {
				x.TakeBack(claims[i])
				for _, j := range order[n+1:] {
					if got := matched(x, s, 0, chains[j]); got != len(chains[j]) {
						t.Errorf("after %d of them, %d holds %d blocks, want %d", n+1, j, got, len(chains[j]))
					}
				}
			}
			if n := x.Blocks(s.Slots[0].Ref); n != 0 {
				t.Errorf("%d blocks are left", n)
			}
		})
	}
}

// Whatever happens to claims, exactly what running and served requests have stays, and after all are over no claim is left.
func TestClaimsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, s := &Approximate{}, uniform(3)
		type one struct {
			h       Claim
			to      pool.ID
			chain   []uint64
			sure    bool
			written bool
		}
		var open, kept []one
		draw := func(t *rapid.T) int {
			if len(open) == 0 {
				t.Skip("nothing runs")
			}
			return rapid.IntRange(0, len(open)-1).Draw(t, "which")
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) {
				to := pool.ID(rapid.IntRange(0, 2).Draw(t, "endpoint"))
				c := path(t, 40)
				open = append(open, one{x.Claim(s.Slots[to].Ref, c, 64, 64<<20, 0, 0, 1), to, c, false, false})
			},
			"write": func(t *rapid.T) {
				i := draw(t)
				open[i].written = true
				x.Write(open[i].h)
			},
			"served": func(t *rapid.T) {
				i := draw(t)
				open[i].sure, open[i].written = true, true
				x.Confirm(open[i].h)
			},
			"served by another": func(t *rapid.T) {
				i := draw(t)
				if open[i].sure {
					t.Skip("it was served")
				}
				open[i].to, open[i].sure, open[i].written = pool.ID(rapid.IntRange(0, 2).Draw(t, "endpoint")), true, true
				x.Follow(open[i].h, s.Slots[open[i].to].Ref)
				x.Confirm(open[i].h)
			},
			"over": func(t *rapid.T) {
				i := draw(t)
				if open[i].sure && rapid.Bool().Draw(t, "cleanly") {
					kept = append(kept, open[i])
				} else {
					x.TakeBack(open[i].h)
				}
				x.Release(open[i].h)
				open = slices.Delete(open, i, i+1)
			},
			"": func(t *rapid.T) {
				c := path(t, 40)
				want := make([]int, 3)
				for _, o := range append(slices.Clone(open), kept...) {
					n := 0
					for n < len(c) && n < len(o.chain) && c[n] == o.chain[n] {
						n++
					}
					want[o.to] = max(want[o.to], n)
				}
				held := [3]map[uint64]bool{{}, {}, {}}
				for _, o := range append(slices.Clone(open), kept...) {
					for _, hash := range o.chain {
						if o.written {
							held[o.to][hash] = true
						}
					}
				}
				for id := range pool.ID(3) {
					if n := x.Blocks(s.Slots[id].Ref); n != len(held[id]) {
						t.Fatalf("endpoint %d holds %d blocks, want %d", id, n, len(held[id]))
					}
					if got := matched(x, s, id, c); got != want[id] {
						t.Fatalf("endpoint %d holds %d blocks, want %d", id, got, want[id])
					}
				}
				if n := x.Claims(); n != len(open) {
					t.Fatalf("%d claims, want %d", n, len(open))
				}
			},
		})
	})
}
