package openai

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// numberLists are lists of token ids as somebody may write them, right and wrong.
var numberLists = []string{
	"1,2,3,4,5,6,7,8,9,10,11,12,13", "1, 2, 3, 4, 50000, 60000, 7, 8, 900000, 10, 11, 12", "12345678901234567890, 1,2,3,4,5,6,7",
	"0,0,0,0,0,0,0,0,0,0,0,0,0", "10,20,30,100,200,0,7,0,80,1000,5,5", "1,2,3,4,5,6,7,08,9,10,11,12", "1,2,3,4,5,6,0,07,9,10,11,12",
	"1,2,3,4,5,6,7,,8,9,10,11,12", "1,2,3,4,5,6,7 8,9,10,11,12,13", "1,2,3,4,5,6,7 ,8,9,10,11,12", "1,2,3,4,5,6,7,  8,9,10,11,12", "1,2,3,4,5,6,7, ,8,9,10,11",
	"1,2,3,4,5,6,7,-8,9,10,11,12", "1,2,3,4,5,6,7.5,8,9,10,11,12", "1,2,3,4,5e1,6,7,8,9,10,11,12", "1,2,3,4,5,6,7,8,", "1,2,3,4,5,6,7,8,9,10,11,12,13,14, ",
	"1,\n2,\n3,\n4,\n5,\n6,\n7,\n8,\n9", "1,2,3,4,null,5,6,7,8,9,10", `1,2,3,4,"5",6,7,8,9,10,11`, "1,2,3,4,[5,6],7,8,9,10,11", ",1,2,3,4,5,6,7,8,9", "1,2,3,4,5,6,7,8\x00,9,10",
	"1,2,3,4,5,6,7,8\xb0,9,10,11,12,13,14,15,16", "1,2,3,4,5,6,7,\xac8,9,10,11,12,13,14,15,16", "0,1,0,1,00,1,0,1,0,1,0,1,0,1",
}

// A list read by the run of its numbers is the list that encoding/json reads.
func TestNumberRuns(t *testing.T) {
	for _, list := range numberLists {
		for _, lead := range []string{"", "1", "22,", "333, ", "[9,", "9],["} {
			body := `{"prompt":[` + lead + list + `]}`
			for cut := 0; cut <= len(body); cut++ {
				sum, err := scan(Completions, body, cut)
				if valid := json.Valid([]byte(body)); (err == nil) != valid {
					t.Fatalf("%q cut at %d: error %v; encoding/json says %v", body, cut, err, valid)
				}
				if err == nil {
					want := reference(Completions, []byte(body))
					if sum.PromptTokens != want.PromptTokens || fmt.Sprint(segments(sum)) != fmt.Sprint(want.Prompt) {
						t.Fatalf("%q cut at %d: %d tokens, %q; want %d, %q", body, cut, sum.PromptTokens, segments(sum), want.PromptTokens, want.Prompt)
					}
				}
			}
		}
	}
}

// Whatever is skipped is judged as encoding/json judges it: documents with a byte changed here and there.
func TestSkippedIsJudged(t *testing.T) {
	pieces := []string{`{"type":"object","properties":{"x":{"type":"number"}}}`, `{"a": [1, 2, 3, 40000, 5, 6], "b": true, "c":null,"d":false}`,
		`[[],{},[[]],{"a":{}}]`, `"plain"`, `"esc\"aped é"`, `-1.5e3`, `[1,2,3,4,5,6,7,8,9,10,11,12,13,14]`, `{"long name of a member that goes on":"and a value that is as long"}`, `0`, `[0,10]`}
	change := []byte(`{}[]",: 0159tfn\x` + "\n\x00\xff-.e")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60_000 {
		var b strings.Builder
		b.WriteString(`{"tools":[`)
		for i := range 1 + rng.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		b.WriteString(`],"x":` + pieces[rng.IntN(len(pieces))] + `,"model":"m"}`)
		body := []byte(b.String())
		for range rng.IntN(3) {
			body[rng.IntN(len(body))] = change[rng.IntN(len(change))]
		}
		cut := rng.IntN(len(body) + 1)
		sum, err := scan(ChatCompletions, string(body), cut)
		valid := json.Valid(body) && strings.ToValidUTF8(string(body), "") == string(body)
		if (err == nil) != valid {
			t.Fatalf("%q cut at %d: error %v; encoding/json says %v", body, cut, err, valid)
		}
		if want := reference(ChatCompletions, body); err == nil && (sum.Model != want.Model || fmt.Sprint(segments(sum)) != fmt.Sprint(want.Prompt)) {
			t.Fatalf("%q cut at %d: model %q, %q; want %q, %q", body, cut, sum.Model, segments(sum), want.Model, want.Prompt)
		}
	}
}
