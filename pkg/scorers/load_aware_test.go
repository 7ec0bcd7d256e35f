package scorers_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestLoadAware(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewLoadAware() }, []row{
		{"without a queue an endpoint scores 0.5, the most there is", "a queued=0", []float64{0.5}},
		// 0.5*(1 - 64/128)
		{"half the threshold is half of it", "a queued=0; b queued=64; c queued=128", []float64{0.5, 0.25, 0}},
		{"beyond the threshold is as bad as the threshold", "a queued=128; b queued=5000", []float64{0, 0}},
		{"all equal", "a queued=32; b queued=32", []float64{0.375, 0.375}},
		{"never scraped counts as the mean of those that were", "a queued=0; b; c queued=128", []float64{0.5, 0.25, 0}},
		{"all unknown are equal", "a; b", []float64{0.5, 0.5}},
	})
	check(t, func() plugins.Scorer { l := scorers.NewLoadAware(); l.Threshold = 1; return l }, []row{
		{"the least threshold", "a queued=0; b queued=1", []float64{0.5, 0}},
	})
}

// docs/plugins.md shows the file as it is.
func TestTheDocumentationShowsThisScorer(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("load_aware.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(source)+"```") {
		t.Error("docs/plugins.md shows another load_aware.go; copy it anew")
	}
}
