package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// groupHeader heads the figures of classes and tenants, behind their name.
var groupHeader = []string{"offered", "refused", "goodput", "TTFT p50", "p99", "ITL p99", "served tokens", "refused or failed by"}

// groupRow is the line of one class or tenant, the same one in several runs: counts are summed, shares and times averaged.
func groupRow(name string, of []bench.Group) []string {
	var offered, refused, tokens int64
	reasons := map[string]int{}
	mean := func(value func(*bench.Group) bench.Number) bench.Number {
		var v []float64
		for i := range of {
			v = append(v, float64(value(&of[i])))
		}
		return bench.Number(compare.Mean(v))
	}
	for i := range of {
		offered, refused, tokens = offered+int64(of[i].Offered), refused+int64(of[i].Refused), tokens+of[i].Tokens
		for why, n := range of[i].Reasons {
			reasons[why] += n
		}
	}
	var why []string
	for _, r := range slices.Sorted(keys(reasons)) {
		why = append(why, fmt.Sprintf("%s %d", r, reasons[r]))
	}
	return []string{
		name, fmt.Sprint(offered), fmt.Sprint(refused), percent(mean(func(g *bench.Group) bench.Number { return g.Goodput })),
		duration(mean(func(g *bench.Group) bench.Number { return g.TTFT.P50 })), duration(mean(func(g *bench.Group) bench.Number { return g.TTFT.P99 })),
		duration(mean(func(g *bench.Group) bench.Number { return g.ITL.P99 })), fmt.Sprint(tokens), strings.Join(why, ", "),
	}
}

// groupTable are the classes or the tenants of a scenario, under each policy.
type groupTable struct {
	what string
	rows [][]string
}

// maxGroups is how many classes or tenants a comparison lists; JSON has all.
const maxGroups = 16

// groups returns the tables of a scenario with several classes or tenants.
func groups(c *compare.Cell) []groupTable {
	var out []groupTable
	for _, of := range []struct {
		what string
		get  func(*bench.Figures) []bench.Group
	}{{"class", func(f *bench.Figures) []bench.Group { return f.Classes }}, {"tenant", func(f *bench.Figures) []bench.Group { return f.Tenants }}} {
		n := len(of.get(c.Arms[0].Runs[0]))
		if n == 0 || n > maxGroups {
			continue
		}
		t := groupTable{what: of.what}
		for g := range n {
			for k := range c.Arms {
				var same []bench.Group
				for _, f := range c.Arms[k].Runs {
					if list := of.get(f); g < len(list) {
						same = append(same, list[g])
					}
				}
				if len(same) > 0 {
					t.rows = append(t.rows, groupRow(same[0].Name+" under "+c.Arms[k].Policy, same))
				}
			}
		}
		out = append(out, t)
	}
	return out
}
