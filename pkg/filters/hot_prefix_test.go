package filters_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestHotPrefix(t *testing.T) {
	check(t, func() plugins.Filter { return filters.NewHotPrefix() }, []row{
		{"who gets the copy stays alone", "a deliberate-copy=false; b deliberate-copy=true; c", "b"},
		{"nobody gets one: all stay", "a deliberate-copy=false; b", "a b"},
		{"nobody says", "a; b", "a b"},
		{"one alone", "a deliberate-copy=true", "a"},
	})
}
