package plugins

import (
	"fmt"
	"slices"
	"strings"
)

// circle returns an error that names a chain of plugins each of which needs what the next one makes, the last one what the
// first one does: none of them could run first. A plugin that reads what it makes itself is no circle, nor is a fact that is
// only used where somebody makes it.
func (b *Built) circle() error {
	const path, done = 1, 2
	state := map[*instance]int{}
	var chain []string
	var visit func(it *instance) *instance // returns where the chain met itself
	visit = func(it *instance) *instance {
		switch state[it] {
		case path:
			return it
		case done:
			return nil
		}
		state[it] = path
		for _, slot := range it.needs {
			by := b.facts[slot].provider
			if by == nil || by == it || slices.Contains(it.uses, slot) {
				continue
			}
			if met := visit(by); met != nil {
				if len(chain) == 0 || state[met] == path {
					chain = append(chain, fmt.Sprintf("%q needs %s of %q", it.name, b.facts[slot].name, by.name))
				}
				if met == it {
					state[met] = done // the chain is whole; those who led to it are no part of it
				}
				return met
			}
		}
		state[it] = done
		return nil
	}
	for _, it := range b.instances {
		if visit(it) == nil {
			continue
		}
		slices.Reverse(chain)
		return &BuildError{it.name, fmt.Errorf("plugins wait for each other: %s; take one of them out", strings.Join(chain, ", "))}
	}
	return nil
}
