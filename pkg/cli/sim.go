package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// simCommand returns "fairlead sim": simulated vLLM engines in wall-clock time.
func simCommand() *cobra.Command {
	var o server.Options
	var profile profileFlags
	var faults string
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Serve simulated vLLM engines",
		Long: `Sim serves simulated vLLM engines, each on a port of its own: batching, chunked prefill, prefix cache and
step times of real hardware behind the OpenAI API, /v1/models, /health and /metrics. No GPU is needed.

` + profileNames() + `

Faults are set from the start with --faults, for all engines, or at run time with POST /sim/faults: for instance
'{"slow":2}', '{"hang":true}', '{"status":503}', '{"resetAfterChunks":3}', '{"staleMetrics":true}'.`,
		Example: `  fairlead sim --engines 4 --port 8100 --hardware h100-sxm --model llama-3.1-8b --speed 10
  curl http://127.0.0.1:8100/v1/chat/completions -d '{"model":"llama-3.1-8b","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := profile.profile(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			o.Profile = p
			if faults != "" {
				d := json.NewDecoder(strings.NewReader(faults))
				d.DisallowUnknownFields()
				if err := d.Decode(&o.Faults); err != nil {
					return fmt.Errorf("--faults %s: %w; it must be a JSON object such as {\"slow\":2}", faults, err)
				}
			}
			o.Out = cmd.OutOrStdout()
			return server.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Engines, "engines", 1, "number of engines")
	flags.IntVar(&o.Port, "port", 8100, "port of the first engine, the others follow; 0 gives each a free one")
	flags.StringVar(&o.Bind, "bind", "127.0.0.1", "address to listen on")
	profile.register(flags)
	flags.StringSliceVar(&o.ServedNames, "served-model-name", nil, "further names of the model; the first is what answers and metrics call it")
	flags.StringSliceVar(&o.Adapters, "lora", nil, "names of LoRA adapters that may be asked for as models")
	flags.Int32Var(&o.Engine.MaxLoras, "max-loras", 1, "different adapters that may run at a time")
	flags.Int32Var(&o.Engine.MaxWaiting, "max-num-queued-reqs", 0, "waiting requests beyond which an engine answers 503; 0 is 16384")
	flags.Float64Var(&o.Speed, "speed", 1, "how many times faster than the wall engine time runs")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the generated text")
	flags.DurationVar(&o.Flush, "flush", 10*time.Millisecond, "wall time that tokens may be held back to be written together")
	flags.StringVar(&faults, "faults", "", "what is wrong with every engine from the start, as JSON")
	cmd.AddCommand(simProfilesCommand())
	return cmd
}

// profileNames lists the built-in hardware and models.
func profileNames() string {
	var hardware, models []string
	for _, h := range engine.Devices() {
		hardware = append(hardware, h.Name)
	}
	for _, m := range engine.Models() {
		models = append(models, m.Flag)
	}
	return "Hardware: " + strings.Join(hardware, ", ") + ".\nModels: " + strings.Join(models, ", ") + "."
}
