package plugins_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestLabelName(t *testing.T) {
	for _, r := range []struct {
		name string
		ok   bool
	}{
		{"gpu", true}, {"nvidia.com/gpu.product", true}, {"a_b", true}, {strings.Repeat("a", 63), true}, {"x/" + strings.Repeat("a", 63), true},
		{"", false}, {"bad label!!", false}, {"a b", false}, {"-a", false}, {"a.", false}, {"/a", false}, {"a/", false}, {"a/b/c", false}, {"A.com/b", false},
		{"a_b.com/c", false}, {strings.Repeat("a", 64), false}, {strings.Repeat("a.", 130) + "a/b", false}, {"a..b/c", false},
	} {
		err := plugins.LabelName("product", r.name)
		if ok := err == nil; ok != r.ok || err != nil && !strings.HasPrefix(err.Error(), "product ") {
			t.Errorf("%q: %v, want it to pass: %v", r.name, err, r.ok)
		}
	}
}
