package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds the text of a configuration: what a ConfigMap can hold.
const MaxBytes = 1 << 20

// maxVisits bounds how many nodes are read; aliases count each time that they are followed, so that a text of nested
// aliases cannot unfold without end.
const maxVisits = 100_000

// reader walks nodes strictly and collects what is wrong with them.
type reader struct {
	log
	visits int
}

// parse returns the root of the only document, or nil with the problem collected.
func (r *reader) parse(data []byte) *yaml.Node {
	if len(data) > MaxBytes {
		r.errorf(pos{}, CodeTooLarge, "", "%d bytes long; at most %d", len(data), MaxBytes)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root *yaml.Node
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.syntax(data, err)
			return nil
		}
		if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == "" {
			continue // a separator with nothing after it
		}
		if root != nil {
			r.errorf(at(doc.Content[0]), CodeSeveralDocuments, "keep one document and put the rest into files of their own",
				"a second document; a file holds one configuration")
			return nil
		}
		root = doc.Content[0]
	}
	if root == nil {
		r.errorf(pos{}, CodeSyntax, "write apiVersion and kind, or start without a configuration file to get the default one", "the file is empty")
	}
	return root
}

func at(n *yaml.Node) pos { return pos{n.Line, n.Column} }

// resolve follows an alias. It returns nil when the bound on nodes is reached, with the problem collected once.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		if r.visits++; r.visits > maxVisits || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	if r.visits++; r.visits > maxVisits {
		if r.visits < 2*maxVisits {
			r.errorf(at(n), CodeTooLarge, "use fewer aliases", "more than %d values", maxVisits)
			r.visits = 2 * maxVisits
		}
		return nil
	}
	return n
}

// field is one member that a table may have.
type field struct {
	name string
	read func(key, value *yaml.Node)
}

// table reads a table strictly: its members must be among fields, each at most once. where opens the messages, and what is
// what a member is called: a field or a parameter. A member without a value is taken as left out, with a warning.
func (r *reader) table(n *yaml.Node, where, what string, fields []field) bool {
	node := r.resolve(n)
	if node == nil {
		return false
	}
	if node.Kind != yaml.MappingNode {
		r.errorf(at(n), CodeWrongType, "write a table of names and values", "%s is %s", orFile(where), shown(node))
		return false
	}
	seen := map[string]pos{}
	for i := 0; i+1 < len(node.Content) && !r.full(); i += 2 {
		key, value := r.resolve(node.Content[i]), node.Content[i+1]
		if key == nil {
			return false
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			r.errorf(at(node.Content[i]), CodeWrongType, "write the fields out", "%sa name is wanted here, not %s", prefix(where), shown(key))
			continue
		}
		if first, twice := seen[key.Value]; twice {
			r.errorf(at(key), CodeDuplicateKey, "keep one of the two", "%s%s %q is given twice, first in line %d", prefix(where), what, key.Value, first.line)
			continue
		}
		seen[key.Value] = at(key)
		known := false
		for _, f := range fields {
			if f.name == key.Value {
				known = true
				f.read(key, value)
			}
		}
		if !known {
			names := make([]string, 0, len(fields))
			for _, f := range fields {
				names = append(names, f.name)
			}
			code := CodeUnknownField
			if what == "parameter" {
				code = CodeUnknownParameter
			}
			suggestion := didYouMeanOr(key.Value, names)
			if len(names) == 0 {
				suggestion = "remove it: there are no parameters"
			}
			r.errorf(at(key), code, suggestion, "%sunknown %s %q", prefix(where), what, key.Value)
		}
	}
	return true
}

// maxItems bounds lists of the document itself; lists of parameters have bounds of their own.
const maxItems = 1000

// list returns the items of a list; a missing value is taken as left out, with a warning.
func (r *reader) list(key, value *yaml.Node, where string) (items []*yaml.Node, given bool) {
	node := r.resolve(value)
	switch {
	case node == nil:
		return nil, false
	case isNull(node):
		r.warnf(at(key), CodeNoEffect, "remove it, or write [] for none", "%s%s has no value and counts as left out", prefix(where), key.Value)
		return nil, false
	case node.Kind != yaml.SequenceNode:
		r.errorf(at(value), CodeWrongType, "write a list", "%s%s is %s", prefix(where), key.Value, shown(node))
		return nil, false
	case len(node.Content) > maxItems:
		r.errorf(at(value), CodeTooLarge, "", "%s%s has %d entries; at most %d", prefix(where), key.Value, len(node.Content), maxItems)
		return nil, true
	}
	return node.Content, true
}

// text reads a text that must not be empty.
func (r *reader) text(key, value *yaml.Node, where string) (string, bool) {
	node := r.resolve(value)
	switch {
	case node == nil:
		return "", false
	case node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" && node.Value != "":
		return node.Value, true
	case isNull(node) || node.Kind == yaml.ScalarNode && node.Value == "":
		r.errorf(at(value), CodeWrongType, "give it a value or remove it", "%s%s has no value", prefix(where), key.Value)
	case node.Kind == yaml.ScalarNode:
		r.errorf(at(value), CodeWrongType, fmt.Sprintf("write it in quotes: %q", node.Value), "%s%s is %s, not text", prefix(where), key.Value, shown(node))
	default:
		r.errorf(at(value), CodeWrongType, "write text", "%s%s is %s", prefix(where), key.Value, shown(node))
	}
	return "", false
}

// boolean reads true or false; what is neither is reported and false.
func (r *reader) boolean(key, value *yaml.Node, where string) (is bool) {
	node := r.resolve(value)
	if node == nil {
		return false
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!bool" && node.Decode(&is) == nil {
		return is
	}
	r.errorf(at(value), CodeWrongType, "write true or false", "%s%s is %s", prefix(where), key.Value, shown(node))
	return false
}

// number reads a number; not-a-number and infinities pass, for the caller to judge.
func (r *reader) number(key, value *yaml.Node, where string) (n float64, ok bool) {
	node := r.resolve(value)
	if node == nil {
		return 0, false
	}
	if tag := node.ShortTag(); node.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float") && node.Decode(&n) == nil {
		return n, true
	}
	suggestion := "write a number"
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		suggestion = "write a number, without quotes"
	}
	r.errorf(at(value), CodeWrongType, suggestion, "%s%s is %s", prefix(where), key.Value, shown(node))
	return 0, false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// peek returns the text of one member of a table, for messages about the table as a whole.
func peek(n *yaml.Node, name string) string {
	for n.Kind == yaml.AliasNode && n.Alias != nil && n.Alias != n {
		n = n.Alias
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k, v := n.Content[i], n.Content[i+1]; k.Value == name && v.Kind == yaml.ScalarNode {
				return v.Value
			}
		}
	}
	return ""
}

// shown says what a node is, as messages print it.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a table"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!merge":
		return "a merge key"
	case "!!str":
		return "the text " + strconv.Quote(shortened(n.Value))
	case "!!int", "!!float":
		return "the number " + shortened(n.Value)
	}
	return shortened(n.Value)
}

func shortened(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

func prefix(where string) string {
	if where == "" {
		return ""
	}
	return where + ": "
}

func orFile(where string) string {
	if where == "" {
		return "the document"
	}
	return where
}
