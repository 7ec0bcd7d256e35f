package cli

import (
	"fmt"
	"go/doc/comment"
	"reflect"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// manual is what there is to say of one plugin type. It joins what the source says once each: the meaning in comments, the
// defaults in the constructor, the bounds in tags, the facts in Provision.
type manual struct {
	Type       string            `json:"type"`
	Points     []string          `json:"extensionPoints"`
	Summary    string            `json:"summary"`
	About      string            `json:"description"`
	Renamed    []string          `json:"deprecatedNames,omitempty"`
	Parameters []parameter       `json:"parameters,omitempty"`
	Reads      []plugins.FactUse `json:"reads,omitempty"`
	Makes      []plugins.FactUse `json:"makes,omitempty"`
	Default    []string          `json:"addedByDefaultFor,omitempty"`
	Answers    string            `json:"seesOfAnswers,omitempty"`
	Reasons    []explained       `json:"reasons,omitempty"`
	Example    string            `json:"example,omitempty"`
}

// parameter is one of a plugin, or of a group in it.
type parameter struct {
	Path     string   `json:"path"`
	Kind     string   `json:"kind"`
	Unit     string   `json:"unit,omitempty"`
	Default  string   `json:"default,omitempty"`
	Bounds   string   `json:"bounds,omitempty"`
	Required bool     `json:"required,omitempty"`
	Old      []string `json:"deprecatedNames,omitempty"`
	About    string   `json:"description"`
}

// explained is a reason with its meaning.
type explained struct {
	Code   string `json:"code"`
	Status int    `json:"status,omitempty"`
	Means  string `json:"means"`
	Remedy string `json:"remedy"`
}

// manuals returns one manual for each plugin type, in the order of the catalogue. entries are those of the build, texts and
// reasons those that were printed from the source.
func manuals(entries []plugins.Entry) []manual {
	texts, reasons := catalog.Descriptions(), catalog.Reasons()
	all := make([]manual, len(entries))
	for i, e := range entries {
		all[i] = newManual(e, entries, texts, reasons)
	}
	return all
}

func newManual(e plugins.Entry, entries []plugins.Entry, texts map[string]string, reasons map[string][]reason.ID) manual {
	v := e.New()
	of := reflect.TypeOf(v)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	m := manual{Type: e.Type, Points: extensionPoints(v), Renamed: e.Renamed, Default: e.MakesByDefault}
	params := plugins.Params(v)
	say := plugins.InNamesOf(params)
	m.About = say(texts[plugins.TypeName(of)])
	// "Queue prefers …" reads "queue-scorer: prefers …" under the type's own name.
	if rest, ok := strings.CutPrefix(m.About, of.Name()+" "); ok {
		m.About = strings.ToUpper(rest[:1]) + rest[1:]
	}
	m.Summary = firstSentence(m.About)
	m.Parameters = describeParameters(params, texts, say)
	m.Reads, m.Makes = e.Data()
	if h, ok := v.(plugins.ResponseHook); ok {
		m.Answers = h.Wants().String()
	}
	for _, id := range reasons[plugins.TypeName(of)] {
		row := id.Row()
		m.Reasons = append(m.Reasons, explained{row.Code, row.Status, row.Means, row.Remedy})
	}
	m.Example = example(e, v, params, entries)
	return m
}

// extensionPoints names what a plugin does, in the order of a request.
func extensionPoints(v any) []string {
	var points []string
	if s, ok := v.(plugins.Stage); ok {
		points = append(points, "stage at "+s.Phase().String())
	}
	add := func(is bool, name string) {
		if is {
			points = append(points, name)
		}
	}
	_, describer := v.(plugins.Describer)
	_, producer := v.(plugins.Producer)
	_, handler := v.(plugins.ProfileHandler)
	_, filter := v.(plugins.Filter)
	_, scorer := v.(plugins.Scorer)
	_, picker := v.(plugins.Picker)
	_, request := v.(plugins.RequestHook)
	_, attempt := v.(plugins.AttemptHook)
	_, answer := v.(plugins.AnswerHook)
	_, response := v.(plugins.ResponseHook)
	_, observer := v.(plugins.Observer)
	_, admitter := v.(plugins.Admitter)
	_, settler := v.(plugins.Settler)
	_, ticker := v.(plugins.Ticker)
	add(handler, "profile handler")
	add(filter, "filter")
	add(scorer, "scorer")
	add(picker, "picker")
	add(describer || producer || observer, "producer")
	add(admitter, "admitter")
	add(request, "request hook")
	add(attempt, "attempt hook")
	add(answer, "answer hook")
	add(response, "response hook")
	add(settler, "settler")
	add(ticker, "ticker")
	if p, ok := v.(plugins.Policy); ok {
		points = append(points, p.Serves())
	}
	return points
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, end := range []string{". ", ": "} {
		if head, _, ok := strings.Cut(text, end); ok {
			text = head
		}
	}
	return strings.TrimRight(text, ".:")
}

func describeParameters(params []plugins.Param, texts map[string]string, say func(string) string) []parameter {
	var all []parameter
	for _, p := range params {
		one := parameter{Path: p.Path, Kind: kindName(p), Unit: p.Unit, Required: p.Required, Old: p.Was, Bounds: bounds(p),
			About: strings.Join(strings.Fields(say(texts[p.Owner+"."+p.Field])), " ")}
		if !p.Required {
			one.Default = defaultOf(p)
		}
		all = append(all, one)
		all = append(all, describeParameters(p.Members(), texts, say)...)
	}
	return all
}

// kindName says how a parameter is written, in a word or two.
func kindName(p plugins.Param) string {
	name := [...]string{"boolean", "integer", "number", "text", "duration", "quantity", "group", "list of ", "table of "}[p.Kind]
	if p.Kind == plugins.ParamList || p.Kind == plugins.ParamMap {
		item := kindName(p.Elem())
		if !strings.HasSuffix(item, "s") {
			item += "s"
		}
		name += strings.Replace(item, "quantitys", "quantities", 1)
	}
	return name
}

// defaultOf says what holds where a parameter is left out.
func defaultOf(p plugins.Param) string {
	switch {
	case p.Absent():
		return "unset"
	case p.Kind == plugins.ParamStruct:
		return ""
	case p.Kind == plugins.ParamString:
		return fmt.Sprintf("%q", p.Text())
	case p.Kind == plugins.ParamList, p.Kind == plugins.ParamMap:
		var items []string
		for key, item := range p.Items {
			text := item.Text()
			if key != "" {
				text = key + ": " + text
			}
			items = append(items, text)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return p.Text()
}

// bounds says what a value must hold, "1 to 1000" or "fast, slow".
func bounds(p plugins.Param) string {
	if len(p.Enum) > 0 {
		var words []string
		for _, w := range p.Enum {
			if w == "" {
				w = `""`
			}
			words = append(words, w)
		}
		return strings.Join(words, ", ")
	}
	unit := ""
	switch p.Kind {
	case plugins.ParamString:
		unit = " bytes long"
	case plugins.ParamList, plugins.ParamMap:
		unit = " items"
	}
	switch {
	case p.Min != "" && p.Max != "":
		return p.Min + " to " + p.Max + unit
	case p.Min != "":
		return "at least " + p.Min + unit
	case p.Max != "":
		return "at most " + p.Max + unit
	}
	return ""
}

// referring are the forms in which the queue names policies, one for each kind.
var referring = [...]string{"saturationDetectorRef: %s", "usageLimitPolicyRef: %s", "defaultPriorityBand: {fairnessPolicyRef: %s}", "defaultPriorityBand: {orderingPolicyRef: %s}"}

// example returns a configuration that has the plugin, or nothing where one cannot be made of the type alone.
func example(e plugins.Entry, v any, params []plugins.Param, entries []plugins.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nplugins:\n- type: %s\n", config.OwnVersion, config.Kind, e.Type)
	indent := "  parameters:\n"
	for _, p := range params {
		if !p.Required {
			continue
		}
		value := ""
		switch {
		case len(p.Enum) > 0:
			value = p.Enum[0]
		case p.Kind == plugins.ParamString:
			value = "example"
		case p.Min != "":
			value = p.Min
		default:
			return ""
		}
		fmt.Fprintf(&b, "%s    %s: %s\n", indent, p.Name, value)
		indent = ""
	}
	own := b.String()
	ref := fmt.Sprintf("  - pluginRef: %s\n", e.Type)
	profile := "schedulingProfiles:\n- name: default\n  plugins:\n"
	_, scorer := v.(plugins.Scorer)
	_, filter := v.(plugins.Filter)
	_, picker := v.(plugins.Picker)
	switch {
	case scorer:
		b.WriteString(profile + ref + "    weight: 2\n")
	case filter:
		b.WriteString("- type: queue-scorer\n" + profile + ref + "  - pluginRef: queue-scorer\n")
	case picker:
		b.WriteString("- type: queue-scorer\n" + profile + "  - pluginRef: queue-scorer\n" + ref)
	case len(e.MakesByDefault) > 0:
		// Only somebody who reads the facts makes sense of their producer.
		for _, reader := range entries {
			if _, ok := reader.New().(plugins.Scorer); !ok || reader.Type == e.Type {
				continue
			}
			reads, _ := reader.Data()
			if slices.ContainsFunc(reads, func(f plugins.FactUse) bool { return !f.Optional && slices.Contains(e.MakesByDefault, f.Name) }) {
				fmt.Fprintf(&b, "- type: %s\n%s  - pluginRef: %s\n", reader.Type, profile, reader.Type)
				break
			}
		}
	default:
		b.WriteString("- type: queue-scorer\n" + profile + "  - pluginRef: queue-scorer\n")
	}
	texts := []string{b.String()}
	if picker {
		texts = append(texts, own+profile+ref) // one that looks at no score
	}
	if _, policy := v.(plugins.Policy); policy && !scorer && !filter && !picker {
		texts = nil // alone it would have no effect
		for _, form := range referring {
			texts = append(texts, own+"- type: flow-control\n  parameters:\n    "+fmt.Sprintf(form, e.Type)+"\n- type: queue-scorer\n"+profile+"  - pluginRef: queue-scorer\n")
		}
	}
	for _, text := range texts {
		file, problems := config.Load([]byte(text), "example", entries)
		if file == nil || len(problems) > 0 {
			continue
		}
		if built, problems := file.Build(); built != nil && len(problems) == 0 {
			return text
		}
	}
	return ""
}

// comments parses doc comments as go/doc does.
func comments(text string) *comment.Doc {
	var p comment.Parser
	return p.Parse(text)
}
