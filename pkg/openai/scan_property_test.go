package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// names are members that mean something somewhere; each may stand anywhere, and twice.
var names = strings.Fields(`model stream stream_options include_usage max_tokens max_completion_tokens max_output_tokens
	sampling_params n cache_salt system instructions tools functions tool_choice function_call chat_template
	chat_template_kwargs documents reasoning reasoning_effort thinking mm_processor_kwargs query queries text_1 data_1 text_2
	data_2 items token_ids prompt_token_ids prompt prompt_embeds features input messages role content tool_calls
	reasoning_content refusal audio type output text image_url audio_url other mod\u0065l rol\u0065 t\u0079pe`)

var scalars = []string{`null`, `true`, `false`, `0`, `7`, `-3`, `1.5`, `2e2`, `""`, `"a"`, `"text"`, `"te\u0078t"`, `"message"`,
	`"function_call"`, `"image_url"`, `"image"`, `"input_text"`, `"tool_result"`, `"user"`, `"é\n\ud83d\ude00"`, `"\\"`}

// document draws JSON that looks like a request to those who know no better: lists of objects of known members.
func document(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case depth == 0 || kind < 4:
		return rapid.SampledFrom(scalars).Draw(t, "scalar")
	case kind < 6:
		var b strings.Builder
		for i := range rapid.IntRange(0, 3).Draw(t, "length") {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(document(t, depth-1))
		}
		return "[" + b.String() + "]"
	}
	return members(t, depth, names)
}

func members(t *rapid.T, depth int, names []string) string {
	var b strings.Builder
	for i := range rapid.IntRange(0, 5).Draw(t, "members") {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`"` + rapid.SampledFrom(names).Draw(t, "name") + `": `)
		b.WriteString(document(t, depth-1))
	}
	return "{" + b.String() + " }"
}

// conversation draws messages with parts, well-formed but for what document puts in.
func conversation(t *rapid.T) string {
	part := func() string {
		return members(t, 3, []string{"type", "type", "text", "content", "image_url"})
	}
	var list []string
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		var fields []string
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			name := rapid.SampledFrom([]string{"role", "content", "content", "type", "output", "tool_calls", "reasoning"}).Draw(t, "field")
			value := rapid.SampledFrom(scalars).Draw(t, "value")
			if n := rapid.IntRange(0, 3).Draw(t, "parts"); n > 0 && name != "role" {
				var parts []string
				for range n {
					parts = append(parts, part())
				}
				value = "[" + strings.Join(parts, ",") + "]"
			}
			fields = append(fields, `"`+name+`":`+value)
		}
		list = append(list, "{"+strings.Join(fields, ",")+"}")
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Whatever a request is made of, the scanner reads what encoding/json does, however it is cut.
func TestScanReadsWhatEncodingJSONReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		api := API(rapid.IntRange(0, int(Models)).Draw(t, "api"))
		body := members(t, 4, names)
		if rapid.Bool().Draw(t, "conversation") {
			name := "messages"
			if api == Responses {
				name = "input"
			}
			tail := `"x":1}`
			if len(body) > 3 {
				tail = body[1:]
			}
			body = `{"` + name + `":` + conversation(t) + "," + tail
		}
		if !json.Valid([]byte(body)) {
			t.Fatalf("the test made %s", body)
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(body)), 0, 6).Draw(t, "cuts")
		slices.Sort(cuts)
		sum, err := scan(api, body, cuts...)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(reference(api, []byte(body)), digest(sum)); d != "" {
			t.Fatalf("%v %s\n-encoding/json +scanner:\n%s", api, body, d)
		}
		for i := 1; i < len(sum.Prompt); i++ {
			if sum.Prompt[i].Span.Len() <= 0 {
				t.Fatalf("an empty segment: %+v", sum.Prompt)
			}
		}
	})
}
