package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/scenario"
)

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := scenario.Run(file, string(script)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatIsWrongIsSaidWithItsLine(t *testing.T) {
	for _, r := range []struct{ name, script, want string }{
		{"another spread", "pool a b waiting=0\nburst 4\npicked a=3 b=1", "x.txt:3: picked: got a=2 b=2, want a=3 b=1"},
		{"books that are not zero", "pool a\nsend\nbooks zero", "x.txt:3: books: got a=1, want nothing"},
		{"a refusal where a pick was expected", "pool\nsend\npicked a", "x.txt:3: picked: requests were refused: no_endpoint=1"},
		{"an unknown command", "pool a\ndance", "x.txt:2: dance: there is no such command"},
		{"a command before the pool", "burst 1", "x.txt:1: burst: a pool must stand before it"},
		{"a profile behind the pool", "pool a\nprofile random-picker", "x.txt:2: profile: it must stand before the first pool"},
		{"an unknown plugin", "profile guess-scorer\npool a", `x.txt:2: pool: profile: no plugin has the type "guess-scorer"`},
		{"an unknown field", "pool a depth=3", `x.txt:1: pool: a sample has no field "depth"`},
		{"a sample of nobody", "pool a\nsample b waiting=1", `x.txt:2: sample: "b" is no member`},
		{"more than there are", "pool a\nsend\nfinish 2", `x.txt:3: finish: "2" is neither all nor last nor a number of the 1 requests under way`},
		{"no number", "pool a\nburst many", `x.txt:2: burst: "many" is no number here`},
		{"another list", "pool a\nsend\nlisted b", "x.txt:3: listed: got a, want b"},
		{"an unknown reason", "pool a\nsend\nnoted gossip=1", `x.txt:3: noted: no reason has the code "gossip"`},
		{"totals", "pool a waiting=0\nsend\ntotals a=1", "x.txt:3: totals: got a=2, want a=1"},
		{"cached", "pool a waiting=0\nsend\ncached a=1", "x.txt:3: cached: got a=0, want a=1"},
	} {
		t.Run(r.name, func(t *testing.T) {
			err := scenario.Run("x.txt", r.script)
			if err == nil || err.Error() != r.want {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}
