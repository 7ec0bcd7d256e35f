package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// memberOf is a member of an object, its name decoded and its value as it stands.
type memberOf struct {
	name string
	raw  string
}

// membersOf reads the members of a valid object in their order, twins included.
func membersOf(t *testing.T, body []byte) (all []memberOf) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		all = append(all, memberOf{name.(string), string(raw)})
	}
	return all
}

// draw writes a body that has a model, somewhere, perhaps twice, perhaps with an escaped name.
func draw(rng *rand.Rand) []byte {
	blanks := []string{"", "", "", " ", "\n\t"}
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	values := []string{`9007199254740995`, `1.0`, `-0.1e-7`, `1e400`, `"\u00e9\/é\ud83d\ude00"`, `{"model":"no","model":1}`, `[{"role":"user","content":"say \"model\":\"int\""}]`,
		`null`, `[1,2 , 3]`, `""`, `{"a":{"a":[[]]}}`, `true`, `[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"x"}}]}]`}
	models := []string{`"m"`, `"m-\u0062ase"`, `"a/b:c@1"`, `"käse \"q\""`, `"` + strings.Repeat("long", 40) + `"`}
	members := rng.IntN(7)
	at := rng.IntN(members + 1)
	b := []byte("{")
	for i := 0; i <= members; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		name, value := pick([]string{`"seed"`, `"messages"`, `"prompt"`, `"x"`, `"tools"`, `"stream"`, `"mode\u006c "`, `"Model"`}), pick(values)
		if i == at || rng.IntN(12) == 0 && i < at {
			name, value = pick([]string{`"model"`, `"model"`, `"\u006dodel"`, `"mod\u0065l"`}), pick(models)
		}
		b = append(b, pick(blanks)+name+pick(blanks)+":"+pick(blanks)+value+pick(blanks)...)
	}
	return append(b, "}"+pick(blanks)...)
}

// editedBodies is how many bodies are edited: 50,000, or as many as FAIRLEAD_LONG says.
func editedBodies(t *testing.T) int {
	n, err := 50_000, error(nil)
	if long := os.Getenv("FAIRLEAD_LONG"); long != "" {
		if n, err = strconv.Atoi(long); err != nil || n < 1 {
			t.Fatalf("FAIRLEAD_LONG is %q; want a number of bodies", long)
		}
	}
	return n
}

// Reading an edited body is editing the body that was read: the model is another, a member more stands in front, and every
// other member has its bytes and its place. What no edit covers is the client's bytes.
func TestEditedBodies(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 26))
	s := NewScanner(ChatCompletions)
	var chunks, pieces [][]byte
	for n := range editedBodies(t) {
		body := draw(rng)
		s.Reset(ChatCompletions)
		chunks = chunks[:0]
		for rest := body; len(rest) > 0; {
			k := min(1+rng.IntN(40), len(rest))
			chunks = append(chunks, rest[:k:k])
			rest = rest[k:]
		}
		for _, c := range chunks {
			if err := s.Feed(c); err != nil {
				t.Fatalf("body %d, %s: %v", n, body, err)
			}
		}
		sum, err := s.Finish()
		if err != nil {
			t.Fatalf("body %d, %s: %v", n, body, err)
		}
		before := membersOf(t, body)
		last := -1
		for i, m := range before {
			if m.name == "model" {
				last = i
			}
		}
		if got := string(sum.AppendSpan(nil, sum.ModelSpan)); last < 0 || got != before[last].raw {
			t.Fatalf("body %d, %s: the model stands at %s", n, body, got)
		}
		to := fmt.Sprintf("new \"%d\" é", rng.IntN(1000))
		want := slices.Clone(before)
		want[last].raw = string(QuoteModel(to))
		edits := []Edit{{sum.ModelSpan, QuoteModel(to)}}
		if rng.IntN(2) == 0 {
			edits = []Edit{{Span{1, 1}, []byte(`"stream_options":{"include_usage":true},`)}, edits[0]}
			want = append([]memberOf{{"stream_options", `{"include_usage":true}`}}, want...)
		}
		pieces = pieces[:0]
		off := int64(0)
		for _, c := range chunks {
			pieces = Splice(pieces, off, c, edits)
			off += int64(len(c))
		}
		got := bytes.Join(pieces, nil)
		if after := membersOf(t, got); !slices.Equal(after, want) {
			t.Fatalf("body %d, %s\nbecame %s\nread as %q\nwant    %q", n, body, got, after, want)
		}
		if plain := edited(string(body), edits); string(got) != plain {
			t.Fatalf("body %d, %s\nbecame %s\nwant   %s", n, body, got, plain)
		}
		if int64(len(got)) != int64(len(body))+Delta(edits) {
			t.Fatalf("body %d: %d bytes; Delta foretells %d", n, len(got), int64(len(body))+Delta(edits))
		}
		for _, p := range pieces { // parts of the client's memory, or an edit's own
			own := false
			for _, e := range edits {
				own = own || len(e.New) > 0 && &p[0] == &e.New[0]
			}
			if at := bytes.Index(body, p); !own && at < 0 {
				t.Fatalf("body %d: %q is neither the client's nor an edit's", n, p)
			}
		}
	}
}
