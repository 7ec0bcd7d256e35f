package openai

import (
	"strings"
	"testing"
)

// A token longer than what is kept across chunks is read from the chunks themselves, or is known to mean nothing.
func TestLongTokens(t *testing.T) {
	name := strings.Repeat("long/", maxCarry/4)
	key := strings.Repeat(`\u0065`, maxCarry/4)
	tests := []struct{ name, body, model, salt string }{
		{"a long model", `{"model":"` + name + `"}`, name, ""},
		{"a long model with escapes", `{"model":"` + name + `\n\u00e9"}`, name + "\né", ""},
		{"a long salt", `{"cache_salt":"` + name + `","model":"m"}`, "m", name},
		{"a long name of a member", `{"` + name + `":1,"model":"m"}`, "m", ""},
		{"a long name of a member in escapes", `{"` + key + `":1,"model":"m"}`, "m", ""},
		{"a long number", `{"max_tokens":1` + strings.Repeat("0", maxCarry) + `,"model":"m"}`, "m", ""},
		{"a long type", `{"messages":[{"role":"user","content":[{"type":"` + name + `"}]}],"model":"m"}`, "m", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := 0; cut <= len(tt.body); cut += 7 {
				sum, err := scan(ChatCompletions, tt.body, cut, min(cut+3, len(tt.body)))
				if err != nil || sum.Model != tt.model || sum.Salt != tt.salt || sum.MaxTokens != Unknown {
					t.Fatalf("cut at %d: model %q, salt %q, %d tokens, error %v", cut, sum.Model, sum.Salt, sum.MaxTokens, err)
				}
			}
		})
	}
}

// One unusual body must not make a reused Scanner hold memory for ever.
func TestResetLetsGoOfMemory(t *testing.T) {
	s := NewScanner(ChatCompletions)
	model := strings.Repeat("m", 1<<17)
	body := `{"model":"` + model + `","tools":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) +
		`,"messages":[` + strings.Repeat(`{"role":"u"},`, 5000) + `1]}`
	for _, c := range chunked([]byte(body), 1000) {
		if err := s.Feed(c); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := s.Finish(); err != nil || sum.Model != model || len(sum.Prompt) != 5002 {
		t.Fatalf("%d segments, error %v", len(sum.Prompt), err)
	}
	s.Reset(Completions)
	if cap(s.lex.stack) > 1024 || cap(s.prompt.arena) > 4096 || cap(s.scratch) > 1<<16 || cap(s.lex.carry) > 4*maxCarry {
		t.Errorf("kept a stack of %d, %d segments, %d + %d bytes", cap(s.lex.stack), cap(s.prompt.arena), cap(s.scratch), cap(s.lex.carry))
	}
}

func TestMediaByMember(t *testing.T) {
	for _, member := range []string{"image_url", "image_embeds", "audio_url", "input_audio", "video_url"} {
		for body, want := range map[string]bool{
			`{"messages":[{"role":"user","content":[{"` + member + `":{"url":"x"}}]}]}`:                true,
			`{"messages":[{"role":"user","content":[{"` + member + `":"x"}]}]}`:                        true,
			`{"messages":[{"role":"user","content":[{"` + member + `":null}]}]}`:                       false,
			`{"messages":[{"role":"user","content":[{"` + member + `":{},"` + member + `":null}]}]}`:   false,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a","` + member + `":1}]}]}`: false,
		} {
			if sum, err := scan(ChatCompletions, body); err != nil || sum.Multimodal != want {
				t.Errorf("%s: multimodal %v, error %v", body, sum.Multimodal, err)
			}
		}
	}
}
