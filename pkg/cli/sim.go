package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// simCommand returns "fairlead sim": simulated vLLM engines in wall-clock time.
func simCommand() *cobra.Command {
	var o server.Options
	var profile profileFlags
	var limits simLimits
	var faults, fake, dialect, record string
	var adapters []string
	var ranks int
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
			outliveReaders()
			p, err := profile.profile(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			limits.put(&p)
			o.Profile = p
			if faults != "" {
				if err := decodeObject(faults, &o.Faults); err != nil {
					return fmt.Errorf("--faults %s: %w; it must be a JSON object such as {\"slow\":2}", faults, err)
				}
			}
			if fake != "" {
				o.Fake = &server.Fake{}
				if err := decodeObject(fake, o.Fake); err != nil {
					return fmt.Errorf("--fake-metrics %s: %w; it must be a JSON object such as {\"waiting-requests\":3}", fake, err)
				}
			}
			if o.Adapters, err = parseAdapters(adapters); err != nil {
				return err
			}
			if ranks > 1 {
				if cmd.Flags().Changed("engines") {
					return errors.New("--data-parallel-size and --engines exclude each other; each rank is an engine on a port of its own")
				}
				o.Engines = ranks
			}
			o.Dialect = server.Dialect(dialect)
			if record != "" {
				f, err := os.Create(record)
				if err != nil {
					return err
				}
				defer f.Close()
				o.Record = f
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
	flags.StringArrayVar(&adapters, "lora-modules", nil, "a LoRA adapter that may be asked for as a model: name, name=path, or {\"name\":…,\"path\":…}; may be repeated")
	flags.IntVar(&ranks, "data-parallel-size", 1, "the same as --engines")
	limits.register(flags)
	flags.BoolVar(&o.Engine.NoPrefixCache, "no-enable-prefix-caching", false, "switch the prefix cache off")
	flags.BoolVar(&o.Engine.NoChunkedPrefill, "no-enable-chunked-prefill", false, "never cut a prompt into several steps")
	flags.StringVar(&dialect, "metrics-dialect", "vllm", "form of /metrics: vllm (0.32), vllm-0.26, vllm-0.8 or sglang")
	flags.StringVar(&fake, "fake-metrics", "", "gauges to show in place of the true ones, as JSON: running-requests, waiting-requests, kv-cache-usage")
	flags.StringVar(&record, "record", "", "write what each engine was given, and each of its steps, to this file")
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

// simLimits replace limits of a profile; 0 leaves the profile's.
type simLimits struct{ seqs, batched, modelLen, blocks int32 }

func (l *simLimits) register(f *pflag.FlagSet) {
	f.Int32Var(&l.seqs, "max-num-seqs", 0, "most requests that run at a time; 0 is the profile's")
	f.Int32Var(&l.batched, "max-num-batched-tokens", 0, "token budget of a step; 0 is the profile's")
	f.Int32Var(&l.modelLen, "max-model-len", 0, "longest context in tokens; 0 is the profile's")
	f.Int32Var(&l.blocks, "num-gpu-blocks-override", 0, "KV blocks; 0 is the profile's")
}

func (l *simLimits) put(p *engine.Profile) {
	for _, limit := range [...]struct {
		value int32
		into  *int32
	}{{l.seqs, &p.MaxSeqs}, {l.batched, &p.MaxBatchedTokens}, {l.modelLen, &p.MaxModelLen}, {l.blocks, &p.Blocks}} {
		if limit.value != 0 {
			*limit.into = limit.value
		}
	}
}

// parseAdapters reads adapters as vLLM's --lora-modules has them, each as name, name=path or a JSON object.
func parseAdapters(given []string) ([]server.Adapter, error) {
	var adapters []server.Adapter
	for _, g := range given {
		var a server.Adapter
		if strings.HasPrefix(g, "{") {
			var j struct {
				server.Adapter
				Base string `json:"base_model_name"`
			}
			if err := decodeObject(g, &j); err != nil {
				return nil, fmt.Errorf("--lora-modules %s: %w; it must be such as {\"name\":\"a\",\"path\":\"/adapters/a\"}", g, err)
			}
			a = j.Adapter
		} else {
			a.Name, a.Path, _ = strings.Cut(g, "=")
		}
		if a.Name == "" {
			return nil, fmt.Errorf("--lora-modules %s: an adapter has a name", g)
		}
		adapters = append(adapters, a)
	}
	return adapters, nil
}

// decodeObject reads a JSON object that has no members beyond those of into.
func decodeObject(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
