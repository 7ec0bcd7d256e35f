package filters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

// aged is a world of n endpoints with samples of this age, "" for none, and a prompt of these block hashes.
func aged(n int, age string, hashes ...uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "block-hashes=%s |", strings.ReplaceAll(fmt.Sprint(hashes), " ", ","))
	for i := range n {
		fmt.Fprintf(&b, " e%d", i)
		if age != "" {
			fmt.Fprintf(&b, " sample-age=%s", age)
		}
		b.WriteByte(';')
	}
	return strings.TrimSuffix(b.String(), ";")
}

func twoChoice(change func(*filters.TwoChoice)) *filters.TwoChoice {
	f := filters.NewTwoChoice()
	if change != nil {
		change(f)
	}
	return f
}

func replicas(n int) func(*filters.TwoChoice) { return func(f *filters.TwoChoice) { f.Replicas = n } }

func TestHowManyAreLeft(t *testing.T) {
	for _, r := range []struct {
		name   string
		change func(*filters.TwoChoice)
		world  string
		want   int
	}{
		{"this is the only replica, and its signals are fresh", nil, aged(16, "900", 1), 16},
		{"its signals are old to the millisecond", nil, aged(16, "10000", 1), 8},
		{"nearly", nil, aged(16, "9999", 1), 16},
		{"never scraped is old", nil, aged(16, "", 1), 8},
		{"they never are", func(f *filters.TwoChoice) { f.OldAfterMs, f.Replicas = 0, 1 }, aged(16, "", 1), 16},
		{"four replicas", replicas(4), aged(16, "900", 1), 4},
		{"four replicas with old signals", replicas(4), aged(16, "20000", 1), 2},
		{"three replicas, rounded up", replicas(3), aged(16, "900", 1), 6},
		{"two at least", replicas(100), aged(16, "900", 1), 2},
		{"three candidates", replicas(100), aged(3, "900", 1), 3},
		{"four candidates", replicas(4), aged(4, "900", 1), 2},
		{"no prompt, no home", replicas(4), aged(16, "900"), 4},
		{"all are drawn", func(f *filters.TwoChoice) { f.Replicas, f.Homes = 4, 0 }, aged(16, "900", 1, 2, 3, 4), 4},
		{"two homes of two are one, as one is drawn", func(f *filters.TwoChoice) { f.Replicas, f.Homes = 8, 2 }, aged(16, "900", 1, 2, 3, 4), 2},
	} {
		if got := pluginstest.Filter(t, twoChoice(r.change), r.world); len(got) != r.want {
			t.Errorf("%s: %d are left, want %d: %v", r.name, len(got), r.want, got)
		}
	}
}

// left counts how often each of 16 endpoints is left, of so many requests with this prompt.
func left(t *testing.T, f func() *filters.TwoChoice, requests int, hashes ...uint64) map[string]int {
	t.Helper()
	count := map[string]int{}
	for n := range uint64(requests) {
		for _, name := range pluginstest.Filter(t, f(), aged(16, "900", hashes...), pluginstest.Number(n)) {
			count[name]++
		}
	}
	return count
}

// homes are those that were always left.
func homes(count map[string]int, requests int) (names []string) {
	for name, n := range count {
		if n == requests {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestHomesAreStableAndTheOthersAreNot(t *testing.T) {
	const requests = 300
	one := func() *filters.TwoChoice { return twoChoice(replicas(4)) }
	count := left(t, one, requests, 11, 12, 13, 14)
	home := homes(count, requests)
	if len(home) != 1 || len(count) != 16 {
		t.Errorf("always left: %v, ever left: %d of 16", home, len(count))
	}
	for name, n := range count { // each of 15 others is drawn with 3/15
		if name != home[0] && (n < 35 || n > 90) {
			t.Errorf("%s was drawn %d times of %d, want about 60", name, n, requests)
		}
	}
	if got := homes(left(t, one, requests, 11, 12, 13, 14, 15, 16, 17), requests); !slices.Equal(got, home) {
		t.Errorf("with three more blocks the home is %v; it was %v", got, home)
	}
	spread := map[string]bool{}
	for prompt := range uint64(60) {
		spread[homes(left(t, one, 40, prompt+100), 40)[0]] = true
	}
	if len(spread) < 12 {
		t.Errorf("60 prompts have %d homes of 16", len(spread))
	}
}

// A conversation that outgrows a power of four keeps its home as the second.
func TestAGrowingPromptKeepsItsHome(t *testing.T) {
	const requests = 100
	two := func() *filters.TwoChoice { f := twoChoice(replicas(4)); f.Homes = 2; return f }
	var chain []uint64
	for i := range uint64(16) {
		chain = append(chain, 1000+i*i)
	}
	short, long := homes(left(t, two, requests, chain[:15]...), requests), homes(left(t, two, requests, chain...), requests)
	kept := 0
	for _, name := range short {
		if slices.Contains(long, name) {
			kept++
		}
	}
	if len(short) == 0 || len(long) == 0 || kept == 0 {
		t.Errorf("homes of 15 blocks: %v, of 16: %v", short, long)
	}
}
