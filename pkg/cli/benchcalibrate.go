package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/calibration"
)

// benchCalibrateCommand returns "fairlead bench calibrate".
func benchCalibrateCommand() *cobra.Command {
	var flags profileFlags
	var out string
	var cached float64
	var maxSeqs int32
	var scrapes bool
	cmd := &cobra.Command{
		Use:   "calibrate FILE|DIR...",
		Short: "Fit a simulated engine's step times to measurements of a real one",
		Long: `Calibrate reads the stage files of inference-perf (stage_N_lifecycle_metrics.json; a directory stands for all in it), or
with --scrapes two or more pages of a vLLM server's /metrics taken under load, in order. It fits the time of a step, per
prefill token, per sequence and, of a model with experts, that of reading them all, plays every stage on the fitted engine in virtual time, and prints the errors below and above
saturation. What else the profile needs comes from --hardware and --model, or from --profile. With --out it writes the profile,
which fairlead sim --profile reads.`,
		Example: `  fairlead bench calibrate --hardware h100-sxm --model llama-3.1-8b --max-seqs 128 --out mine.yaml reports-20261130/
  fairlead bench calibrate --scrapes --out mine.yaml before.txt after.txt
  fairlead sim --profile mine.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := flags.profile(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			names, err := stageFiles(args)
			if err != nil {
				return err
			}
			stages, err := readStages(names, scrapes, cached, maxSeqs)
			if err != nil {
				return err
			}
			fitted, err := calibration.Fit(start, stages, fmt.Sprintf("least squares over %d stages: %s", len(stages), filepath.Base(args[0])))
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "step = %v + %v per prefill token + %v per sequence (it was %v, %v, %v)\n", fitted.Step.Base, fitted.Step.PerPrefillToken,
				fitted.Step.PerSequence, start.Step.Base, start.Step.PerPrefillToken, start.Step.PerSequence)
			if fitted.Step.AllExperts > 0 {
				fmt.Fprintf(w, "     + %v for all experts, by the share that the tokens touch (it was %v)\n", fitted.Step.AllExperts, start.Step.AllExperts)
			}
			compared, err := calibration.Compare(fitted, stages)
			if err != nil {
				return err
			}
			if err := calibration.Report(w, compared); err != nil {
				return err
			}
			if out == "" {
				return nil
			}
			data, err := fitted.Encode()
			if err != nil {
				return err
			}
			return os.WriteFile(out, data, 0o644)
		},
	}
	f := cmd.Flags()
	flags.register(f)
	f.StringVar(&out, "out", "", "write the fitted profile to this file")
	f.BoolVar(&scrapes, "scrapes", false, "the files are pages of a vLLM server's /metrics, in order")
	f.Float64Var(&cached, "cached", 0, "mean cached tokens of a prompt, for stage files that do not tell")
	f.Int32Var(&maxSeqs, "max-seqs", 0, "the server's max-num-seqs during the measurement; 0 is the profile's")
	return cmd
}

// stageFiles returns the files, with the stage files of a directory in its place.
func stageFiles(args []string) ([]string, error) {
	var names []string
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			names = append(names, name)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(name, "stage_*_lifecycle_metrics.json"))
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			return nil, fmt.Errorf("%s: there is no stage_N_lifecycle_metrics.json in it", name)
		}
		slices.Sort(inside)
		names = append(names, inside...)
	}
	return names, nil
}

func readStages(names []string, scrapes bool, cached float64, maxSeqs int32) ([]calibration.Stage, error) {
	var stages []calibration.Stage
	var pages [][]byte
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if scrapes {
			pages = append(pages, data)
			continue
		}
		s, err := calibration.ReadStage(name, data, cached)
		if err != nil {
			return nil, err
		}
		s.MaxSeqs = maxSeqs
		stages = append(stages, s)
	}
	if scrapes {
		return calibration.ReadScrapes(names, pages)
	}
	calibration.SortStages(stages)
	return stages, nil
}
