package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
)

// Every configuration that the documentation and the manifests show loads, builds, and gives no cause for a warning.
func TestConfigurationsInTheDocumentationLoad(t *testing.T) {
	root := filepath.Join("..", "..")
	shown := 0
	try := func(name, text string) {
		if !strings.Contains(text, "\nkind: "+config.Kind+"\n") {
			return
		}
		shown++
		file, problems := config.Load([]byte(text), name, catalog.Builtin())
		for _, p := range problems {
			t.Error(p)
		}
		if file != nil {
			if _, problems := file.Build(); len(problems) > 0 {
				t.Error(problems)
			}
		}
	}
	visit := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".md":
			for i, block := range strings.Split(string(data), "```") {
				if text, ok := strings.CutPrefix(block, "yaml\n"); ok && i%2 == 1 {
					try(name, text)
				}
			}
		case ".yaml":
			for text := range strings.SplitSeq(string(data), "\n---\n") {
				try(name, "\n"+text)
			}
		}
		return nil
	}
	for _, dir := range []string{"docs", "manifests", "README.md"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), visit); err != nil {
			t.Error(err)
		}
	}
	if shown < 2 {
		t.Errorf("only %d configurations found; README.md and docs/pools.md each show one", shown)
	}
}
