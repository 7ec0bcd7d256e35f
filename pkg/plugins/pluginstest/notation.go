package pluginstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// World is a pool written down: endpoints in order, with what is known of each and of the request.
type World struct {
	Request   map[string]json.RawMessage // facts of the request by name
	Endpoints []Endpoint
}

// Endpoint is one of a world: a name and facts by name.
type Endpoint struct {
	Name  string
	Facts map[string]json.RawMessage
}

// Parse reads a world in the compact notation:
//
//	a waiting=0 kv-usage=0.5; b waiting=64 label.zone=eu; c
//	prompt-blocks=10 | a cached-blocks=8; b labels={"zone":"eu"}
//
// Endpoints are separated by semicolons: a name, then facts by the names that plugins.Fact gives them. Facts of the
// request stand before a bar. A value is JSON, or a bare word for a string; label.K=V adds one label. What is not said is
// unknown.
func Parse(text string) (*World, error) {
	w := &World{Request: map[string]json.RawMessage{}}
	s := scanner{rest: text}
	name, facts := "", map[string]json.RawMessage{}
	flush := func() {
		if name != "" {
			w.Endpoints = append(w.Endpoints, Endpoint{name, facts})
		}
		name, facts = "", map[string]json.RawMessage{}
	}
	for {
		switch word := s.word(); {
		case word == "" && s.rest == "":
			if name == "" && len(facts) > 0 {
				return nil, fmt.Errorf("world %q: an endpoint begins with its name", text)
			}
			flush()
			return w, nil
		case s.take('='):
			value, err := s.value()
			if err != nil {
				return nil, fmt.Errorf("world %q: value of %q: %w", text, word, err)
			}
			if err := enter(facts, word, value); err != nil {
				return nil, fmt.Errorf("world %q: %w", text, err)
			}
		case word != "" && name == "" && len(facts) == 0:
			name = word
		case word != "":
			return nil, fmt.Errorf("world %q: %q is neither name=value nor the first word of an endpoint", text, word)
		case s.take(';'):
			if name == "" {
				return nil, fmt.Errorf("world %q: an endpoint begins with its name", text)
			}
			flush()
		case s.take('|'):
			if name != "" || len(w.Endpoints) > 0 || len(w.Request) > 0 {
				return nil, fmt.Errorf("world %q: only facts of the request stand before the bar, and there is one bar", text)
			}
			w.Request, facts = facts, map[string]json.RawMessage{}
		default:
			return nil, fmt.Errorf("world %q: cannot read on at %q", text, s.rest)
		}
	}
}

// enter adds a fact; label.K adds to the fact labels.
func enter(facts map[string]json.RawMessage, name string, value json.RawMessage) error {
	if name == "" {
		return fmt.Errorf("a value without a name before its \"=\"")
	}
	key, isLabel := strings.CutPrefix(name, "label.")
	if !isLabel {
		if _, twice := facts[name]; twice {
			return fmt.Errorf("%q is said twice", name)
		}
		facts[name] = value
		return nil
	}
	labels := map[string]string{}
	if old, ok := facts["labels"]; ok {
		if err := json.Unmarshal(old, &labels); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value) // a label's value is a string, whatever it looks like
	}
	labels[key] = text
	raw, err := json.Marshal(labels)
	facts["labels"] = raw
	return err
}

// scanner reads words and values from a world.
type scanner struct{ rest string }

func (s *scanner) word() string {
	s.rest = strings.TrimLeft(s.rest, " \t\n")
	end := strings.IndexAny(s.rest, " \t\n=;|")
	if end < 0 {
		end = len(s.rest)
	}
	word := s.rest[:end]
	s.rest = s.rest[end:]
	return word
}

func (s *scanner) take(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value reads a JSON value, or a bare word as a string.
func (s *scanner) value() (json.RawMessage, error) {
	if s.rest != "" && strings.IndexByte(`{["`, s.rest[0]) >= 0 {
		d := json.NewDecoder(strings.NewReader(s.rest))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		s.rest = s.rest[d.InputOffset():]
		return bytes.Clone(raw), nil
	}
	word := s.word()
	if word == "" {
		return nil, fmt.Errorf("it is missing")
	}
	if json.Valid([]byte(word)) {
		return json.RawMessage(word), nil
	}
	return json.Marshal(word)
}
