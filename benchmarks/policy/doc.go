// Package policy has the deciders of a simulated fleet: the production scheduler under a configuration, with all its plugins,
// and comparison policies that are no part of the product: what operators have without an endpoint picker, and the rules of
// other routers (package rules).
//
// The production scheduler is the very code that serves: an exchange per request, its stages, cycle, books and hooks. A
// trace has no bytes, so headers and body are left out, and the block hashes of the workload stand in for those that a body
// would have given.
package policy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/benchmarks/rules"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Policy is something that decides, by name.
type Policy struct {
	// Name is what reports call it: a file's name, or that of a comparison policy.
	Name string

	// Text is its configuration; empty for a comparison policy.
	Text string

	// Reads is how often it reads the engines where that is more often than the scenario says; 0: as the scenario says.
	Reads time.Duration

	// Hears says that it hears the engines' cache events.
	Hears bool

	make func(seed uint64, set func(*exchange.Options)) (fleet.Decider, error) // set, if not nil, changes what a configuration does not say
}

// New returns a fresh decider. Its random choices are functions of seed.
func (p Policy) New(seed uint64) (fleet.Decider, error) { return p.make(seed, nil) }

// Watched returns the policy with each decider of the production scheduler handed to f when it is made.
func (p Policy) Watched(f func(*Production)) Policy {
	make := p.make
	p.make = func(seed uint64, set func(*exchange.Options)) (fleet.Decider, error) {
		d, err := make(seed, set)
		switch it := d.(type) {
		case interface{ production() *Production }:
			f(it.production())
		case interface{ productions() []*Production }:
			for _, one := range it.productions() {
				f(one)
			}
		}
		return d, err
	}
	return p
}

// The names of configurations that are built in: the one that applies where none is given, and the weights that a file means
// which names neither plugins nor profiles.
const (
	Default = "default"
	Classic = "classic"
)

// Named returns the policy of this name: "default", "classic", a comparison policy, or the configuration in a file; behind
// replicas=N:, events= or oracle= a variant of it. The error says what is wrong with the file, or what names there are.
func Named(name string) (Policy, error) {
	switch name {
	case Default:
		return FromText(Default, []byte(config.DefaultText))
	case Classic:
		return FromText(Classic, []byte(config.ClassicText))
	}
	if p, ok, err := replicated(name); ok {
		return p, err
	}
	if p, ok, err := informed(name); ok {
		return p, err
	}
	if make, ok := comparison[name]; ok {
		return Policy{Name: name, make: func(seed uint64, _ func(*exchange.Options)) (fleet.Decider, error) { return make(seed) }}, nil
	}
	for _, r := range rules.All() {
		if r.Name == name {
			return Policy{Name: name, Reads: r.Reads, Hears: r.Hears, make: func(seed uint64, _ func(*exchange.Options)) (fleet.Decider, error) { return r.New(seed), nil }}, nil
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		if !strings.ContainsAny(name, "./") {
			return Policy{}, fmt.Errorf("policy %q: there is no such file, and no policy of this name; built in are %s", name, strings.Join(Names(), ", "))
		}
		return Policy{}, err
	}
	return FromText(name, data)
}

// FromText returns the policy of a configuration.
func FromText(name string, text []byte) (Policy, error) {
	file, problems := config.Load(text, name, catalog.Builtin())
	if file == nil {
		return Policy{}, fmt.Errorf("policy %q: %s", name, joined(problems))
	}
	return Policy{Name: name, Text: string(text), make: func(seed uint64, set func(*exchange.Options)) (fleet.Decider, error) {
		return newProduction(file, seed, set)
	}}, nil
}

func joined(problems []config.Problem) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "; ")
}

// Names returns the names of what is built in, the configurations first, and what knowledge of the caches would make of the
// default.
func Names() []string {
	var names []string
	for name := range comparison {
		names = append(names, name)
	}
	for _, r := range rules.All() {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return append([]string{Default, Classic, "events=" + Default, "oracle=" + Default}, names...)
}
