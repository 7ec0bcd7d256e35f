package discovery

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
)

func TestApply(t *testing.T) {
	parse := func(s string) []Entry {
		t.Helper()
		entries, problems := Parse([]byte(s), "f")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return entries
	}
	const (
		a  = "- {name: a, address: 10.0.0.1, port: 80}\n"
		ax = "- {name: a, address: 10.0.0.1, port: 80, pool: x}\n"
		ay = "- {name: a, address: 10.0.0.1, port: 80, pool: y}\n"
		bx = "- {name: b, address: 10.0.0.2, port: 80, pool: x}\n"
		bz = "- {name: b, address: 10.0.0.2, port: 80, pool: z}\n"
	)
	tests := []struct {
		name, entries string
		pools         []string
		want          []string // members by pool
		problem       string
	}{
		{"without a pool it goes to the only one", a, []string{"x"}, []string{"a"}, ""},
		{"by name, the same endpoint in two", ax + bx + ay, []string{"x", "y"}, []string{"a b", "a"}, ""},
		{"a pool without entries becomes empty", ay, []string{"x", "y"}, []string{"", "a"}, ""},
		{"no pool named, and two to choose from", a, []string{"x", "y"}, []string{"old", "old"}, `f:2:3: endpoint default/a names no pool, and there are 2; add pool: with one of "x", "y"`},
		{"a pool that is not there", bz, []string{"x", "y"}, []string{"old", "old"}, `f:2:3: endpoint default/b: there is no pool "z"; known are "x", "y"`},
		{"named and unnamed are the same in the only pool", a + ax, []string{"x"}, []string{"old"}, "f:3:3: endpoint default/a was already given at line 2; give it another name, or remove one of the two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pools []*pool.Pool
			for _, n := range tt.pools {
				p := pool.New(n, nil)
				p.Update(0, []pool.Endpoint{ends("old", "10.9.9.9:80").Endpoint})
				pools = append(pools, p)
			}
			problems := Apply(1, parse("endpoints:\n"+tt.entries), pools)
			if tt.problem == "" && len(problems) > 0 || tt.problem != "" && (len(problems) != 1 || problems[0].Error() != tt.problem) {
				t.Errorf("problems %v, want %q", problems, tt.problem)
			}
			for i, p := range pools {
				if got := memberNames(p); got != tt.want[i] {
					t.Errorf("pool %s has %q, want %q", p.Name, got, tt.want[i])
				}
			}
		})
	}
}
