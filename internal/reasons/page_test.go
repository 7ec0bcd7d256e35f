package reasons

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/cli"
)

// TestTheReferencePageIsThatOfTheTable: docs/reference holds what the code prints, and nothing else.
func TestTheReferencePageIsThatOfTheTable(t *testing.T) {
	printed, kept := t.TempDir(), filepath.Join("..", "..", "docs", "reference")
	if code := cli.Main(catalog.Builtin(), []string{"docs", printed}); code != 0 {
		t.Fatalf("fairlead docs ended with %d", code)
	}
	pages := map[string]bool{}
	for _, dir := range []string{printed, kept} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			pages[e.Name()] = true
		}
	}
	if len(pages) == 0 {
		t.Error("there is no page")
	}
	for page := range pages {
		want, err := os.ReadFile(filepath.Join(printed, page))
		if err != nil {
			t.Errorf("%s is printed by nobody", page)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(kept, page)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is stale (%v): make generate", page, err)
		}
	}
}
