package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/doc/comment"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func pluginsCommand(entries []plugins.Entry) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "plugins [TYPE]",
		Short: "List the plugin types, or tell of one its parameters, facts and reasons",
		Long: "Plugins lists the types that a configuration may name, one in a line. With a TYPE it prints that type's manual:\n" +
			"what it does, its parameters with defaults and bounds, the facts that it reads and makes, the reasons that it gives.",
		Example: "  fairlead plugins\n  fairlead plugins prefix-cache-scorer\n  fairlead plugins --output json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			all := manuals(entries)
			if len(args) == 0 {
				if output == outputJSON {
					return writeJSON(c.OutOrStdout(), all)
				}
				return listPlugins(c.OutOrStdout(), all)
			}
			i := slices.IndexFunc(all, func(m manual) bool { return m.Type == args[0] || slices.Contains(m.Renamed, args[0]) })
			if i < 0 {
				return fmt.Errorf("%s", config.NoSuchType(args[0], entries))
			}
			if output == outputJSON {
				return writeJSON(c.OutOrStdout(), all[i])
			}
			return all[i].text(c.OutOrStdout())
		},
	}
	outputFlag(c, &output)
	return c
}

// The forms in which commands print.
const (
	outputText = "text"
	outputJSON = "json"
)

func outputFlag(c *cobra.Command, to *string) {
	c.Flags().StringVarP(to, "output", "o", outputText, "form of the output: text or json")
}

func checkOutput(output string) error {
	if output != outputText && output != outputJSON {
		return &usageError{fmt.Errorf("--output is %q; text or json", output)}
	}
	return nil
}

// writeJSON prints a value, indented, with the characters of texts as they are.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func listPlugins(w io.Writer, all []manual) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.Type, m.Points[0], m.Summary)
	}
	return t.Flush()
}

// text prints the manual for a terminal.
func (m manual) text(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s (%s)\n\n", m.Type, strings.Join(m.Points, ", "))
	b.Write((&comment.Printer{TextWidth: 100}).Text(comments(m.About)))
	if len(m.Renamed) > 0 {
		fmt.Fprintf(&b, "\nDeprecated names: %s.\n", strings.Join(m.Renamed, ", "))
	}
	b.WriteString("\nPARAMETERS\n")
	if len(m.Parameters) == 0 {
		b.WriteString("  none\n")
	}
	for _, p := range m.Parameters {
		fmt.Fprintf(&b, "  %s: %s\n", p.Path, p.traits())
		b.WriteString(wrapped(p.About, "      "))
	}
	facts(&b, "READS", m.Reads)
	facts(&b, "MAKES", m.Makes)
	if len(m.Default) > 0 {
		fmt.Fprintf(&b, "  A plugin of this type is added where somebody reads one of these that nobody makes: %s.\n", strings.Join(m.Default, ", "))
	}
	if m.Answers != "" {
		fmt.Fprintf(&b, "\nSEES OF ANSWERS\n  %s\n", m.Answers)
	}
	if len(m.Reasons) > 0 {
		b.WriteString("\nREASONS\n")
		for _, r := range m.Reasons {
			fmt.Fprintf(&b, "  %s%s\n%s", r.Code, status(r.Status), wrapped(r.Means+" "+r.Remedy, "      "))
		}
	}
	if m.Example != "" {
		b.WriteString("\nEXAMPLE\n")
		for line := range strings.Lines(m.Example) {
			b.WriteString("  " + line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func facts(b *bytes.Buffer, title string, uses []plugins.FactUse) {
	if len(uses) == 0 {
		return
	}
	texts := catalog.Descriptions()
	fmt.Fprintf(b, "\n%s\n", title)
	for _, f := range uses {
		fmt.Fprintf(b, "  %s (%s)\n%s", f.Name, factTraits(f), wrapped(factText(texts, f.Name), "      "))
	}
}

// factText is the comment of a fact, or of the family of facts that it belongs to, as "header.x" does to "header.".
func factText(texts map[string]string, name string) string {
	text, ok := texts["fact "+name]
	if family, _, has := strings.Cut(name, "."); !ok && has {
		text = texts["fact "+family+"."]
	}
	return strings.Join(strings.Fields(text), " ")
}

// factTraits says of a fact what kind it is.
func factTraits(f plugins.FactUse) string {
	traits := []string{"per request"}
	if f.PerEndpoint {
		traits[0] = "per endpoint"
	}
	if f.Unit != "" {
		traits = append(traits, f.Unit)
	}
	if f.Source != "" {
		traits = append(traits, "from "+f.Source)
	}
	if f.Optional {
		traits = append(traits, "if somebody makes it")
	}
	return strings.Join(traits, ", ")
}

// traits says in a line how a parameter is written and what holds without it.
func (p parameter) traits() string {
	s := p.Kind
	if p.Unit != "" {
		s += " of " + p.Unit
	}
	if p.Bounds != "" {
		s += ", " + p.Bounds
	}
	switch {
	case p.Required:
		s += "; required"
	case p.Default != "":
		s += "; default " + p.Default
	}
	if len(p.Old) > 0 {
		s += "; deprecated name " + strings.Join(p.Old, ", ")
	}
	return s
}

func status(s int) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", s)
}

// wrapped breaks a text into lines of at most 100 characters, each after indent.
func wrapped(text, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 100 && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// page prints the manual as a page of the reference.
func (m manual) page() []byte {
	texts := catalog.Descriptions()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nPrinted from the source by `make generate`; do not edit. It is what `fairlead plugins %s` prints.\n\n", m.Type, m.Type)
	fmt.Fprintf(&b, "Extension points: %s.\n\n", strings.Join(m.Points, ", "))
	b.Write((&comment.Printer{}).Markdown(comments(m.About)))
	if len(m.Renamed) > 0 {
		fmt.Fprintf(&b, "\nDeprecated names: %s.\n", codes(m.Renamed))
	}
	b.WriteString("\n## Parameters\n\n")
	if len(m.Parameters) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| parameter | type | unit | default | bounds | meaning |\n|---|---|---|---|---|---|\n")
		for _, p := range m.Parameters {
			name, value := code(p.Path), p.Default
			if len(p.Old) > 0 {
				name += " (deprecated: " + codes(p.Old) + ")"
			}
			switch {
			case p.Required:
				value = "required"
			case value != "" && value != "unset":
				value = code(value)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, p.Kind, p.Unit, value, p.Bounds, cell(p.About))
		}
	}
	table := func(title string, uses []plugins.FactUse) {
		if len(uses) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n| fact | kind | meaning |\n|---|---|---|\n", title)
		for _, f := range uses {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, factTraits(f), cell(factText(texts, f.Name)))
		}
	}
	table("Facts it reads", m.Reads)
	table("Facts it makes", m.Makes)
	if len(m.Default) > 0 {
		fmt.Fprintf(&b, "\nA plugin of this type is added by itself where somebody reads one of these that nobody makes: %s.\n", codes(m.Default))
	}
	if m.Answers != "" {
		fmt.Fprintf(&b, "\n## What it sees of answers\n\n%s.\n", strings.ToUpper(m.Answers[:1])+m.Answers[1:])
	}
	if len(m.Reasons) > 0 {
		b.WriteString("\n## Reasons\n\n| code | status | means | remedy |\n|---|---|---|---|\n")
		for _, r := range m.Reasons {
			fmt.Fprintf(&b, "| [`%s`](../reasons.md) | %s | %s | %s |\n", r.Code, strings.Trim(status(r.Status), " ()"), r.Means, r.Remedy)
		}
	}
	if m.Example != "" {
		fmt.Fprintf(&b, "\n## Example\n\n```yaml\n%s```\n", m.Example)
	}
	return b.Bytes()
}

// pluginsIndex prints the list of all plugins.
func pluginsIndex(all []manual) []byte {
	var b bytes.Buffer
	b.WriteString("# Plugins\n\nPrinted from the source by `make generate`; do not edit. `fairlead plugins` prints the same list.\n\n" +
		"| type | extension points | what it does |\n|---|---|---|\n")
	for _, m := range all {
		fmt.Fprintf(&b, "| [`%s`](%s.md) | %s | %s |\n", m.Type, m.Type, strings.Join(m.Points, ", "), cell(m.Summary))
	}
	return b.Bytes()
}

// cell makes a text fit for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
