package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool/engines"
)

// MetricsSource says how engines are asked for their metrics pages: the parameters of metrics-data-source.
type MetricsSource struct {
	// Scheme of the page.
	Scheme string `json:"scheme" schema:"enum=http|https"`
	// Path of the page; empty is the engine's own, which is /metrics but for trtllm-serve.
	Path string `json:"path"`
	// Port of the page on endpoints that have no metrics port of their own; 0 is the port that serves.
	Port uint16 `json:"port"`
	// SkipVerify takes any certificate of an engine.
	SkipVerify bool `json:"insecureSkipVerify"`
	// CACert is a file with the certificates that sign the engines', PEM; empty is the system's.
	CACert string `json:"caCertPath"`
	// ClientCert and ClientKey are files with the certificate that engines are shown, PEM; empty shows none.
	ClientCert string `json:"clientCertPath"`
	ClientKey  string `json:"clientKeyPath"`
	// Interval between two pages of an endpoint; absent is --refresh-metrics-interval.
	Interval *time.Duration `json:"interval" schema:"min=50ms"`
}

// MetricsExtractor says what engines call their quantities: the parameters of core-metrics-extractor.
type MetricsExtractor struct {
	// EngineLabel is the endpoint's label that names its engine.
	EngineLabel string `json:"engineLabelKey" schema:"min=1"`
	// DefaultEngine is the engine of endpoints without the label.
	DefaultEngine string `json:"defaultEngine" schema:"min=1"`
	// Engines stand beside the built-in ones, and in place of those with their name.
	Engines []EngineConfig `json:"engineConfigs"`
}

// EngineConfig is one engine. A specification is a name of a series, or name{label=value}; an empty one asks for nothing.
type EngineConfig struct {
	Name string `json:"name" schema:"required,min=1"`
	// Queued, Running and KVUsage are the waiting requests, the running ones, and the used share of the KV cache.
	Queued  string `json:"queuedRequestsSpec"`
	Running string `json:"runningRequestsSpec"`
	KVUsage string `json:"kvUsageSpec"`
	// LoRA has the adapters in its labels.
	LoRA string `json:"loraSpec"`
	// CacheInfo has the size of the KV cache in the labels that follow.
	CacheInfo      string `json:"cacheInfoSpec"`
	BlockSizeLabel string `json:"cacheBlockSizeLabelName"`
	NumBlocksLabel string `json:"cacheNumBlocksLabelName"`
	// BlockSize and NumBlocks have it as their values.
	BlockSize string `json:"cacheBlockSizeSpec"`
	NumBlocks string `json:"cacheNumBlocksSpec"`
	// Custom are further quantities, which plugins read by their keys.
	Custom []CustomMetric `json:"customMetrics"`
}

// CustomMetric is a quantity that becomes an attribute of the endpoint.
type CustomMetric struct {
	Key  string `json:"attributeKey" schema:"required,min=1"`
	Spec string `json:"metricSpec" schema:"required,min=1"`
}

// Metrics says how engines are asked and understood.
type Metrics struct {
	Source  MetricsSource
	Engines engines.Choice
}

// The labels of a cacheInfoSpec where the configuration names none: vLLM's.
const (
	blockSizeLabel = "block_size"
	numBlocksLabel = "num_gpu_blocks"
)

func newMetricsSource() *MetricsSource { return &MetricsSource{Scheme: "http", SkipVerify: true} }

func newMetricsExtractor() *MetricsExtractor {
	return &MetricsExtractor{EngineLabel: engines.LabelKey, DefaultEngine: engines.Default}
}

// names lists the parameters of a plugin.
func names(plugin any) (all []string) {
	for _, p := range plugins.Params(plugin) {
		all = append(all, p.Name)
	}
	return all
}

// asksForMore reports whether a plugin that says how engines are read says something else than the default.
func asksForMore(p *pluginDecl) bool {
	switch p.value.(type) {
	case *MetricsSource, *MetricsExtractor:
		return !reflect.DeepEqual(p.value, p.kind.make())
	}
	return false
}

// metrics puts together what the plugins of the data layer say. They count whether or not a source refers to them.
func (r *reader) metrics(d *document) {
	d.metrics.Source = *newMetricsSource()
	first := map[string]*pluginDecl{}
	for _, p := range d.plugins {
		switch p.value.(type) {
		case *MetricsSource, *MetricsExtractor:
		default:
			continue
		}
		if o := first[p.kind.typ]; o != nil {
			r.errorf(p.at, CodeConflict, "keep one of the two", "plugin %q is the second of type %s, after %q in line %d", p.name, p.kind.typ, o.name, o.at.line)
			continue
		}
		first[p.kind.typ] = p
		switch v := p.value.(type) {
		case *MetricsSource:
			r.checkSource(p, v)
			d.metrics.Source = *v
		case *MetricsExtractor:
			d.metrics.Engines = r.engines(p, v)
		}
	}
}

// checkSource refuses parameters of a source that are wrong only together.
func (r *reader) checkSource(p *pluginDecl, v *MetricsSource) {
	place := func(names ...string) pos {
		for _, n := range names {
			if at, ok := p.given[n]; ok {
				return at
			}
		}
		return p.at
	}
	if v.Path != "" && v.Path[0] != '/' {
		r.errorf(place("path"), CodeOutOfBounds, "begin it with /", "plugin %q: path is %q", p.name, shortened(v.Path))
	}
	if (v.ClientCert == "") != (v.ClientKey == "") {
		r.errorf(place("clientCertPath", "clientKeyPath"), CodeMissing, "give both", "plugin %q: of clientCertPath and clientKeyPath one is given", p.name)
	}
	if v.Scheme == "http" && (v.CACert != "" || v.ClientCert != "") {
		r.warnf(place("caCertPath", "clientCertPath"), CodeNoEffect, "set scheme: https", "plugin %q: certificates have no effect over http", p.name)
	} else if v.SkipVerify && v.CACert != "" {
		r.warnf(place("caCertPath"), CodeNoEffect, "set insecureSkipVerify: false", "plugin %q: caCertPath has no effect while any certificate is taken", p.name)
	}
}

// engines reads the specifications of an extractor.
func (r *reader) engines(p *pluginDecl, v *MetricsExtractor) engines.Choice {
	choice := engines.Choice{LabelKey: v.EngineLabel, Default: v.DefaultEngine}
	if err := plugins.LabelName("engineLabelKey", v.EngineLabel); err != nil {
		message, suggestion, _ := strings.Cut(err.Error(), ": ")
		r.errorf(p.given["engineLabelKey"], CodeOutOfBounds, "write "+suggestion, "plugin %q: %s", p.name, message)
	}
	place := p.given["engineConfigs"]
	for i, e := range v.Engines {
		where := fmt.Sprintf("plugin %q: engineConfigs[%d]", p.name, i)
		if slices.ContainsFunc(choice.Engines, func(o engines.Engine) bool { return o.Name == e.Name }) {
			r.errorf(place, CodeDuplicateName, "keep one of the two", "%s: engine %q is given twice", where, e.Name)
			continue
		}
		choice.Engines = append(choice.Engines, r.engine(place, where, e))
	}
	if all := choice.All(); !slices.ContainsFunc(all, func(e engines.Engine) bool { return e.Name == v.DefaultEngine }) {
		var known []string
		for _, e := range all {
			known = append(known, e.Name)
		}
		at := place
		if given, ok := p.given["defaultEngine"]; ok {
			at = given
		}
		r.errorf(at, CodeUndefined, didYouMeanOr(v.DefaultEngine, known), "plugin %q: no engine is named %q", p.name, v.DefaultEngine)
	}
	return choice
}

func (r *reader) engine(place pos, where string, e EngineConfig) engines.Engine {
	out := engines.Engine{Name: e.Name}
	spec := func(field, text string) (engines.Spec, bool) {
		if text == "" {
			return engines.Spec{}, false
		}
		s, err := engines.ParseSpec(text)
		if err != nil {
			r.errorf(place, CodeOutOfBounds, "write name or name{label=value}", "%s: %s: %v", where, field, err)
			return s, false
		}
		return s, true
	}
	read := func(signal engines.Signal, field, text, label string) {
		if s, ok := spec(field, text); ok {
			out.Reads[signal] = append(out.Reads[signal], engines.Source{Spec: s, Label: label})
		}
	}
	present := func(signal engines.Signal, field, text string) {
		read(signal, field, text, "")
		if of := out.Reads[signal]; len(of) > 0 && engines.IsCounter(of[0].Name) {
			r.warnf(place, CodeNoEffect, "name a gauge, or leave it empty", "%s: %s: %s is a counter, whose value grows for ever", where, field, of[0].Name)
		}
	}
	or := func(label, standard string) string {
		if label == "" {
			return standard
		}
		return label
	}
	present(engines.Waiting, "queuedRequestsSpec", e.Queued)
	present(engines.Running, "runningRequestsSpec", e.Running)
	present(engines.KVUsage, "kvUsageSpec", e.KVUsage)
	read(engines.Adapters, "loraSpec", e.LoRA, "")
	read(engines.Blocks, "cacheInfoSpec", e.CacheInfo, or(e.NumBlocksLabel, numBlocksLabel))
	read(engines.BlockTokens, "cacheInfoSpec", e.CacheInfo, or(e.BlockSizeLabel, blockSizeLabel))
	read(engines.Blocks, "cacheNumBlocksSpec", e.NumBlocks, "")
	read(engines.BlockTokens, "cacheBlockSizeSpec", e.BlockSize, "")
	// What tells a restart is read of an engine however it is described.
	out.Reads[engines.ProcessStart] = engines.Builtin()[0].Reads[engines.ProcessStart]
	for _, b := range engines.Builtin() {
		if b.Name == e.Name {
			out.Path = b.Path
			out.Reads[engines.PromptTokens] = b.Reads[engines.PromptTokens]
		}
	}
	for _, c := range e.Custom {
		if slices.ContainsFunc(out.Custom, func(o engines.Custom) bool { return o.Key == c.Key }) {
			r.errorf(place, CodeDuplicateName, "keep one of the two", "%s: customMetrics: attributeKey %q is given twice", where, c.Key)
			continue
		}
		if s, ok := spec("customMetrics: "+c.Key, c.Spec); ok {
			out.Custom = append(out.Custom, engines.Custom{Key: c.Key, Spec: s})
		}
	}
	return out
}
