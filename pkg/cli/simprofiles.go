package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/simulator/engine"
)

// simProfilesCommand returns "fairlead sim profiles": what can be simulated, and where its figures come from.
func simProfilesCommand() *cobra.Command {
	var flags profileFlags
	var asYAML bool
	cmd := &cobra.Command{
		Use: "profiles", Args: cobra.NoArgs,
		Short: "List what can be simulated, and where each figure comes from",
		Long: `Profiles lists each hardware with each model: devices, KV tokens, limits and step times, or why the model does not fit.
With --hardware, --model, --model-config or --profile it prints one profile, each figure as measured, fitted or derived
with its source; with --yaml as a file that --profile reads.`,
		Example: `  fairlead sim profiles
  fairlead sim profiles --hardware h100-mig-3g.40gb --model llama-3.1-8b
  fairlead sim profiles --hardware l40s --model-config config.json --yaml > l40s.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			one := asYAML
			for _, flag := range [...]string{"hardware", "model", "model-config", "profile", "tensor-parallel-size", "block-size"} {
				one = one || cmd.Flags().Changed(flag)
			}
			if !one {
				return listProfiles(cmd.OutOrStdout())
			}
			p, err := flags.profile(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if asYAML {
				data, err := p.Encode()
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(data)
				return err
			}
			return describeProfile(cmd.OutOrStdout(), p)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "print the profile as a file")
	return cmd
}

func listProfiles(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HARDWARE\tMODEL\tDEVICES\tKV TOKENS\tCONTEXT\tBATCH TOKENS\tSEQS\tBASE\tPREFILL TOKEN\tBASE IS")
	var refused []string
	for _, h := range engine.Devices() {
		for _, m := range engine.Models() {
			p, err := engine.ProfileFor(h.Name, m.Flag)
			if err != nil {
				refused = append(refused, err.Error())
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%s\n", h.Name, m.Flag, p.TensorParallel, int64(p.Blocks)*int64(p.BlockTokens),
				p.MaxModelLen, p.MaxBatchedTokens, p.MaxSeqs, p.Step.Base+p.Step.AllExperts, p.Step.PerPrefillToken, p.Sources.Base.Kind)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(refused, "\n"))
	return err
}

func describeProfile(w io.Writer, p engine.Profile) error {
	fmt.Fprintf(w, "%s on %d x %s, context up to %d tokens\n", p.Model, max(p.TensorParallel, 1), p.Hardware, p.MaxModelLen)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range p.Figures() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Name, f.Value, f.Kind, f.Text)
	}
	return t.Flush()
}
