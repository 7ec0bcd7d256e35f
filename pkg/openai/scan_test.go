package openai

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// scan reads body in chunks that end at the given offsets.
func scan(api API, body string, cuts ...int) (*Summary, error) {
	s := NewScanner(api)
	from := 0
	for _, c := range append(cuts, len(body)) {
		if err := s.Feed([]byte(body[from:c])); err != nil {
			sum, again := s.Finish()
			if again != err {
				return sum, errors.New("Finish forgot the error of Feed")
			}
			return sum, err
		}
		from = c
	}
	return s.Finish()
}

var kindNames = [...]string{"text", "role", "part", "tools", "system", "tokens", "media"}

// segments prints a prompt, one "kind bytes" per segment.
func segments(sum *Summary) []string {
	var out []string
	for _, g := range sum.Prompt {
		out = append(out, kindNames[g.Kind]+" "+string(sum.AppendSpan(nil, g.Span)))
	}
	return out
}

func TestScanPrompt(t *testing.T) {
	tests := []struct {
		name string
		api  API
		body string
		want []string
	}{
		{"a chat's roles and texts, in order", ChatCompletions,
			`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"hi \u00e9\n"}]}`,
			[]string{"role system", "text S", "role user", `text hi \u00e9\n`}},
		{"content before role", ChatCompletions, `{"messages":[{"content":"hi","role":"user"}]}`, []string{"role user", "text hi"}},
		{"tools stand before messages", ChatCompletions,
			`{"messages":[{"role":"user","content":"q"}],"tool_choice":"auto","tools":[{"type":"function","function":{"name":"f1"}}]}`,
			[]string{`tools [{"type":"function","function":{"name":"f1"}}]`, `tools "auto"`, "role user", "text q"}},
		{"tools that are null are no tools", ChatCompletions, `{"tools":null,"messages":[]}`, nil},
		{"template arguments and documents change the prompt", ChatCompletions,
			`{"documents":[{"text":"d"}],"chat_template_kwargs":{"enable_thinking":false},"messages":[]}`,
			[]string{`tools {"enable_thinking":false}`, `tools [{"text":"d"}]`}},
		{"text parts are text, other parts raw", ChatCompletions,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"what?"},{"image_url":{"url":"https://x/1.png"},"type":"image_url"},{"type":"odd","x":[1, 2]}]}]}`,
			[]string{"role user", "text what?", `media {"image_url":{"url":"https://x/1.png"},"type":"image_url"}`, `part {"type":"odd","x":[1, 2]}`}},
		{"a part's text before its type", ChatCompletions, `{"messages":[{"role":"user","content":[{"text":"a","type":"text"}]}]}`, []string{"role user", "text a"}},
		{"a part's type with an escape", ChatCompletions, `{"messages":[{"role":"user","content":[{"text":"a","ty\u0070e":"te\u0078t"}]}]}`, []string{"role user", "text a"}},
		{"a text part whose text is no string", ChatCompletions, `{"messages":[{"role":"user","content":[{"text":7,"type":"text"}]}]}`, []string{"role user", `part {"text":7,"type":"text"}`}},
		{"a part without type is raw", ChatCompletions, `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, []string{"role user", `part {"text":"a"}`}},
		{"a plain string among the parts", ChatCompletions, `{"messages":[{"role":"user","content":["a","b"]}]}`, []string{"role user", "text a", "text b"}},
		{"tool calls and results", ChatCompletions,
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"42"}]}`,
			[]string{"role assistant", `part [{"id":"1"}]`, "role tool", "text 42"}},
		{"reasoning of an earlier turn", ChatCompletions, `{"messages":[{"reasoning_content":"r","role":"assistant","content":"c"}]}`,
			[]string{"role assistant", "text c", `part "r"`}},
		{"the last of two messages members wins", ChatCompletions,
			`{"messages":[{"role":"user","content":"old"}],"n":1,"messages":[{"role":"user","content":"new"}]}`, []string{"role user", "text new"}},
		{"the last of two contents wins", ChatCompletions, `{"messages":[{"role":"user","content":["a","b"],"name":"x","content":"c"}]}`, []string{"role user", "text c"}},
		{"the last of two roles wins", ChatCompletions, `{"messages":[{"role":"user","content":"c","role":"system"}]}`, []string{"role system", "text c"}},
		{"the last of two texts wins", ChatCompletions, `{"messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}`, []string{"role user", "text b"}},
		{"a null content takes back the first", ChatCompletions, `{"messages":[{"role":"user","content":"a","content":null}]}`, []string{"role user"}},
		{"messages that are no list", ChatCompletions, `{"messages":{"role":"user"}}`, []string{`part {"role":"user"}`}},
		{"messages that are no objects", ChatCompletions, `{"messages":["a",1,null,["b"],{}]}`, []string{"text a", "part 1", `part ["b"]`, "part {}"}},
		{"content that is an object", ChatCompletions, `{"messages":[{"role":"user","content":{"a":1}}]}`, []string{"role user", `part {"a":1}`}},
		{"content that is a number", ChatCompletions, `{"messages":[{"role":"user","content":1}]}`, []string{"role user", `part 1`}},

		{"a completion's prompt", Completions, `{"prompt":"once"}`, []string{"text once"}},
		{"several prompts", Completions, `{"prompt":["alpha","beta"]}`, []string{"text alpha", "text beta"}},
		{"a prompt of token ids", Completions, `{"prompt":[1, 2,3]}`, []string{"tokens [1, 2,3]"}},
		{"several prompts of token ids", Completions, `{"prompt":[[1,2],[3]]}`, []string{"tokens [1,2]", "tokens [3]"}},
		{"a prompt of both kinds is raw", Completions, `{"prompt":[1,"a"]}`, []string{`part [1,"a"]`}},
		{"nested prompts of both kinds are raw", Completions, `{"prompt":[[1],["a"]]}`, []string{`part [[1],["a"]]`}},
		{"a prompt three lists deep is raw", Completions, `{"prompt":[[[1]]]}`, []string{`part [[[1]]]`}},
		{"an empty prompt", Completions, `{"prompt":""}`, nil},
		{"chat members mean nothing to completions", Completions, `{"prompt":"a","tools":[1],"messages":[{"role":"user"}]}`, []string{"text a"}},

		{"responses with a plain input", Responses, `{"input":"q","instructions":"i"}`, []string{"system i", "text q"}},
		{"responses with items", Responses,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"message","role":"assistant","content":"a"},{"call_id":"1","type":"function_call_output","output":"42"}],"tools":[]}`,
			[]string{"tools []", "role user", "text q", "role assistant", "text a", `part {"call_id":"1","type":"function_call_output","output":"42"}`}},

		{"anthropic's system stands first, its text parts as system", Messages,
			`{"messages":[{"role":"user","content":"u"}],"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}]}`,
			[]string{"system S", "role user", "text u"}},
		{"anthropic's system as a string", Messages, `{"system":"S","messages":[]}`, []string{"system S"}},
		{"anthropic's tool use and results", Messages,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":"r"}]}]}`, []string{"role user", `part {"type":"tool_result","content":"r"}`}},

		{"embeddings of several texts", Embeddings, `{"input":["a","b"]}`, []string{"text a", "text b"}},
		{"embeddings of a conversation", Embeddings, `{"messages":[{"role":"user","content":"a"}]}`, []string{"role user", "text a"}},
		{"rerank: the query before the documents", Rerank, `{"documents":["d",{"text":"e"}],"query":"q"}`, []string{"text q", "text d", `part {"text":"e"}`}},
		{"score of two texts", Score, `{"text_2":["b","c"],"text_1":"a"}`, []string{"text a", "text b", "text c"}},
		{"classify", Classify, `{"input":"a"}`, []string{"text a"}},
		{"generate", Generate, `{"token_ids":[5,6],"sampling_params":{}}`, []string{"tokens [5,6]"}},
		{"other paths have no prompt that we know of", Other, `{"prompt":"a","messages":[{"role":"user"}]}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.body) + 1 {
				sum, err := scan(tt.api, tt.body, cut)
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if d := cmp.Diff(tt.want, segments(sum)); d != "" {
					t.Fatalf("cut at %d (-want +got):\n%s", cut, d)
				}
			}
		})
	}
}

func TestScanFields(t *testing.T) {
	type fields struct {
		Model          string
		Stream, Usage  bool
		Max, N         int64
		Salt           string
		Tokens, Bytes  int64
		Multimodal, Ok bool
	}
	none := fields{Max: Unknown, N: 1, Tokens: Unknown, Ok: true}
	with := func(change func(*fields)) fields { f := none; change(&f); return f }
	tests := []struct {
		name string
		api  API
		body string
		want fields
	}{
		{"nothing given", ChatCompletions, `{}`, none},
		{"everything given", ChatCompletions,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"n":2,"cache_salt":"s"}`,
			fields{"m", true, true, 7, 2, "s", Unknown, 0, false, true}},
		{"a name and a key with escapes", ChatCompletions, `{"mod\u0065l":"a\/\ud83d\ude00\ud800"}`, with(func(f *fields) { f.Model = "a/😀\ufffd" })},
		{"the last model wins", ChatCompletions, `{"model":"a","model":"b"}`, with(func(f *fields) { f.Model = "b" })},
		{"a model that is no string is none", ChatCompletions, `{"model":"a","model":7}`, none},
		{"a model deeper down is not the model", ChatCompletions, `{"metadata":{"model":"a"},"n":1}`, none},
		{"the smallest limit counts", ChatCompletions, `{"max_completion_tokens":9,"max_tokens":8}`, with(func(f *fields) { f.Max = 8 })},
		{"of one limit the last counts", ChatCompletions, `{"max_tokens":3,"max_tokens":8}`, with(func(f *fields) { f.Max = 8 })},
		{"a limit taken back", ChatCompletions, `{"max_tokens":3,"max_tokens":null}`, none},
		{"a limit as a float that is whole", ChatCompletions, `{"max_tokens":1.2e2}`, with(func(f *fields) { f.Max = 120 })},
		{"limits that are none", ChatCompletions, `{"max_tokens":-1,"max_completion_tokens":1e300,"max_output_tokens":1.5}`, none},
		{"a limit as a string is none", ChatCompletions, `{"max_tokens":"7"}`, none},
		{"stream as a string is none", ChatCompletions, `{"stream":"true","stream_options":{"include_usage":"yes"}}`, none},
		{"stream options null", ChatCompletions, `{"stream_options":{"include_usage":true},"stream_options":null}`, none},
		{"stream options replaced", ChatCompletions, `{"stream_options":{"include_usage":true},"stream_options":{}}`, none},
		{"n of nought is one", ChatCompletions, `{"n":0}`, none},
		{"token ids are counted", Completions, `{"prompt":[1,2,3]}`, with(func(f *fields) { f.Tokens, f.Bytes = 3, 7 })},
		{"nested token ids are counted", Embeddings, `{"input":[[1,2],[3]]}`, with(func(f *fields) { f.Tokens, f.Bytes = 3, 8 })},
		{"texts are not counted", Completions, `{"prompt":["abc","de"]}`, with(func(f *fields) { f.Bytes = 5 })},
		{"generate: limits one level down", Generate, `{"sampling_params":{"max_tokens":5,"n":3},"token_ids":[1]}`,
			with(func(f *fields) { f.Max, f.N, f.Tokens, f.Bytes = 5, 3, 1, 3 })},
		{"an image makes it multimodal, and its bytes are no text", ChatCompletions,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"abc"},{"type":"image_url","image_url":{"url":"data:AAAA"}}]}]}`,
			with(func(f *fields) { f.Multimodal, f.Bytes = true, 7 })},
		{"a media part without type", ChatCompletions, `{"messages":[{"content":[{"audio_url":{"url":"u"}}]}]}`, with(func(f *fields) { f.Multimodal = true })},
		{"an image in a tool's result", Messages, `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`,
			with(func(f *fields) { f.Multimodal, f.Bytes = true, 51 })},
		{"an image in a message that was replaced", ChatCompletions, `{"messages":[{"content":[{"type":"image"}]}],"messages":[]}`, none},
		{"other paths: only the model, stream and the limit", Other, `{"model":"m","stream":true,"max_tokens":4,"n":5,"cache_salt":"x","stream_options":{"include_usage":true}}`,
			with(func(f *fields) { f.Model, f.Stream, f.Max = "m", true, 4 })},
		{"an array is JSON, if no request", ChatCompletions, `[{"model":"m"}]`, with(func(f *fields) { f.Ok = false })},
		{"a bare number is JSON, if no request", ChatCompletions, `123`, with(func(f *fields) { f.Ok = false })},
		{"null is JSON, if no request", ChatCompletions, ` null `, with(func(f *fields) { f.Ok = false })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.body) + 1 {
				s := NewScanner(tt.api)
				if err := errors.Join(s.Feed([]byte(tt.body[:cut])), s.Feed([]byte(tt.body[cut:]))); err != nil {
					t.Fatal(err)
				}
				sum, err := s.Finish()
				if err != nil {
					t.Fatal(err)
				}
				got := fields{sum.Model, sum.Stream, sum.IncludeUsage, sum.MaxTokens, sum.N, sum.Salt, sum.PromptTokens, sum.PromptBytes, sum.Multimodal, s.IsObject()}
				if got != tt.want {
					t.Fatalf("cut at %d: got %+v, want %+v", cut, got, tt.want)
				}
				if !sum.Complete || sum.Bytes != int64(len(tt.body)) {
					t.Fatalf("complete %v, %d bytes", sum.Complete, sum.Bytes)
				}
				if q := sum.AppendSpan(nil, sum.ModelSpan); sum.Model != "" && (q[0] != '"' || q[len(q)-1] != '"') {
					t.Fatalf("the model's span is %s", q)
				}
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	deep := strings.Repeat("[", maxDepth)
	tests := []struct {
		name, body string
		offset     int64
		what       string
	}{
		{"an empty body", "", 0, "the body is empty"},
		{"a blank body", " \n", 2, "the body ends too early"},
		{"a body cut short", `{"model":"m"`, 12, "the body ends too early"},
		{"a string cut short", `{"model":"m`, 11, "the body ends too early"},
		{"a byte order mark", "\xef\xbb\xbf{}", 0, "a byte order mark must not stand before the value"},
		{"a second value", `{} {}`, 3, "nothing may follow the outermost value"},
		{"a comma too many", `{"a":1,}`, 7, "the name of a member in double quotes is expected"},
		{"a comma too many in an array", `[1,]`, 3, "a value is expected"},
		{"single quotes", `{'a':1}`, 1, "the name of a member in double quotes is expected"},
		{"no colon", `{"a" 1}`, 5, "a colon is expected after the name of a member"},
		{"no comma", `{"a":1 "b":2}`, 7, "a comma or the end of the object is expected"},
		{"the wrong bracket", `[1}`, 2, "a comma or the end of the array is expected"},
		{"NaN", `[NaN]`, 1, "a value is expected"},
		{"a word that is none", `[nul]`, 4, "a value is expected; the only bare words are true, false and null"},
		{"a leading zero", `[01]`, 2, "a comma or the end of the array is expected"},
		{"a number without fraction", `[1.]`, 3, "a digit is expected after a decimal point"},
		{"a lone minus", `[-]`, 2, "a digit is expected after a minus"},
		{"an exponent without digits", `[1e+]`, 4, "a digit is expected in an exponent"},
		{"a line break in a string", "[\"a\n\"]", 3, "a control character must be escaped in a string"},
		{"an escape that is none", `["\x41"]`, 3, "a string has an escape that JSON does not know"},
		{"an escape cut short", `["\u00g0"]`, 6, "four hexadecimal digits are expected in an escape"},
		{"a byte that is not UTF-8", "[\"a\xff\"]", 3, "a string is not UTF-8"},
		{"half a character", "[\"\xe4\xb8\"]", 4, "a string is not UTF-8"},
		{"an overlong form", "[\"\xe0\x80\x80\"]", 3, "a string is not UTF-8"},
		{"a surrogate as UTF-8", "[\"\xed\xa0\x80\"]", 3, "a string is not UTF-8"},
		{"above the last code point", "[\"\xf4\x90\x80\x80\"]", 3, "a string is not UTF-8"},
		{"a nesting too deep", deep + "[", maxDepth, "objects and arrays nest deeper than 10000 levels"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range min(len(tt.body), 40) + 1 {
				_, err := scan(ChatCompletions, tt.body, cut)
				var syntax *SyntaxError
				if !errors.As(err, &syntax) {
					t.Fatalf("cut at %d: got error %v", cut, err)
				}
				if syntax.Offset != tt.offset || syntax.What != tt.what {
					t.Fatalf("cut at %d: got %d, %q; want %d, %q", cut, syntax.Offset, syntax.What, tt.offset, tt.what)
				}
			}
		})
	}
	if _, err := scan(ChatCompletions, deep+strings.Repeat("]", maxDepth)); err != nil {
		t.Errorf("the deepest nesting allowed: %v", err)
	}
	for _, api := range []API{Other, Models} {
		if sum, err := scan(api, ""); err != nil || !sum.Complete {
			t.Errorf("an empty body for %v: %v", api, err)
		}
	}
}

func TestSyntaxErrorShowsNothingOfTheBody(t *testing.T) {
	_, err := scan(ChatCompletions, `{"secret":"CANARY`+strings.Repeat("x", 1<<20))
	if err == nil || strings.Contains(err.Error(), "CANARY") || len(err.Error()) > 200 {
		t.Fatalf("got %v", err)
	}
}

func TestScannerIsReused(t *testing.T) {
	s := NewScanner(ChatCompletions)
	if s.Feed([]byte(`{"model":"first","messages":[{"role":"user","content":"one"}`)) != nil {
		t.Fatal("a good beginning was refused")
	}
	first := s.Summary()
	s.Reset(Completions)
	if s.ModelSeen() || s.IsObject() {
		t.Error("Reset left something of the first body")
	}
	if err := s.Feed([]byte(`{"prompt":"two","model":"second"`)); err != nil || !s.ModelSeen() {
		t.Fatalf("ModelSeen %v, error %v", s.ModelSeen(), err)
	}
	if err := s.Feed([]byte(`}`)); err != nil {
		t.Fatal(err)
	}
	sum, err := s.Finish()
	if err != nil || sum.Model != "second" || len(sum.Prompt) != 1 {
		t.Fatalf("second body: %+v, %v", sum, err)
	}
	if first.Model != "first" || first == sum {
		t.Errorf("the first summary changed: %+v", first)
	}
}

func TestFeedKeepsChunksAfterAnError(t *testing.T) {
	s := NewScanner(Other)
	for _, c := range []string{"--boundary\r\n", "content", "more"} {
		if s.Feed([]byte(c)) == nil {
			t.Fatal("multipart passed as JSON")
		}
	}
	sum, err := s.Finish()
	if err == nil || string(sum.AppendSpan(nil, Span{0, sum.Bytes})) != "--boundary\r\ncontentmore" {
		t.Fatalf("kept %q, error %v", sum.Chunks(), err)
	}
}

func TestSegmentsAreBounded(t *testing.T) {
	for _, body := range []string{
		`{"messages":[` + strings.Repeat(`{"role":"u","content":"c"},`, maxSegments) + `{"role":"user","content":["last"]}]}`,
		`{"messages":[{"role":"u","content":["` + strings.Repeat(`a","`, maxSegments+5) + `"],"role":"late"}]}`,
	} {
		sum, err := scan(ChatCompletions, body)
		if err != nil {
			t.Fatal(err)
		}
		last := sum.Prompt[len(sum.Prompt)-1]
		if len(sum.Prompt) > maxSegments+2 || last.Kind != SegmentPart || last.Span.End < int64(len(body)-30) {
			t.Errorf("%d segments, the last %v of %d bytes", len(sum.Prompt), last, len(body))
		}
	}
}

// FuzzScan compares validity and every value read with encoding/json's reading of the same bytes.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add(byte(s.api), []byte(s.body), uint32(3), uint32(7))
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte, a, b uint32) {
		api := API(kind % byte(Models+1))
		n := uint32(len(body) + 1)
		cuts := []int{int(min(a%n, b%n)), int(max(a%n, b%n))}
		sum, err := scan(api, string(body), cuts...)
		valid := json.Valid(body) && utf8.Valid(body) || len(body) == 0 && (api == Other || api == Models)
		if valid != (err == nil) {
			t.Fatalf("valid is %v, error %v", valid, err)
		}
		if whole, again := scan(api, string(body)); !sameError(err, again) || !cmp.Equal(digest(whole), digest(sum)) {
			t.Fatalf("cut at %v: %+v, %v\nwhole: %+v, %v", cuts, digest(sum), err, digest(whole), again)
		}
		single := make([]int, len(body))
		for i := range single {
			single[i] = i
		}
		if bytewise, again := scan(api, string(body), single...); !sameError(err, again) || !cmp.Equal(digest(bytewise), digest(sum)) {
			t.Fatalf("cut everywhere: %+v, %v\ncut at %v: %+v, %v", digest(bytewise), again, cuts, digest(sum), err)
		}
		if err == nil && len(body) > 0 {
			if d := cmp.Diff(reference(api, body), digest(sum)); d != "" {
				t.Fatalf("-encoding/json +scanner:\n%s", d)
			}
		}
	})
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a.(*SyntaxError) == *b.(*SyntaxError)
}
