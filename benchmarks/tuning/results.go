package tuning

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
)

//go:embed results/*.json
var results embed.FS

// Record is a search as it is kept.
type Record struct {
	Commit     string `json:"commit"`
	Date       string `json:"date"`
	Candidates int    `json:"candidates"` // the first so many of Candidates
	Search
}

// Recorded returns the searches that are kept, by scenario in order of name.
func Recorded() ([]Record, error) {
	entries, err := results.ReadDir("results")
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := results.ReadFile(path.Join("results", e.Name()))
		if err != nil {
			return nil, err
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if len(r.Best) == 0 {
			return nil, fmt.Errorf("%s: nobody is left at the end", e.Name())
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.Scenario, b.Scenario) })
	return out, nil
}

func figures(s *bench.Setup, p policy.Policy, seed uint64) (*bench.Figures, error) {
	r, err := s.Run(p, seed, 0)
	if err != nil {
		return nil, err
	}
	return s.Figures(r), nil
}
