package config_test

import (
	"errors"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// knobs is a scorer with a parameter of every kind.
type knobs struct {
	On      bool              `json:"on"`
	Full    int32             `json:"full" schema:"min=1,max=1000,was=limit"`
	Share   float64           `json:"share" schema:"min=0,max=1"`
	Mode    string            `json:"mode" schema:"enum=fast|slow"`
	Wait    time.Duration     `json:"wait" schema:"min=1ms"`
	Size    plugins.Quantity  `json:"size"`
	Most    *int64            `json:"most"`
	Names   []string          `json:"names" schema:"max=3"`
	Tiers   []tier            `json:"tiers"`
	Weights map[string]int32  `json:"weights"`
	Inner   tier              `json:"inner"`
	Perhaps *tier             `json:"perhaps"`
	Tables  map[string][]tier `json:"tables"`
}

type tier struct {
	Name string        `json:"name"`
	TTL  time.Duration `json:"ttl"`
}

func newKnobs() *knobs {
	return &knobs{Full: 128, Share: 0.5, Mode: "fast", Wait: time.Second, Size: 1 << 20, Names: []string{"a"}, Inner: tier{Name: "x", TTL: time.Minute}}
}

func (*knobs) Score(*plugins.Cycle, []float64) {}

// Provision refuses two parameters that are wrong only together, and warns of others.
func (k *knobs) Provision(b *plugins.Builder) error {
	if k.Mode == "slow" {
		b.Warn("inner.ttl", "inner.ttl is %v and has no effect with mode slow; remove it", k.Inner.TTL)
	}
	if k.Full == 1000 {
		b.Warn("", "full 1000 is more than engines queue; lower it")
	}
	if k.On && k.Full == 1 {
		return errors.New("full 1 with on true prefers nobody; raise full")
	}
	return nil
}

// needy is a filter with a required parameter.
type needy struct {
	Label string `json:"label" schema:"required,min=1"`
}

func (*needy) Filter(*plugins.Cycle, plugins.Bits) {}

// gate is a stage.
type gate struct{}

func (gate) Phase() plugins.Phase                   { return plugins.AtHeaders }
func (gate) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

// both is a profile handler for any number of profiles.
type both struct{}

func (*both) Handle(*plugins.Cycle) ([]plugins.Leg, *reason.Refusal) { return nil, nil }

// entries is the catalogue and the plugins of this file.
func entries() []plugins.Entry {
	return append(catalog.Builtin(),
		plugins.Plugin("knobs-scorer", newKnobs).As("old-knobs-scorer"),
		plugins.Plugin("needy-filter", func() *needy { return &needy{} }),
		plugins.Plugin("gate-stage", func() *gate { return &gate{} }),
		plugins.Plugin("both-handler", func() *both { return &both{} }),
	)
}
