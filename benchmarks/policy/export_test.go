package policy

import (
	"errors"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// NewDefault returns the production scheduler under the default configuration, with the plugins of a catalogue of the test's.
func NewDefault(entries []plugins.Entry, seed uint64) (*Production, error) {
	file, problems := config.Load([]byte(config.DefaultText), Default, entries)
	if file == nil {
		return nil, errors.New(joined(problems))
	}
	return newProduction(file, seed, nil)
}
