package filters

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// LabelSelector keeps the endpoints whose labels match a Kubernetes label selector (metav1.LabelSelector): every label
// of matchLabels and every expression of matchExpressions must hold. An empty selector keeps all.
type LabelSelector struct {
	// MatchLabels are labels that an endpoint must have with exactly these values.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// MatchExpressions are conditions that must hold besides.
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`

	labels plugins.EndpointValues[map[string]string]
	all    []LabelExpression // both in one form, in a fixed order
}

// LabelExpression is one condition on one label.
type LabelExpression struct {
	// Key is the label's name.
	Key string `json:"key" schema:"required"`

	// Operator is In, NotIn, Exists or DoesNotExist. An endpoint without the label meets NotIn and DoesNotExist.
	Operator string `json:"operator" schema:"required,enum=In|NotIn|Exists|DoesNotExist"`

	// Values are what In and NotIn compare with; at least one for them, none for the others.
	Values []string `json:"values,omitempty"`
}

var _ plugins.Filter = (*LabelSelector)(nil)

// NewLabelSelector returns a LabelSelector that keeps all.
func NewLabelSelector() *LabelSelector { return &LabelSelector{} }

// Provision says what Filter reads, and refuses keys, operators and values that no label can have.
func (f *LabelSelector) Provision(b *plugins.Builder) error {
	f.labels = plugins.Needs(b, plugins.Labels)
	f.all = nil
	var errs []error
	for key, value := range f.MatchLabels {
		f.all = append(f.all, LabelExpression{Key: key, Operator: "In", Values: []string{value}})
	}
	slices.SortFunc(f.all, func(a, b LabelExpression) int { return strings.Compare(a.Key, b.Key) })
	for i := range f.all {
		errs = append(errs, prefixed("matchLabels", f.all[i].check()))
	}
	for i, e := range f.MatchExpressions {
		errs = append(errs, prefixed(fmt.Sprintf("matchExpressions[%d]", i), e.check()))
		f.all = append(f.all, e)
	}
	return errors.Join(errs...)
}

// Filter clears the bit of every candidate whose labels do not match.
func (f *LabelSelector) Filter(c *plugins.Cycle, keep plugins.Bits) {
	labels := f.labels.Of(c)
	for i, id := range c.Candidates {
		for e := range f.all {
			if !f.all[e].holds(labels[id]) {
				keep.Clear(i)
				break
			}
		}
	}
}

func (e *LabelExpression) holds(labels map[string]string) bool {
	value, has := labels[e.Key]
	switch e.Operator {
	case "In":
		return has && slices.Contains(e.Values, value)
	case "NotIn":
		return !has || !slices.Contains(e.Values, value)
	case "Exists":
		return has
	default:
		return !has
	}
}

func prefixed(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", where, err)
}

func (e *LabelExpression) check() error {
	if err := plugins.LabelName("key", e.Key); err != nil {
		return err
	}
	switch e.Operator {
	case "In", "NotIn":
		if len(e.Values) == 0 {
			return fmt.Errorf("operator %s of label %q has no values; give at least one", e.Operator, e.Key)
		}
	case "Exists", "DoesNotExist":
		if len(e.Values) != 0 {
			return fmt.Errorf("operator %s of label %q has values %q; it takes none", e.Operator, e.Key, e.Values)
		}
	default:
		return fmt.Errorf("operator of label %q is %q; one of In, NotIn, Exists, DoesNotExist", e.Key, e.Operator)
	}
	for _, v := range e.Values {
		if !plugins.IsLabelValue(v) {
			return fmt.Errorf("value %q of label %q cannot be a label's value: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit", v, e.Key)
		}
	}
	return nil
}

// Structural says that what is removed can never serve.
func (*LabelSelector) Structural() {}
