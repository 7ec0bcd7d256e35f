package scorers_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func headerLabel(header string) *scorers.HeaderLabel {
	h := scorers.NewHeaderLabel()
	h.HeaderName, h.LabelKey = header, "tenant"
	return h
}

func TestHeaderLabel(t *testing.T) {
	check(t, func() plugins.Scorer { return headerLabel("X-Tenant") }, []row{
		{"the label has the header's value", "header.x-tenant=red | a label.tenant=red; b label.tenant=blue; c", []float64{1, 0, 0}},
		{"nobody has it", "header.x-tenant=green | a label.tenant=red; b", []float64{0, 0}},
		{"all have it", "header.x-tenant=red | a label.tenant=red; b label.tenant=red", []float64{1, 1}},
		{"without the header an empty label is no match", `a label.tenant=""; b`, []float64{0, 0}},
	})
}

func TestHeaderLabelRefusesSecrets(t *testing.T) {
	_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "it", Type: "it", Construct: func() (any, error) { return headerLabel("Authorization"), nil }}}}, nil)
	if err == nil || !strings.Contains(err.Error(), `headerName is "Authorization", a header that carries secrets`) {
		t.Error(err)
	}
}
