package server

import (
	"slices"
	"strconv"
	"sync"
)

// Adapter is a LoRA adapter.
type Adapter struct {
	// Name is how requests ask for it, in place of a model.
	Name string `json:"name"`

	// Path is where its weights would be; empty is its name. The model list tells it as the adapter's root, and blocks of
	// adapters with other paths are other blocks.
	Path string `json:"path"`
}

// maxAdapters bounds the adapters that an engine knows in its life, unloaded ones included.
const maxAdapters = 4096

// modelTable is what names an engine answers to. Its methods may be called from any goroutine.
type modelTable struct {
	base   string   // how metrics and answers call the model
	root   string   // its full name
	listed []string // names that the list of models tells
	names  []string // all names of the base model, base first

	mu       sync.RWMutex
	adapters []Adapter // adapter i+1; an unloaded one has no name
}

func newModelTable(o Options) *modelTable {
	m := &modelTable{root: o.Profile.Model, adapters: slices.Clone(o.Adapters)}
	for _, name := range append(slices.Clone(o.ServedNames), o.Profile.Model, o.Profile.ModelFlag) {
		if name != "" && !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
	}
	m.base = m.names[0]
	m.listed = m.names
	if len(o.ServedNames) > 0 {
		m.listed = slices.Compact(slices.Clone(o.ServedNames))
	}
	return m
}

// find returns the adapter that name means, 0 for the base model. An empty name is the base model, as in vLLM.
func (m *modelTable) find(name string) (adapter int32, ok bool) {
	if name == "" || slices.Contains(m.names, name) {
		return 0, true
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if i := m.indexOf(name); i >= 0 {
		return int32(i + 1), true
	}
	return 0, false
}

func (m *modelTable) indexOf(name string) int {
	return slices.IndexFunc(m.adapters, func(a Adapter) bool { return a.Name == name && name != "" })
}

// adapter returns what tells an adapter's blocks from others', empty for the base model.
func (m *modelTable) adapter(i int32) string {
	if i == 0 {
		return ""
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.adapters[i-1].Name + "\x00" + m.adapters[i-1].Path
}

// name returns how the metrics page calls an adapter.
func (m *modelTable) name(i int) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.adapters[i-1].Name
}

// load adds an adapter and returns how many there are then, unloaded ones included.
func (m *modelTable) load(a Adapter) (int32, *apiError) {
	if _, ok := m.find(a.Name); ok {
		return 0, badRequest("lora_name", "The lora adapter '"+a.Name+"' has already been loaded.")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.adapters) >= maxAdapters {
		return 0, badRequest("lora_name", "This simulated engine knows "+strconv.Itoa(maxAdapters)+" adapters at most; restart it.")
	}
	m.adapters = append(m.adapters, a)
	return int32(len(m.adapters)), nil
}

// unload takes an adapter's name away. Requests that run with it go on.
func (m *modelTable) unload(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.indexOf(name)
	if i < 0 {
		return false
	}
	m.adapters[i].Name = ""
	return true
}

// append appends the body of GET /v1/models to dst.
func (m *modelTable) append(dst []byte, created int64, maxModelLen int32) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	one := func(id, root, parent string) {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = appendString(dst, id)
		dst = append(dst, `,"object":"model","created":`...)
		dst = strconv.AppendInt(dst, created, 10)
		dst = append(dst, `,"owned_by":"vllm","root":`...)
		dst = appendString(dst, root)
		dst = append(dst, `,"parent":`...)
		if parent == "" {
			dst = append(dst, "null"...)
		} else {
			dst = appendString(dst, parent)
		}
		dst = append(dst, `,"max_model_len":`...)
		dst = strconv.AppendInt(dst, int64(maxModelLen), 10)
		dst = append(dst, '}')
	}
	for _, name := range m.listed {
		one(name, m.root, "")
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, a := range m.adapters {
		if a.Name == "" {
			continue
		}
		root := a.Path
		if root == "" {
			root = a.Name
		}
		one(a.Name, root, m.base)
	}
	return append(dst, `]}`...)
}
