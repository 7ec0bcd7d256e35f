package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/pool"
)

// MaxFile is the length in bytes of the longest endpoint file.
const MaxFile = 1 << 20

// maxProblems is how many problems are worth reading.
const maxProblems = 20

// Parse reads an endpoint file, in YAML or JSON:
//
//	endpoints:
//	- name: pod-a              # required; unique with namespace within a pool
//	  namespace: default
//	  address: 10.0.0.1        # required; an IP, IPv6 bare or in brackets
//	  port: "8000"             # string or number; or ports: [8000, 8001], one endpoint each, named pod-a-rank-0, …
//	  metricsPort: 9000        # if the page of metrics is not on port
//	  labels: {gpu: h100}
//	  annotations: {fairlead.dev/draining: "true"}
//	  node: worker-1
//	  pool: llama              # by name; may be left out if there is one
//
// It is a superset of what llm-d's file discovery reads. file is the name that problems show. With problems the entries
// are those that could be read in spite of them; nobody should use them.
func Parse(data []byte, file string) ([]Entry, []Problem) {
	r := reader{file: file}
	r.document(data)
	if len(r.problems) == 0 {
		r.problems = doubles(r.entries, func(e *Entry) string { return e.Pool })
	}
	if n := len(r.problems); n > maxProblems {
		r.problems = append(r.problems[:maxProblems], Problem{File: file, Message: fmt.Sprintf("%d more problems", n-maxProblems)})
	}
	return r.entries, r.problems
}

// reader walks the nodes of a document.
type reader struct {
	file     string
	entries  []Entry
	problems []Problem
}

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) document(data []byte) {
	whole := &yaml.Node{}
	if len(data) > MaxFile {
		r.problem(whole, "the file has %d bytes; at most %d", len(data), MaxFile)
		return
	}
	root, err := decode(data)
	var bad Problem
	switch {
	case err == io.EOF:
		r.problem(whole, "the file is empty; write endpoints: [] if there are none")
		return
	case errors.As(err, &bad):
		bad.File = r.file
		r.problems = append(r.problems, bad)
		return
	}
	if root.Kind != yaml.MappingNode {
		r.problem(root, "the file is %s; write endpoints: and the list below it", kind(root))
		return
	}
	var list *yaml.Node
	r.fields(root, []string{"endpoints"}, func(_ string, value *yaml.Node) { list = value })
	switch {
	case list == nil:
		if len(r.problems) == 0 {
			r.problem(root, "endpoints is missing; write endpoints: [] if there are none")
		}
	case list.Kind != yaml.SequenceNode:
		r.problem(list, "endpoints is %s; write a list, endpoints: [] if there are none", kind(list))
	default:
		for _, n := range list.Content {
			r.entry(n)
		}
	}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// decode returns the root of the only document. The error is io.EOF for none, else a Problem.
func decode(data []byte) (root *yaml.Node, err error) {
	// The file comes from outside and the library is not ours: a fault of either must not end the process.
	defer func() {
		if p := recover(); p != nil {
			err = Problem{Line: 1, Column: 1, Message: fmt.Sprintf("the file cannot be read as YAML: %v", p)}
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, syntax(err)
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return nil, Problem{Line: second.Line, Column: second.Column, Message: "a second document begins here; an endpoint file has one"}
	case err != io.EOF:
		return nil, syntax(err)
	}
	if len(document.Content) == 0 { // comments alone
		return nil, io.EOF
	}
	return document.Content[0], nil
}

func syntax(err error) error {
	if err == io.EOF {
		return err
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		message := m[2]
		if strings.HasPrefix(message, "did not find expected") {
			line++ // the library's parser counts from 0, its scanner from 1
			message = "no valid YAML: " + message + "; check indentation, quotes and brackets here and in the line before"
		}
		return Problem{Line: line, Column: 1, Message: message}
	}
	return Problem{Line: 1, Column: 1, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
}

// fields calls take for each field of a mapping that is known, once.
func (r *reader) fields(of *yaml.Node, known []string, take func(name string, value *yaml.Node)) {
	taken := map[string]int{}
	for i := 0; i+1 < len(of.Content); i += 2 {
		key, value := of.Content[i], of.Content[i+1]
		name := key.Value
		switch first, twice := taken[name]; {
		case key.Kind != yaml.ScalarNode:
			r.problem(key, "the name of a field is %s", kind(key))
		case twice:
			r.problem(key, "field %q was already given at line %d", name, first)
		case !slices.Contains(known, name):
			taken[name] = key.Line
			r.problem(key, "unknown field %q%s", name, suggestion(name, known))
		default:
			taken[name] = key.Line
			take(name, value)
		}
	}
}

// entry reads one element of the list.
func (r *reader) entry(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "an endpoint is %s; write its fields, like {name: a, address: 10.0.0.1, port: 8000}", kind(n))
		return
	}
	before := len(r.problems)
	f := fieldsOf{reader: r, node: n, Entry: Entry{File: r.file, Line: n.Line, Column: n.Column, Endpoint: pool.Endpoint{Namespace: DefaultNamespace}}}
	r.fields(n, fieldNames, f.take)
	f.finish(len(r.problems) == before)
}

// kind names what a node is, for a problem.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias, which an endpoint file does not know"
	case n.Tag == "!!null":
		return "empty"
	}
	return strconv.Quote(n.Value)
}
