package telemetry

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// canonical returns the lines of a page that are read, as Prometheus' own parser understands them and in the plain form of
// the text format. ok is false where that parser refuses the page too. It costs some ten times a Scan, and memory.
func (t *table) canonical(page []byte) (lines []byte, ok bool) {
	defer func() { // the parser panics on some names in quotes
		if recover() != nil {
			lines, ok = nil, false
		}
	}()
	if n := len(page); n > 0 && page[n-1] != '\n' { // which the parser refuses
		page = append(page[:n:n], '\n')
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, false
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(t.lines)) {
		f := families[name]
		if base, ok := strings.CutSuffix(name, "_count"); ok && f == nil {
			f = families[base] // its sum comes with it
		}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE, dto.MetricType_COUNTER, dto.MetricType_UNTYPED:
			if len(f.GetMetric()) == 0 {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() { // names that need quotes get others, which differ where the names did
					plain := model.EscapeName(l.GetName(), model.ValueEncodingEscaping)
					l.Name = &plain
				}
			}
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				return nil, false
			}
		}
	}
	return out.Bytes(), true
}
