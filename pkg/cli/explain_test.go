package cli

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func TestASecondLookIsExplained(t *testing.T) {
	first := &plugins.Candidate{Name: "ns/a", Address: netip.MustParseAddrPort("192.0.2.1:8000")}
	for _, row := range []struct {
		name   string
		second *exchange.SecondLook
		want   string
	}{
		{"decided at one look", nil, ""},
		{"its choice stood", &exchange.SecondLook{Held: 1_061_234}, "held      1.061ms for what other replicas choose\n"},
		{"decided anew", &exchange.SecondLook{Held: 2 * time.Millisecond, First: first, Met: "another replica chose it"},
			"held      2ms for what other replicas choose; decided anew, the first choice was ns/a (192.0.2.1:8000): another replica chose it\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b strings.Builder
			printHead(&b, &exchange.Record{Second: row.second})
			if got := b.String(); strings.Contains(got, "held ") != (row.want != "") || !strings.Contains(got, row.want) {
				t.Errorf("it says\n%s\nwant the line %q", got, row.want)
			}
		})
	}
}
