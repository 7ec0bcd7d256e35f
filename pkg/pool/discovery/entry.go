// Package discovery says which endpoints there are, without Kubernetes: from a file, static or watched, and from URLs on
// the command line.
package discovery

import (
	"fmt"
	"net/netip"

	"github.com/fairlead/fairlead/pkg/pool"
)

// DrainingAnnotation set to "true" makes an endpoint keep what is pinned to it and take nothing new.
const DrainingAnnotation = "fairlead.dev/draining"

// DefaultNamespace is that of an endpoint whose entry names none.
const DefaultNamespace = "default"

// Entry is one endpoint and where it was said.
type Entry struct {
	Pool string // by name; empty: the only pool
	pool.Endpoint

	File         string // empty for an endpoint from a URL
	Line, Column int    // from 1
}

// at returns a problem at the entry.
func (e *Entry) at(format string, args ...any) Problem {
	return Problem{File: e.File, Line: e.Line, Column: e.Column, Message: fmt.Sprintf(format, args...)}
}

// where names the entry's place for a problem elsewhere.
func (e *Entry) where() string {
	if e.File == "" {
		return "the command line"
	}
	return fmt.Sprintf("line %d", e.Line)
}

// Problem is one thing that is wrong with an endpoint file.
type Problem struct {
	File         string
	Line, Column int // from 1; 0 if it is about the file as a whole
	Message      string
}

// Error returns "file:line:column: message".
func (p Problem) Error() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// doubles finds entries of one pool with the same name or address. poolOf returns the pool that an entry goes to.
func doubles(entries []Entry, poolOf func(*Entry) string) (problems []Problem) {
	type named struct{ pool, namespace, name string }
	type addressed struct {
		pool string
		addr netip.AddrPort
	}
	names, addrs := map[named]*Entry{}, map[addressed]*Entry{}
	for i := range entries {
		e := &entries[i]
		in := poolOf(e)
		n, a := named{in, e.Namespace, e.Name}, addressed{in, e.Addr}
		if first := names[n]; first != nil {
			problems = append(problems, e.at("endpoint %s/%s was already given at %s; give it another name, or remove one of the two", e.Namespace, e.Name, first.where()))
		} else if first := addrs[a]; first != nil {
			problems = append(problems, e.at("address %s of endpoint %s/%s is that of %s/%s at %s; remove one of the two", e.Addr, e.Namespace, e.Name, first.Namespace, first.Name, first.where()))
		} else {
			names[n], addrs[a] = e, e
		}
	}
	return problems
}

// Apply makes the entries the membership of the pools; a pool without entries becomes empty. An entry without a pool goes
// to the only one. If anything is wrong, nothing is changed.
func Apply(now pool.Instant, entries []Entry, pools []*pool.Pool) []Problem {
	poolOf := func(e *Entry) string {
		if e.Pool == "" && len(pools) == 1 {
			return pools[0].Name
		}
		return e.Pool
	}
	var names []string
	members := map[string][]pool.Endpoint{}
	for _, p := range pools {
		names = append(names, p.Name)
		members[p.Name] = []pool.Endpoint{}
	}
	var problems []Problem
	for i := range entries {
		e := &entries[i]
		to := poolOf(e)
		list, known := members[to]
		switch {
		case known:
			members[to] = append(list, e.Endpoint)
		case to == "":
			problems = append(problems, e.at("endpoint %s/%s names no pool, and there are %d; add pool: with one of %s", e.Namespace, e.Name, len(pools), quotedList(names)))
		default:
			problems = append(problems, e.at("endpoint %s/%s: there is no pool %q%s", e.Namespace, e.Name, to, suggestion(to, names)))
		}
	}
	if problems = append(problems, doubles(entries, poolOf)...); len(problems) > 0 {
		return problems
	}
	for _, p := range pools {
		p.Update(now, members[p.Name])
	}
	return nil
}
