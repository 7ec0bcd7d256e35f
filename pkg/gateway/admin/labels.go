package admin

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// DefaultLabelSets is how many combinations of labels that clients choose get series of their own.
const DefaultLabelSets = 250

// otherLabel stands for the models and tenants beyond the bound.
const otherLabel = "other"

// defaultFlow is the fairness id of a request without a tenant.
const defaultFlow = "default-flow"

// table is a table of series by their labels, each looked up once in its family. Beyond its bound labels are folded, so that
// a flood of names costs neither memory nor the series of those that are known.
type table[K comparable, T any] struct {
	most int // 0: as many as there are
	make func(K) *T
	fold func(K) K // what stands for labels beyond the bound: one of few
	own  func(K) K // a copy that shares no memory with what a client sent

	mu  sync.Mutex // of whoever adds
	set atomic.Pointer[map[K]*T]
}

// of returns the series of k. Known ones, and those beyond the bound, cost one or two look-ups and allocate nothing.
func (t *table[K, T]) of(k K) *T {
	known := t.known()
	if v, ok := known[k]; ok {
		return v
	}
	if t.full(known) {
		k = t.fold(k)
		if v, ok := known[k]; ok {
			return v
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known = t.known()
	if t.full(known) {
		k = t.fold(k)
	}
	if v, ok := known[k]; ok {
		return v
	}
	if t.own != nil {
		k = t.own(k)
	}
	v := t.make(k)
	next := maps.Clone(known)
	if next == nil {
		next = map[K]*T{}
	}
	next[k] = v
	t.set.Store(&next)
	return v
}

func (t *table[K, T]) known() map[K]*T {
	if p := t.set.Load(); p != nil {
		return *p
	}
	return nil
}

func (t *table[K, T]) full(known map[K]*T) bool { return t.most > 0 && len(known) >= t.most }

// labelSet are the labels of a request's series.
type labelSet struct {
	model, target, tenant string
	priority              int32
}

// own copies what may be a part of a request.
func (l labelSet) own() labelSet {
	l.model, l.target, l.tenant = strings.Clone(l.model), strings.Clone(l.target), strings.Clone(l.tenant)
	return l
}

// folded replaces names that no configuration has.
func (l labelSet) folded(models map[string]string) labelSet {
	l.model, l.target = foldedModel(l.model, models), foldedModel(l.target, models)
	if l.tenant != defaultFlow {
		l.tenant = otherLabel
	}
	return l
}

// foldedModel returns a name that the configuration has, else "other"; a request without a model has none.
func foldedModel(name string, models map[string]string) string {
	if _, configured := models[name]; configured || name == "" {
		return name
	}
	return otherLabel
}
