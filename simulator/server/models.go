package server

import (
	"slices"
	"strconv"
)

// modelTable is what names an engine answers to.
type modelTable struct {
	base     string   // how metrics and answers call the model
	root     string   // its full name
	names    []string // all names of the base model, base first
	adapters []string // adapter i+1
}

func newModelTable(o Options) *modelTable {
	m := &modelTable{root: o.Profile.Model, adapters: o.Adapters}
	for _, name := range append(slices.Clone(o.ServedNames), o.Profile.Model, o.Profile.ModelFlag) {
		if name != "" && !slices.Contains(m.names, name) {
			m.names = append(m.names, name)
		}
	}
	m.base = m.names[0]
	return m
}

// find returns the adapter that name means, 0 for the base model. An empty name is the base model, as in vLLM.
func (m *modelTable) find(name string) (adapter int32, ok bool) {
	if name == "" || slices.Contains(m.names, name) {
		return 0, true
	}
	if i := slices.Index(m.adapters, name); i >= 0 {
		return int32(i + 1), true
	}
	return 0, false
}

// adapter returns the name of an adapter, empty for the base model.
func (m *modelTable) adapter(i int32) string {
	if i == 0 {
		return ""
	}
	return m.adapters[i-1]
}

// append appends the body of GET /v1/models to dst.
func (m *modelTable) append(dst []byte, created int64, maxModelLen int32) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	one := func(id, parent string) {
		if dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = appendString(dst, id)
		dst = append(dst, `,"object":"model","created":`...)
		dst = strconv.AppendInt(dst, created, 10)
		dst = append(dst, `,"owned_by":"vllm","root":`...)
		if parent == "" {
			dst = appendString(dst, m.root)
			dst = append(dst, `,"parent":null`...)
		} else {
			dst = appendString(dst, id)
			dst = append(dst, `,"parent":`...)
			dst = appendString(dst, parent)
		}
		dst = append(dst, `,"max_model_len":`...)
		dst = strconv.AppendInt(dst, int64(maxModelLen), 10)
		dst = append(dst, '}')
	}
	for _, name := range m.names {
		one(name, "")
	}
	for _, name := range m.adapters {
		one(name, m.base)
	}
	return append(dst, `]}`...)
}
