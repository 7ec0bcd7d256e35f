package extproc

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// What a gateway declares says what the exchange may rely on.
func TestWhatAGatewayDeclares(t *testing.T) {
	for _, tt := range []struct {
		name, tokens                 string
		logs, logsUsage, chooses, fb bool
		sees                         plugins.Parts
	}{
		{"nothing", "", false, false, false, false, plugins.FirstByte},
		{"edges.yaml", "fallbacks,access-log,trailers-route", true, false, false, true, plugins.FirstByte},
		{"override.yaml", "override,fallbacks,access-log,trailers-route", true, false, true, true, plugins.FirstByte | plugins.Usage | plugins.Chunks | plugins.Rewrite},
		{"usage.yaml", "override, fallbacks, access-log, token-usage, trailers-route", true, true, true, true, plugins.FirstByte | plugins.Usage | plugins.Chunks | plugins.Rewrite},
		{"usage without a log to carry it", "token-usage", false, false, false, false, plugins.FirstByte},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := readDeclared(slices.Values([]string{tt.tokens}))
			m := modes{request: streamed, response: none, overrides: d.override}
			v := m.via(d)
			if v.Logs != tt.logs || v.LogsUsage != tt.logsUsage || v.Chooses != tt.chooses || v.Fallbacks != tt.fb || v.Sees != tt.sees {
				t.Errorf("%+v", v)
			}
		})
	}
}
