package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func configExplainCommand(entries []plugins.Entry) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Say what a configuration means: defaults, order, facts, what is read and seen of a request",
		Long: "Explain prints what a configuration (- is standard input) becomes: the plugins with all parameters, those that were\n" +
			"added by default marked; the stages in their order; what each pool's profiles run; who makes which fact for whom;\n" +
			"what of a request is read and of an answer seen, and for whom. Problems are told as config check tells them.\n" +
			"Without a file it explains the configuration that applies where none is given.",
		Example: "  fairlead config explain\n  fairlead config explain config.yaml\n  fairlead config explain --output json config.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			of := checkDefault(entries)
			if len(args) > 0 {
				of = check(args[0], entries)
			}
			x, err := explainChecked(c.ErrOrStderr(), of)
			if err != nil {
				return err
			}
			if output == outputJSON {
				return writeJSON(c.OutOrStdout(), x)
			}
			_, err = c.OutOrStdout().Write(explanationText(x))
			return err
		},
	}
	outputFlag(c, &output)
	return c
}

// explainChecked explains what was checked, with its problems told.
func explainChecked(problems io.Writer, c checked) (config.Explanation, error) {
	for _, p := range c.Problems {
		fmt.Fprintln(problems, p.Report())
	}
	if !c.Loads {
		return config.Explanation{}, fmt.Errorf("%s does not load", c.File)
	}
	return c.loaded.Explain(c.built), nil
}

// explanationText prints an explanation for a terminal.
func explanationText(x config.Explanation) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s, digest %.12s\n", x.File, x.APIVersion, x.Digest)

	b.WriteString("\nPLUGINS\n")
	for _, p := range x.Plugins {
		fmt.Fprintf(&b, "  %s", p.Name)
		if p.Name != p.Type {
			fmt.Fprintf(&b, " (%s)", p.Type)
		}
		switch {
		case p.Added != "":
			fmt.Fprintf(&b, "  [added %s]", p.Added)
		case p.Stands:
			b.WriteString("  [done without a plugin]")
		case p.Idle:
			b.WriteString("  [nothing runs it]")
		}
		b.WriteByte('\n')
		for _, v := range p.Parameters {
			fmt.Fprintf(&b, "      %s: %s", v.Name, v.Text)
			if !v.Given {
				b.WriteString("  [default]")
			}
			b.WriteByte('\n')
		}
	}

	b.WriteString("\nSTAGES, in the order in which they run\n")
	for _, s := range x.Stages {
		fmt.Fprintf(&b, "  %s: %s, reads %s\n", s.Phase, s.Plugin, s.Reads)
	}
	if len(x.Stages) == 0 {
		b.WriteString("  none\n")
	}
	if len(x.Objectives) > 0 {
		b.WriteString("\nOBJECTIVES, by the header x-llm-d-inference-objective; 0 is the priority of all other requests\n")
	}
	for _, o := range x.Objectives {
		fmt.Fprintf(&b, "  %s: priority %d", o.Name, o.Priority)
		if o.Pool != "" {
			fmt.Fprintf(&b, ", in pool %s", o.Pool)
		}
		if o.Priority < 0 {
			b.WriteString(", may be dropped when endpoints are short")
		}
		b.WriteByte('\n')
	}
	for _, p := range x.Pools {
		poolText(&b, p)
	}

	fmt.Fprintf(&b, "\nREQUEST: %s must have come\n", x.Reads)
	for _, r := range x.Readers {
		fmt.Fprintf(&b, "  %s\n", r)
	}
	if len(x.Readers) == 0 {
		b.WriteString("  nobody reads the body\n")
	}
	fmt.Fprintf(&b, "\nANSWER: response mode %s\n", x.Answers.Mode)
	for _, why := range x.Answers.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	b.WriteString("  --response-mode full, or a gateway whose modes are static, overrides this\n")
	if x.Endpoints != "" {
		fmt.Fprintf(&b, "\nENDPOINTS: %s\n", x.Endpoints)
	}
	return b.Bytes()
}

func poolText(b *bytes.Buffer, p plugins.PoolLayout) {
	models := "any model"
	if len(p.Models) > 0 {
		var names []string
		for _, m := range p.Models {
			names = append(names, strings.Join(append([]string{m.Name}, m.Aliases...), " = "))
		}
		models = strings.Join(names, ", ")
	}
	fmt.Fprintf(b, "\nPOOL %s: %s; %s runs its profiles\n", p.Name, models, p.Handler)
	line := func(what string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(b, "  %s: %s\n", what, strings.Join(names, ", "))
		}
	}
	line("before admission", p.Describers)
	line("per decision", p.Producers)
	line("look at books", p.Observers)
	line("may refuse", p.Admitters)
	for _, prof := range p.Profiles {
		fmt.Fprintf(b, "  profile %s\n", prof.Name)
		filters := "none"
		if len(prof.Filters) > 0 {
			filters = strings.Join(prof.Filters, ", then ")
		}
		fmt.Fprintf(b, "    filters: %s\n", filters)
		for _, s := range prof.Scorers {
			fmt.Fprintf(b, "    scorer:  %s, weight %v, %.0f %% of all\n", s.Plugin, s.Weight, 100*s.Share)
		}
		if len(prof.Scorers) == 0 {
			b.WriteString("    scorers: none\n")
		}
		fmt.Fprintf(b, "    picker:  %s\n", prof.Picker)
	}
	line("after booking", p.RequestHooks)
	line("on answers", p.ResponseHooks)
	line("on each endpoint tried", p.AttemptHooks)
	line("on headers of answers", p.AnswerHooks)
	if len(p.Facts) == 0 {
		return
	}
	b.WriteString("  facts\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, f := range p.Facts {
		by := f.MadeBy
		if by == "framework" {
			by = "the framework, from " + f.Source
		}
		fmt.Fprintf(t, "    %s\tmade by %s\tfor %s\n", f.Name, by, strings.Join(f.For, ", "))
	}
	_ = t.Flush() // into memory
}
