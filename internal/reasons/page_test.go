package reasons

import (
	"bytes"
	"io/fs"
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
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			page, err := filepath.Rel(dir, name)
			pages[page] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
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
