package pluginstest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	type facts = map[string]json.RawMessage
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, r := range []struct {
		name, text string
		want       World
	}{
		{"nothing", "", World{Request: facts{}}},
		{"names alone", "a; b ;c", World{facts{}, []Endpoint{{"a", facts{}}, {"b", facts{}}, {"c", facts{}}}}},
		{"a last semicolon ends nothing", "a;", World{facts{}, []Endpoint{{"a", facts{}}}}},
		{"numbers", "a waiting=0 kv-usage=0.5", World{facts{}, []Endpoint{{"a", facts{"waiting": raw("0"), "kv-usage": raw("0.5")}}}}},
		{"a bare word is a string", "a zone=eu-1", World{facts{}, []Endpoint{{"a", facts{"zone": raw(`"eu-1"`)}}}}},
		{"JSON may contain what separates", `a labels={"x": "y; z|="}; b`, World{facts{}, []Endpoint{{"a", facts{"labels": raw(`{"x": "y; z|="}`)}}, {"b", facts{}}}}},
		{"labels one by one are strings", "a label.x=1 label.y=z", World{facts{}, []Endpoint{{"a", facts{"labels": raw(`{"x":"1","y":"z"}`)}}}}},
		{"facts of the request", "prompt-blocks=3 block-hashes=[1,2] | a", World{facts{"prompt-blocks": raw("3"), "block-hashes": raw("[1,2]")}, []Endpoint{{"a", facts{}}}}},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, err := Parse(r.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, r := range []struct{ name, text, want string }{
		{"a fact without an endpoint", "waiting=1", "an endpoint begins with its name"},
		{"an empty endpoint", "a;;b", "an endpoint begins with its name"},
		{"two words", "a b", `"b" is neither`},
		{"a missing value", "a waiting=; b", `value of "waiting": it is missing`},
		{"broken JSON", `a labels={"x"; b`, `value of "labels"`},
		{"a fact said twice", "a waiting=1 waiting=2", `"waiting" is said twice`},
		{"a bar behind an endpoint", "a | b", "only facts of the request"},
		{"an equals sign alone", "a =3", "a value without a name"},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := Parse(r.text)
			if err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a waiting=0; b", `x=1 | a labels={"a":"b"} label.c=d`, "a;b;;", "|", "=", `a b="`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(text)
		if err != nil {
			return
		}
		for _, e := range w.Endpoints {
			if e.Name == "" {
				t.Errorf("%q: an endpoint without a name", text)
			}
			for name, v := range e.Facts {
				if !json.Valid(v) {
					t.Errorf("%q: fact %q is %q, no JSON", text, name, v)
				}
			}
		}
	})
}
