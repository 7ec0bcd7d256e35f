package discovery

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

var fieldNames = []string{"name", "namespace", "address", "port", "ports", "metricsPort", "labels", "annotations", "node", "pool"}

// The bounds of an entry.
const (
	maxName  = 253 // as in Kubernetes
	maxPorts = 256 // ranks of one pod
)

// fieldsOf collects the fields of one entry.
type fieldsOf struct {
	*reader
	node *yaml.Node
	Entry
	addr        netip.Addr
	ports       []uint16
	portsAt     *yaml.Node // the field port or ports
	metricsPort uint16
	metricsAt   *yaml.Node
}

func (f *fieldsOf) take(name string, v *yaml.Node) {
	switch name {
	case "name":
		f.Name = f.word(name, v)
	case "namespace":
		f.Namespace = f.word(name, v)
	case "node":
		f.Node = f.word(name, v)
	case "pool":
		f.Pool = f.word(name, v)
	case "address":
		f.addr = f.address(v)
	case "port", "ports":
		if f.portsAt != nil {
			f.problem(v, "both port and ports are given; write one of them")
			return
		}
		f.portsAt = v
		f.ports = f.portList(name, v)
	case "metricsPort":
		f.metricsAt = v
		f.metricsPort = f.port(name, v)
	case "labels":
		f.Labels = f.words(name, v)
	case "annotations":
		f.Annotations = f.words(name, v)
	}
}

// finish checks what is missing, and adds an entry per port.
func (f *fieldsOf) finish(sound bool) {
	if !sound {
		return // what is missing may be what was refused
	}
	switch {
	case f.Name == "":
		f.problem(f.node, "name is missing")
		return
	case !f.addr.IsValid():
		f.problem(f.node, "endpoint %q: address is missing; write an IP address", f.Name)
		return
	case f.portsAt == nil:
		f.problem(f.node, "endpoint %q: port is missing; write the port of its API, like port: 8000", f.Name)
		return
	case f.metricsAt != nil && len(f.ports) > 1:
		f.problem(f.metricsAt, "endpoint %q: one page of metrics cannot tell the load of %d ports apart; leave metricsPort out, or write an endpoint for each port", f.Name, len(f.ports))
		return
	}
	f.Draining = f.Annotations[DrainingAnnotation] == "true"
	for i, port := range f.ports {
		e := f.Entry
		e.Addr = netip.AddrPortFrom(f.addr, port)
		e.Metrics = e.Addr
		if f.metricsAt != nil {
			e.Metrics = netip.AddrPortFrom(f.addr, f.metricsPort)
		}
		if len(f.ports) > 1 {
			e.Name, e.Rank = fmt.Sprintf("%s-rank-%d", f.Name, i), int32(i)
		}
		f.entries = append(f.entries, e)
	}
}

// text reads a scalar as it is written: 1.10 stays 1.10.
func (f *fieldsOf) text(name string, v *yaml.Node) (string, bool) {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		f.problem(v, "%s is %s; write a text", name, kind(v))
		return "", false
	}
	return v.Value, true
}

// word reads a name: it stands in records and metrics as namespace/name.
func (f *fieldsOf) word(name string, v *yaml.Node) string {
	s, ok := f.text(name, v)
	switch {
	case !ok:
	case s == "":
		f.problem(v, "%s is empty; leave it out, or write a name", name)
	case len(s) > maxName:
		f.problem(v, "%s has %d bytes; at most %d", name, len(s), maxName)
	case strings.ContainsFunc(s, func(r rune) bool {
		return r == '/' || r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}):
		f.problem(v, "%s is %q; a name has no blanks, slashes or control characters", name, s)
	default:
		return s
	}
	return ""
}

func (f *fieldsOf) words(name string, v *yaml.Node) map[string]string {
	if v.Kind != yaml.MappingNode {
		f.problem(v, "%s is %s; write a mapping, like {gpu: h100}", name, kind(v))
		return nil
	}
	m := make(map[string]string, len(v.Content)/2)
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, ok := f.text("a key of "+name, v.Content[i])
		if !ok {
			continue
		}
		if _, twice := m[key]; twice {
			f.problem(v.Content[i], "%s has the key %q twice", name, key)
			continue
		}
		if value, ok := f.text(name+"."+key, v.Content[i+1]); ok {
			m[key] = value
		}
	}
	return m
}

func (f *fieldsOf) address(v *yaml.Node) netip.Addr {
	s, ok := f.text("address", v)
	if !ok {
		return netip.Addr{}
	}
	addr, err := ParseAddress(s)
	if err != nil {
		f.problem(v, "address is %q; %v", s, err)
	}
	return addr
}

func (f *fieldsOf) portList(name string, v *yaml.Node) []uint16 {
	if name == "port" {
		return []uint16{f.port(name, v)}
	}
	switch {
	case v.Kind != yaml.SequenceNode || len(v.Content) == 0:
		f.problem(v, "ports is %s; write a list of ports, like [8000, 8001]", kind(v))
		return nil
	case len(v.Content) > maxPorts:
		f.problem(v, "ports has %d elements; at most %d", len(v.Content), maxPorts)
		return nil
	}
	ports := make([]uint16, len(v.Content))
	for i, n := range v.Content {
		ports[i] = f.port("port", n)
	}
	return ports
}

func (f *fieldsOf) port(name string, v *yaml.Node) uint16 {
	if v.Kind == yaml.ScalarNode {
		if port := parsePort(v.Value); port != 0 {
			return port
		}
	}
	f.problem(v, "%s is %s; write a number from 1 to 65535", name, kind(v))
	return 0
}
