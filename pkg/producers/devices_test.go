package producers

import (
	"os"
	"strings"
	"testing"
)

// TestEveryDeviceHasItsPlaceInTheDocumentation: what an annotation may name is written down, and means what it says.
func TestEveryDeviceHasItsPlaceInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/pools.md")
	if err != nil {
		t.Fatal(err)
	}
	products := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		if !strings.Contains(string(text), "`"+d.class+"`") {
			t.Errorf("docs/pools.md does not name the class %s", d.class)
		}
		if c, ok := classNamed(d.class); !ok || c != d.whole() {
			t.Errorf("the class %s is not found by its name", d.class)
		}
		for _, p := range d.products {
			if products[p] {
				t.Errorf("the product %s is of two devices", p)
			}
			products[p] = true
		}
		for _, s := range d.slices {
			if s.share <= 0 || s.share > 1 || s.memory < 1 || s.memory > 8 {
				t.Errorf("%s cannot be cut into %+v", d.class, s)
			}
		}
	}
}
