package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// HeaderLabel prefers endpoints whose label has the value of a header of the request: 1 where they are equal, else 0. A
// request without the header, or with an empty one, scores 0 everywhere.
type HeaderLabel struct {
	// HeaderName is the header whose value is looked for.
	HeaderName string `json:"headerName" schema:"required,min=1,max=256"`

	// LabelKey is the label that is compared with it.
	LabelKey string `json:"labelKey" schema:"required,min=1,max=317"`

	header plugins.RequestValue[string]
	labels plugins.EndpointValues[map[string]string]
}

var _ plugins.Scorer = (*HeaderLabel)(nil)

// NewHeaderLabel returns a HeaderLabel; both parameters must be given.
func NewHeaderLabel() *HeaderLabel { return &HeaderLabel{} }

// Provision says what Score reads, and refuses what is no header's or label's name.
func (h *HeaderLabel) Provision(b *plugins.Builder) error {
	name, err := plugins.HeaderName("headerName", h.HeaderName)
	if err != nil {
		return err
	}
	if err := plugins.LabelName("labelKey", h.LabelKey); err != nil {
		return err
	}
	h.header = plugins.Needs(b, plugins.HeaderValue(name))
	h.labels = plugins.Needs(b, plugins.Labels)
	return nil
}

// Score writes one score per candidate into out.
func (h *HeaderLabel) Score(c *plugins.Cycle, out []float64) {
	want := h.header.Of(c.Request)
	if want == "" {
		return
	}
	labels := h.labels.Of(c)
	for i, id := range c.Candidates {
		if labels[id][h.LabelKey] == want {
			out[i] = 1
		}
	}
}
