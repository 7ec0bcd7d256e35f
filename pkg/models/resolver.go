// Package models maps the model name that a request asks for to the pool that serves it.
package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Resolver sends a request to the pool that serves its model, by the models of the configuration's pools.
//
// A name or alias that a pool lists resolves to that pool; an alias is replaced by the name in the body that the engine
// gets. Any other name is answered with 404 model_not_found. A request without a model goes to the only pool; if there are
// several, it is answered with 400 model_required. GET /v1/models is answered with the names of all pools.
//
// A single pool without models takes every model, and GET /v1/models is forwarded to one of its endpoints.
type Resolver struct {
	byName map[string]target // names and aliases
	names  []string          // what GET /v1/models lists, in the order of the configuration
	pools  []string
}

type target struct {
	pool  int
	model string
	edit  []byte // model as a JSON string, for an alias; nil for the name itself
}

var (
	_ plugins.Stage       = (*Resolver)(nil)
	_ plugins.BodyReader  = (*Resolver)(nil)
	_ plugins.RequestHook = (*Resolver)(nil)
	_ plugins.Provisioner = (*Resolver)(nil)
)

// NewResolver returns a Resolver; it has no parameters.
func NewResolver() *Resolver { return &Resolver{} }

// Provision reads the pools' models. It refuses a name that two models claim, and a pool without models beside others.
func (m *Resolver) Provision(b *plugins.Builder) error {
	m.byName, m.names, m.pools = map[string]target{}, nil, nil
	var errs []error
	for i, p := range b.Pools {
		m.pools = append(m.pools, p.Name)
		if len(p.Models) == 0 && len(b.Pools) > 1 {
			errs = append(errs, fmt.Errorf("pool %q lists no models; with %d pools each must, so that a request's model tells its pool", p.Name, len(b.Pools)))
		}
		for _, model := range p.Models {
			m.names = append(m.names, model.Name)
			errs = append(errs, m.claim(b.Pools, i, model.Name, model.Name))
			for _, alias := range model.Aliases {
				errs = append(errs, m.claim(b.Pools, i, alias, model.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// claim enters one name by which a model may be asked for.
func (m *Resolver) claim(pools []plugins.PoolSpec, pool int, asked, model string) error {
	if asked == "" {
		return fmt.Errorf("pool %q has a model with an empty name or alias; give it one", pools[pool].Name)
	}
	if other, taken := m.byName[asked]; taken {
		return fmt.Errorf("model name %q stands for %q of pool %q and for %q of pool %q; a name leads to one model", asked,
			other.model, pools[other.pool].Name, model, pools[pool].Name)
	}
	t := target{pool: pool, model: model}
	if asked != model {
		quoted, err := json.Marshal(model)
		if err != nil {
			return fmt.Errorf("model name %q: %w", model, err)
		}
		t.edit = quoted
	}
	m.byName[asked] = t
	return nil
}

// Phase is the resolve phase.
func (m *Resolver) Phase() plugins.Phase { return plugins.AtResolve }

// Reads asks for the model where it makes a difference.
func (m *Resolver) Reads() plugins.Reads {
	if len(m.names) == 0 && len(m.pools) == 1 {
		return plugins.ReadsHeaders
	}
	return plugins.ReadsModel
}

// Enter resolves the request's model. It never holds.
func (m *Resolver) Enter(r *plugins.Request) plugins.Verdict {
	asked := r.Model()
	table := len(m.names) > 0
	switch {
	case r.API == openai.Models && table:
		return plugins.Verdict{Reply: openai.ModelsReply(m.names, r.Since)}
	case asked == "" && len(m.pools) == 1, !table:
		m.to(r, target{model: asked})
		return plugins.Verdict{}
	case asked == "":
		return plugins.Verdict{Refusal: reason.Refuse(reason.ModelRequired, "%d models are served here", len(m.names))}
	}
	t, ok := m.byName[asked]
	if !ok {
		return plugins.Verdict{Refusal: reason.Refuse(reason.ModelNotFound, "%q is none of the %d models that GET /v1/models lists", shortened(asked), len(m.names))}
	}
	if t.edit != nil && r.Body.Sealed {
		return plugins.Verdict{Refusal: reason.Refuse(reason.BodySealed, "its name there is %q", shortened(t.model))}
	}
	m.to(r, t)
	return plugins.Verdict{}
}

func (m *Resolver) to(r *plugins.Request, t target) {
	r.PoolIndex, r.Target.Pool, r.Target.Model = t.pool, m.pools[t.pool], t.model
}

// Commit replaces an alias in the body by the name.
func (m *Resolver) Commit(r *plugins.Request, _ []plugins.Leg, out *plugins.Outgoing) {
	if r.Body == nil || r.Body.ModelSpan.Len() == 0 {
		return
	}
	t := m.byName[r.Body.Model]
	if t.edit == nil {
		return
	}
	edit := openai.Edit{Span: r.Body.ModelSpan, New: t.edit}
	if r.Body.ModelBare {
		edit.New = []byte(t.model)
	}
	at := len(out.Edits)
	for at > 0 && out.Edits[at-1].Span.Start > edit.Span.Start {
		at--
	}
	out.Edits = slices.Insert(out.Edits, at, edit)
}

// nameBytesMax bounds how much of a client's model name an error repeats.
const nameBytesMax = 128

// shortened cuts a name for an error message, at a character's boundary.
func shortened(name string) string {
	if len(name) <= nameBytesMax {
		return name
	}
	cut := nameBytesMax
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
