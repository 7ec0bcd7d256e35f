package server

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/simulator/engine"
)

// What a client sends back as the assistant's turn must be the tokens that were generated, behind the tokens of the turn
// before; then the cache finds them.
func TestAConversationThatGoesOnKeepsItsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		render := func(list []message) []uint32 {
			raw, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			tokens, refused := promptTokens(map[string]json.RawMessage{"messages": raw}, chat, len(raw))
			if refused != nil {
				t.Fatal(refused.message)
			}
			return tokens
		}
		var list []message
		if rapid.Bool().Draw(t, "system") {
			list = append(list, message{"system", rapid.String().Draw(t, "instructions")})
		}
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			list = append(list, message{"user", rapid.String().Draw(t, "question")})
			before := render(list)
			a := newAnswer(rapid.Uint64().Draw(t, "seed"), 0, 0)
			n := rapid.Int32Range(1, 40).Draw(t, "tokens")
			text := string(a.appendText(nil, 0, n))
			if strings.TrimSpace(text) != text {
				t.Fatalf("%q does not survive trimming", text)
			}
			want := a.appendTokens(slices.Clone(before), 0, n)
			list = append(list, message{"assistant", text})
			after := render(append(slices.Clone(list), message{"user", "?"}))
			if !slices.Equal(after[:len(want)], want) {
				t.Fatalf("the turn after begins otherwise than with this turn and its answer")
			}
		}
	})
}

// FuzzParse feeds arbitrary bodies to the parser: it may refuse, but must say why, and what it takes must be a request that
// an engine takes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":"llama-3.1-8b","messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":"hello","min_tokens":3,"ignore_eos":false,"seed":-1,"cache_salt":"s"}`,
		`{"prompt":[[1,2,4294967295]],"n":1}`,
		`{"messages":[{"role":"tool","content":[{"type":"text","text":"a"},{"type":"image_url"}],"tool_call_id":"x"}],"tools":[{}],"max_completion_tokens":1e1}`,
		`{"prompt":null}`, `null`, `[]`, `{"messages":[[]]}`, "{\"prompt\":\"\xff\"}",
	} {
		for api := range byte(messages) + 1 {
			f.Add([]byte(seed), api)
		}
	}
	o, err := Options{}.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	h, models := newHost(&Fleet{options: o}, 0), newModelTable(o)
	e, err := engine.New(o.Profile, o.Engine)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, api byte) {
		g, refused := h.parse(body, shape(api)%(messages+1), models, o.Profile.MaxModelLen)
		if refused != nil {
			if refused.message == "" || refused.status < 400 || refused.status > 499 {
				t.Fatalf("refused with %+v", refused)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("took %q, which is no JSON", body)
		}
		if blocks := int(g.request.Prompt+g.request.Output) / int(o.Profile.BlockTokens); len(g.request.Hashes) != blocks {
			t.Fatalf("%d hashes for %d blocks", len(g.request.Hashes), blocks)
		}
		id, err := e.Add(0, g.request)
		if err != nil {
			t.Fatal(err)
		}
		e.Abort(id)
	})
}

// FuzzSplit compares the parts into which valid JSON is taken with those of encoding/json.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[{}, "\\\"]", null],"a" : "x\u00e9" }`, ` [ 1.5e3 ,"a,b]",{"c":[]} ] `, `{}`, `[]`, `"\\"`, `{"\u0061":0,"":"\ud800"}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		var object map[string]json.RawMessage
		isObject := json.Unmarshal(raw, &object) == nil && object != nil
		got := members(raw)
		if isObject != (got != nil) || len(got) != len(object) {
			t.Fatalf("members of %q: %q, want %q", raw, got, object)
		}
		for name, value := range object {
			if string(got[name]) != string(value) {
				t.Fatalf("member %q of %q is %q, want %q", name, raw, got[name], value)
			}
			if value[0] == '"' {
				var want string
				if err := json.Unmarshal(value, &want); err != nil {
					t.Fatal(err)
				}
				if s, ok := text(got[name]); !ok || string(s) != want {
					t.Fatalf("text of %s is %q, want %q", value, s, want)
				}
			}
		}
		var array []json.RawMessage
		isArray := json.Unmarshal(raw, &array) == nil && array != nil
		list, ok := elements(raw)
		if isArray != ok || len(list) != len(array) {
			t.Fatalf("elements of %q: %q, want %q", raw, list, array)
		}
		for i := range array {
			if string(list[i]) != string(array[i]) {
				t.Fatalf("element %d of %q is %q, want %q", i, raw, list[i], array[i])
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	o, err := Options{}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	h, models := newHost(&Fleet{options: o}, 0), newModelTable(o)
	for _, size := range []int{200, 8000, 100_000} {
		body, err := json.Marshal(map[string]any{"max_tokens": 100, "messages": []map[string]string{{"role": "user", "content": strings.Repeat("some text ", size/10)}}})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(strconv.Itoa(size)+" characters", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, refused := h.parse(body, chat, models, o.Profile.MaxModelLen); refused != nil {
					b.Fatal(refused.message)
				}
			}
		})
	}
}
