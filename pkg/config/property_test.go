package config_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/config"
)

// scalar draws a text with everything in it that YAML could take for something else.
func scalar() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "~", "null", "true", "yes", "1", "-1", "0x1F", "1e3", ".nan", "2001-01-01", "a: b", "- x", "#", "a #b", "'", `"`, `\`, "{a}", "[a]", "&a", "*a", "!t", "%", "@", "`", "é", " a", "a ", "a\nb", "\t", "<<", "=", "\u0085", "\u2028"}),
		rapid.StringN(0, 12, 24),
	)
}

// quoted writes a text as JSON does, which YAML reads too.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

// Whatever the values are, the effective text means the same when it is loaded again, and the order in which scorers are
// declared and listed means nothing.
func TestEveryConfigurationSurvivesItsEffectiveText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var scorers []string
		var parameters []string
		for i := range rapid.IntRange(1, 4).Draw(rt, "scorers") {
			scorers = append(scorers, fmt.Sprintf("s%d", i))
			parameters = append(parameters, fmt.Sprintf("{full: %d, share: %v, wait: %dms, size: %d, names: [%s], tiers: [{name: %s}], weights: {%s: %d}}",
				rapid.IntRange(1, 1000).Draw(rt, "full"), rapid.Float64Range(0, 1).Draw(rt, "share"), rapid.IntRange(1, 1<<39).Draw(rt, "wait"),
				rapid.Int64().Draw(rt, "size"), quoted(strings.TrimSpace(scalar().Draw(rt, "name"))), quoted(strings.TrimSpace(scalar().Draw(rt, "tier"))),
				quoted(scalar().Draw(rt, "key")), rapid.Int32().Draw(rt, "value")))
		}
		model, alias := scalar().Filter(func(s string) bool { return s != "" }).Draw(rt, "model"), scalar().Filter(func(s string) bool { return s != "" }).Draw(rt, "alias")
		if alias == model {
			alias += "+"
		}
		text := func(order []int) string {
			var b strings.Builder
			b.WriteString(head + "plugins:\n- {type: random-picker, name: dice}\n- {type: needy-filter, name: b, parameters: {label: x}}\n- {type: needy-filter, name: a, parameters: {label: x}}\n")
			for _, i := range order {
				fmt.Fprintf(&b, "- {type: knobs-scorer, name: %s, parameters: %s}\n", scorers[i], parameters[i])
			}
			b.WriteString("schedulingProfiles:\n- name: p\n  plugins: [{pluginRef: b}, {pluginRef: dice}, {pluginRef: a}")
			for _, i := range order {
				fmt.Fprintf(&b, ", {pluginRef: %s, weight: %d}", scorers[i], i)
			}
			fmt.Fprintf(&b, "]\npools: [{name: x, models: [{name: %s, aliases: [%s]}]}]\n", quoted(model), quoted(alias))
			return b.String()
		}
		order := make([]int, len(scorers))
		for i := range order {
			order[i] = i
		}
		file, problems := config.Load([]byte(text(order)), "f", entries())
		if file == nil {
			rt.Fatalf("does not load: %v\n%s", problems, text(order))
		}
		again, problems := config.Load(file.Effective(), "effective", entries())
		if again == nil || again.Digest() != file.Digest() {
			rt.Fatalf("%v\n%s", problems, file.Effective())
		}
		if got := again.Spec.Pools[0].Models[0]; got.Name != model || got.Aliases[0] != alias {
			rt.Fatalf("the model is %q, %q; want %q, %q", got.Name, got.Aliases, model, alias)
		}
		other, _ := config.Load([]byte(text(rapid.Permutation(order).Draw(rt, "order"))), "f", entries())
		if other == nil || other.Digest() != file.Digest() {
			rt.Fatal("the order of scorers changes the digest")
		}
	})
}
