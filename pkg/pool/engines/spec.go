package engines

import (
	"fmt"
	"slices"
	"strings"
)

// Matcher demands a value of a label.
type Matcher struct{ Label, Value string }

// Spec names a series of a metrics page, or those of a name with certain labels.
type Spec struct {
	Name     string
	Matchers []Matcher // sorted by label
}

// ParseSpec reads a specification in the form of an instant vector selector: a name, and in braces labels with their
// values, in quotes or without: name{label=value, other="value"}. Only equality is known.
func ParseSpec(text string) (Spec, error) {
	rest := strings.TrimSpace(text)
	end := strings.IndexFunc(rest, func(c rune) bool { return !nameRune(c) && c != ':' })
	if end < 0 {
		end = len(rest)
	}
	s := Spec{Name: rest[:end]}
	if s.Name == "" || digit(rune(s.Name[0])) {
		return Spec{}, fmt.Errorf("%q does not begin with the name of a series; write name or name{label=value}", text)
	}
	rest = strings.TrimSpace(rest[end:])
	if rest == "" {
		return s, nil
	}
	inner, ok := strings.CutPrefix(rest, "{")
	if !ok {
		return Spec{}, fmt.Errorf("%q has %q behind its name; write name or name{label=value}", text, rest)
	}
	for {
		inner = strings.TrimSpace(inner)
		if inner == "}" {
			break
		}
		m, after, err := matcher(inner)
		if err != nil {
			return Spec{}, fmt.Errorf("%q: %w", text, err)
		}
		if slices.ContainsFunc(s.Matchers, func(o Matcher) bool { return o.Label == m.Label }) {
			return Spec{}, fmt.Errorf("%q: label %q is given twice; keep one of the two", text, m.Label)
		}
		s.Matchers = append(s.Matchers, m)
		after = strings.TrimSpace(after)
		if next, ok := strings.CutPrefix(after, ","); ok {
			inner = next
		} else if after == "}" {
			break
		} else {
			return Spec{}, fmt.Errorf("%q: %q stands behind label %q; write a comma or the closing brace", text, after, m.Label)
		}
	}
	slices.SortFunc(s.Matchers, func(a, b Matcher) int { return strings.Compare(a.Label, b.Label) })
	return s, nil
}

// matcher reads label=value at the start of rest, and returns what follows.
func matcher(rest string) (m Matcher, after string, err error) {
	label, value, ok := strings.Cut(rest, "=")
	label = strings.TrimSpace(label)
	switch {
	case !ok || label == "" || digit(rune(label[0])) || strings.ContainsFunc(label, func(c rune) bool { return !nameRune(c) }):
		return m, "", fmt.Errorf("%q is no label with its value; write label=value", rest)
	case strings.HasPrefix(value, "~"), strings.HasPrefix(value, "="):
		return m, "", fmt.Errorf("label %q is compared otherwise than by =; write %s=value", label, label)
	}
	value = strings.TrimSpace(value)
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		var b strings.Builder
		for i := 0; i < len(quoted); i++ {
			switch c := quoted[i]; {
			case c == '"':
				return Matcher{label, b.String()}, quoted[i+1:], nil
			case c == '\\' && i+1 < len(quoted):
				i++
				if quoted[i] == 'n' {
					b.WriteByte('\n')
				} else {
					b.WriteByte(quoted[i])
				}
			default:
				b.WriteByte(c)
			}
		}
		return m, "", fmt.Errorf("the value of label %q has no closing quote", label)
	}
	end := strings.IndexAny(value, ",} \t\"")
	if end <= 0 {
		return m, "", fmt.Errorf("label %q has no value that ends before a comma or the closing brace", label)
	}
	return Matcher{label, value[:end]}, value[end:], nil
}

func nameRune(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c)
}

func digit(c rune) bool { return c >= '0' && c <= '9' }

// String returns the specification in the form that ParseSpec reads.
func (s Spec) String() string {
	if len(s.Matchers) == 0 {
		return s.Name
	}
	var b strings.Builder
	b.WriteString(s.Name + "{")
	for i, m := range s.Matchers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m.Label + "=")
		if m.Value == "" || strings.ContainsAny(m.Value, ",} \t\"\\\n") {
			b.WriteString(`"` + Escaped(m.Value) + `"`)
		} else {
			b.WriteString(m.Value)
		}
	}
	return b.String() + "}"
}

// Escaped returns a label's value as it stands between quotes on a metrics page.
func Escaped(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}
