package filters_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestTopologyAffinity(t *testing.T) {
	const world = `a locality={"host":"h1","rack":"r1","zone":"z1","region":"g"}; b locality={"host":"h2","rack":"r1","zone":"z1","region":"g"};
		c locality={"host":"h3","rack":"r2","zone":"z1","region":"g"}; d locality={"host":"h4","rack":"r3","zone":"z2","region":"g"}; e`
	own := &plugins.Locality{Host: "h1", Rack: "r1", Zone: "z1", Region: "g"}
	filter := func(least string, own *plugins.Locality) func() plugins.Filter {
		return func() plugins.Filter {
			f := filters.NewTopologyAffinity()
			f.MinAffinity, f.Own = least, own
			return f
		}
	}
	check(t, filter("host", own), []row{{"one host", world, "a"}})
	check(t, filter("rack", own), []row{{"one rack", world, "a b"}})
	check(t, filter("zone", own), []row{{"one zone", world, "a b c"}})
	check(t, filter("region", own), []row{{"one region", world, "a b c d"}})
	check(t, filter("host", &plugins.Locality{Host: "elsewhere"}), []row{{"nobody is near enough: all stay", world, "a b c d e"}})
	check(t, filter("host", nil), []row{{"nothing to be near to: all stay", world, "a b c d e"}, {"nothing is known", "a; b", "a b"}})
}
