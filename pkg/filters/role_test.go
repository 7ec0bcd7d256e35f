package filters_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestRoles(t *testing.T) {
	const world = `none; empty label.llm-d.ai/role=""; d label.llm-d.ai/role=decode; p label.llm-d.ai/role=prefill; e label.llm-d.ai/role=encode;
		pd label.llm-d.ai/role=prefill-decode; both label.llm-d.ai/role=both; ep label.llm-d.ai/role=encode-prefill;
		epd label.llm-d.ai/role=encode-prefill-decode; other label.llm-d.ai/role=Decode`
	for _, r := range []struct {
		name   string
		filter plugins.Filter
		want   string
	}{
		{"decode, and who has no role", filters.NewDecode(), "none d pd both epd"},
		{"prefill", filters.NewPrefill(), "p pd both ep epd"},
		{"encode", filters.NewEncode(), "e ep epd"},
	} {
		check(t, func() plugins.Filter { return r.filter }, []row{{r.name, world, r.want}, {r.name + ": nobody fits", "a label.llm-d.ai/role=x", ""}})
	}
}
