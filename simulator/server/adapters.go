package server

import (
	"encoding/json"
	"net/http"
)

// loadAdapter serves /v1/load_lora_adapter.
func (c *call) loadAdapter() {
	given, ok := c.read()
	if !ok {
		return
	}
	name, path := member(given, "lora_name"), member(given, "lora_path")
	if name == "" || path == "" {
		badRequest("lora_name", "Both 'lora_name' and 'lora_path' must be provided.").write(c.w)
		return
	}
	if refused := c.pod.loadAdapter(Adapter{name, path}); refused != nil {
		refused.write(c.w)
		return
	}
	writeText(c.w, "Success: LoRA adapter '"+name+"' added successfully.")
}

// unloadAdapter serves /v1/unload_lora_adapter.
func (c *call) unloadAdapter() {
	given, ok := c.read()
	if !ok {
		return
	}
	name := member(given, "lora_name")
	switch {
	case name == "":
		badRequest("lora_name", "'lora_name' needs to be provided to unload a LoRA adapter.").write(c.w)
	case !c.pod.models.unload(name):
		(&apiError{http.StatusNotFound, "NotFoundError", "lora_name", "The lora adapter '" + name + "' cannot be found."}).write(c.w)
	default:
		writeText(c.w, "Success: LoRA adapter '"+name+"' removed successfully.")
	}
}

// member returns a member that is a string, empty for any other.
func member(given map[string]json.RawMessage, name string) string {
	s, _ := text(given[name])
	return string(s)
}

func writeText(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	w.Write([]byte(s))
}

// loadAdapter makes requests for a possible.
func (p *pod) loadAdapter(a Adapter) *apiError {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, refused := p.models.load(a)
	if refused != nil {
		return refused
	}
	p.engine.SetAdapters(n)
	p.stats.options.Adapters = n
	p.stats.options.MaxLoras = max(p.stats.options.MaxLoras, 1)
	return nil
}
