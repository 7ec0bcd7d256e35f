package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
)

// Gate is what must keep coming out: recorded verdicts, and bounds of figures.
type Gate struct {
	Seeds  int     `yaml:"seeds"`
	Seed   uint64  `yaml:"seed"`
	Checks []Check `yaml:"checks"`
}

// Check is one comparison. The verdict is that on Policy against Against.
type Check struct {
	Scenario string  `yaml:"scenario"`
	Policy   string  `yaml:"policy"`
	Against  string  `yaml:"against"`
	Verdict  Verdict `yaml:"verdict"`

	// AtLeast and AtMost bound means over the seeds, by metric; of the policy, not of what it is compared with.
	AtLeast map[string]float64 `yaml:"atLeast"`
	AtMost  map[string]float64 `yaml:"atMost"`
}

// Finding is what came of a check: empty Wrong is as recorded.
type Finding struct {
	Check
	Got   Verdict
	Wrong []string
}

// ReadGate reads a gate from a file. Policies that are files are taken from beside it.
func ReadGate(path string) (*Gate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	g := &Gate{Seeds: 10, Seed: 1}
	if err := d.Decode(g); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(g.Checks) == 0 {
		return nil, fmt.Errorf("%s: no checks; a gate without any lets everything pass", path)
	}
	for i := range g.Checks {
		c := &g.Checks[i]
		for _, name := range []*string{&c.Policy, &c.Against} {
			if beside := filepath.Join(filepath.Dir(path), *name); filepath.Ext(*name) != "" && !filepath.IsAbs(*name) {
				*name = beside
			}
		}
		known := map[string]bool{}
		for _, m := range Metrics() {
			known[m.Name] = true
		}
		for _, bounds := range []map[string]float64{c.AtLeast, c.AtMost} {
			for name := range bounds {
				if !known[name] {
					return nil, fmt.Errorf("%s: check %d: no metric %q", path, i, name)
				}
			}
		}
	}
	return g, nil
}

// Run makes the comparisons and says which come out otherwise than recorded.
func (g *Gate) Run(ctx context.Context, parallel int, progress func(done, of int)) ([]Finding, error) {
	var out []Finding
	for i, c := range g.Checks {
		s, err := bench.Load(c.Scenario)
		if err != nil {
			return nil, err
		}
		var policies []policy.Policy
		for _, name := range []string{c.Against, c.Policy} {
			p, err := policy.Named(name)
			if err != nil {
				return nil, err
			}
			policies = append(policies, p)
		}
		r, err := Run(ctx, Plan{Scenarios: []*bench.Setup{s}, Policies: policies, Seeds: g.Seeds, Seed: g.Seed, Parallel: parallel, NoCapacities: true})
		if err != nil {
			return nil, err
		}
		out = append(out, c.judge(&r.Cells[0].Arms[1]))
		if progress != nil {
			progress(i+1, len(g.Checks))
		}
	}
	return out, nil
}

func (c Check) judge(a *Arm) Finding {
	f := Finding{Check: c, Got: a.Verdict}
	if c.Verdict != "" && a.Verdict != c.Verdict {
		f.Wrong = append(f.Wrong, fmt.Sprintf("%s, recorded is %s", a.Verdict, c.Verdict))
	}
	for _, m := range Metrics() {
		v := Mean(values(a.Runs, m))
		if least, ok := c.AtLeast[m.Name]; ok && !(v >= least) {
			f.Wrong = append(f.Wrong, fmt.Sprintf("%s is %.4g, at least %.4g", m.Name, v, least))
		}
		if most, ok := c.AtMost[m.Name]; ok && !(v <= most) {
			f.Wrong = append(f.Wrong, fmt.Sprintf("%s is %.4g, at most %.4g", m.Name, v, most))
		}
	}
	return f
}
