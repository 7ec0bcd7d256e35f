package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/pkg/config/files"
	"github.com/fairlead/fairlead/simulator/engine"
)

// profileFlags say what a simulated engine is: built-in hardware with a built-in model or one from its config.json, or a
// profile from a file.
type profileFlags struct {
	hardware, model, file, config string
	devices, blockTokens          int32
}

func (p *profileFlags) register(f *pflag.FlagSet) {
	f.StringVar(&p.hardware, "hardware", "h100-sxm", "hardware of each engine")
	f.StringVar(&p.model, "model", "llama-3.1-8b", "model that each engine serves; with --model-config its name")
	f.StringVar(&p.file, "profile", "", "read the profile from this file, such as fairlead bench calibrate writes, in place of --hardware and --model")
	f.StringVar(&p.config, "model-config", "", "derive the model from this Hugging Face config.json")
	f.Int32Var(&p.devices, "tensor-parallel-size", 0, "devices that share the model; 0 is the fewest on which its full context fits")
	f.Int32Var(&p.blockTokens, "block-size", 0, "tokens of a KV block; 0 is 16")
}

// profile returns the profile that the flags ask for. changed reports whether a flag was given.
func (p *profileFlags) profile(changed func(flag string) bool) (engine.Profile, error) {
	choice := engine.Choice{TensorParallel: p.devices, BlockTokens: p.blockTokens}
	if p.file != "" {
		for _, flag := range [...]string{"hardware", "model", "model-config", "tensor-parallel-size", "block-size"} {
			if changed(flag) {
				return engine.Profile{}, fmt.Errorf("--profile and --%s exclude each other; the file says it all", flag)
			}
		}
		data, err := files.Read(p.file)
		if err != nil {
			return engine.Profile{}, err
		}
		profile, err := engine.DecodeProfile(data)
		if err != nil {
			return engine.Profile{}, fmt.Errorf("%s: %w", p.file, err)
		}
		return profile, nil
	}
	if p.config == "" {
		return engine.ProfileWith(p.hardware, p.model, choice)
	}
	data, err := files.Read(p.config)
	if err != nil {
		return engine.Profile{}, err
	}
	name := ""
	if changed("model") {
		name = p.model
	}
	model, err := engine.ModelFromConfig(data, name)
	if err != nil {
		return engine.Profile{}, fmt.Errorf("%s: %w", p.config, err)
	}
	hardware, err := engine.HardwareFor(p.hardware)
	if err != nil {
		return engine.Profile{}, err
	}
	return engine.Derive(hardware, model, choice)
}
