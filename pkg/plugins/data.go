package plugins

import "slices"

// FactUse is a fact as somebody reads or makes it, for documentation and configuration output.
type FactUse struct {
	Name        string `json:"name"`
	Unit        string `json:"unit,omitempty"`
	Source      string `json:"source,omitempty"` // who makes it, in general
	PerEndpoint bool   `json:"perEndpoint"`      // else one value per request
	Optional    bool   `json:"optional,omitempty"`
}

// Data returns the facts that a plugin of this type reads and makes with its default parameters, each in the order of its
// Provision. What Provision refuses is left aside: a parameter may be missing that only a configuration can give.
func (e Entry) Data() (reads, makes []FactUse) {
	b := &Built{facts: make([]factInfo, 1)}
	it := &instance{name: e.Type, typ: e.Type, value: e.New()}
	p, ok := it.value.(Provisioner)
	if !ok {
		return nil, nil
	}
	func() {
		// Without the port it asks for, or with a parameter that only a configuration can give, it may go no further than this.
		defer func() { _ = recover() }()
		_ = p.Provision(&Builder{Name: e.Type, Pools: []PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: e.Type}}, built: b, it: it})
	}()
	for slot := int32(1); slot < int32(len(b.facts)); slot++ {
		use := b.facts[slot].use()
		use.Optional = slices.Contains(it.uses, slot)
		if use.Optional || slices.Contains(it.needs, slot) {
			reads = append(reads, use)
		}
		if slices.Contains(it.provides, slot) {
			makes = append(makes, use)
		}
	}
	return reads, makes
}

func (f *factInfo) use() FactUse {
	return FactUse{Name: f.name, Unit: f.unit, Source: f.source, PerEndpoint: f.perEndpoint}
}
