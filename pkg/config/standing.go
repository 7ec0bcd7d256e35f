package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// FileDiscovery is where the configuration itself says that endpoints come from: what --endpoints says on the command line.
type FileDiscovery struct {
	// Path of the endpoint file, as written.
	Path string `json:"path" schema:"required,min=1"`
	// Watch has the file read again when it changes; false reads it once.
	Watch bool `json:"watchFile"`
}

// The parameters of the types that stand without a plugin, with the values that describe what stands.
type (
	tokenEstimate struct {
		ModelName string `json:"modelName"`
	}
	pathParser struct{} // and whatever else has no parameters
)

const tokensStand = "prompts are counted at 4 bytes per token, unless the client sends token ids"

// standingTypes are types of llm-d's endpoint picker whose default is what Fairlead does without a plugin.
var standingTypes = [...]typeInfo{
	{typ: "metrics-data-source", free: names(newMetricsSource()), make: func() any { return newMetricsSource() }},
	{typ: "core-metrics-extractor", free: names(newMetricsExtractor()), make: func() any { return newMetricsExtractor() }},
	// Where prompts are estimated a tokenizer's model name asks for nothing.
	{typ: "token-producer", stands: tokensStand, empty: []string{"vllm", "estimate"}, free: []string{"modelName"}, make: func() any { return &tokenEstimate{} }},
	{typ: "file-discovery", free: []string{"path", "watchFile"}, make: func() any { return &FileDiscovery{} }},
	{typ: "openai-parser", make: func() any { return &pathParser{} }},
	{typ: "anthropic-parser", make: func() any { return &pathParser{} }},
	{typ: "vllmhttp-parser", make: func() any { return &pathParser{} }},
	{typ: "sglanghttp-parser", make: func() any { return &pathParser{} }},
	{typ: "vllmgrpc-parser", make: func() any { return &pathParser{} }},
	{typ: "vertexai-parser", make: func() any { return &pathParser{} }},
	// Who is taken back, and in which order: enableEviction of flowControl switches it on.
	{typ: "sheddable-eviction-filter", make: func() any { return &pathParser{} }},
	{typ: "priority-then-time-eviction-order-policy", make: func() any { return &pathParser{} }},
	{typ: "passthrough-parser", make: func() any { return &pathParser{} }},
}

// refuseOthers refuses every parameter of a standing type that asks for something else than stands.
func (r *reader) refuseOthers(p *pluginDecl, asked []plugins.Param) {
	standing := plugins.Params(p.kind.make())
	for i, param := range asked {
		if _, given := p.given[param.Name]; given && !slices.Contains(p.kind.free, param.Name) && param.Text() != standing[i].Text() {
			r.refuseParameter(p, p.given[param.Name], param.Name)
		}
	}
}

func (r *reader) refuseParameter(p *pluginDecl, place pos, name string) {
	r.errorf(place, CodeUnsupported, "remove it: in this version "+p.kind.stands, "plugin %q: parameter %q of %s is not supported", p.name, name, p.typ)
}

// emptyOnly are the parameters of a standing type of which nothing is supported: they may stand empty.
func (r *reader) emptyOnly(p *pluginDecl) []field {
	var fields []field
	for _, name := range p.kind.empty {
		fields = append(fields, field{name, func(key, value *yaml.Node) {
			if n := r.resolve(value); n != nil && !isNull(n) && (n.Kind == yaml.ScalarNode || len(n.Content) > 0) {
				r.refuseParameter(p, at(key), name)
			}
		}})
	}
	return fields
}
