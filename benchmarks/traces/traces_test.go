package traces_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/traces"
)

func rows(t *testing.T, format, text string) (out []string, err error) {
	t.Helper()
	f, err := traces.FormatNamed(format)
	if err != nil {
		t.Fatal(err)
	}
	r := f.New(strings.NewReader(text))
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%v %d/%d %v %s#%d %s", row.At, row.Prompt, row.Output, row.Blocks, row.Session, row.Turn, row.Model+row.Kind))
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		name, format, text string
		want               []string
	}{
		{
			"mooncake", "mooncake",
			`{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 14]}` + "\n\n" + `{"timestamp": 3000, "input_length": 600, "output_length": 490, "hash_ids": [0, 15]}` + "\r\n",
			[]string{"0s 700/5 [0 14] #0 ", "3s 600/490 [0 15] #0 "},
		},
		{
			"bailian: later turns belong to their parent's conversation", "bailian",
			`{"chat_id": 7, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 33, "output_length": 9, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}` + "\n" +
				`{"chat_id": 9, "parent_chat_id": 7, "timestamp": 2, "input_length": 60, "output_length": 9, "type": "text", "turn": 2, "hash_ids": [1, 2, 3, 4]}`,
			[]string{"500ms 33/9 [1 2 3] 7#1 text", "2s 60/9 [1 2 3 4] 7#2 text"},
		},
		{
			"azure: times count from the first row", "azure",
			"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
			[]string{"0s 4808/10 [] #0 ", "52ms 3180/8 [] #0 "},
		},
		{
			"burstgpt: columns in any order", "burstgpt",
			"Model,Timestamp,Session ID,Elapsed time,Request tokens,Response tokens,Total tokens,Log Type\nGPT-4,5,s1,1.5,472,18,490,Conversation log\nChatGPT,45,,2,1087,0,1087,API log\n",
			[]string{"5s 472/18 [] s1#0 GPT-4Conversation log", "45s 1087/0 [] #0 ChatGPTAPI log"},
		},
		{
			"a decision log: sampled or not, answered or refused", "fairlead",
			`{"record": {"at": "2026-11-30T10:00:00Z", "target": {"model": "m"}, "promptTokens": 100, "profiles": [{"requestFacts": {"block-hashes": [18446744073709551615, 3]}}], "outcome": {"promptTokens": 128, "completionTokens": 7}}, "configuration": "x"}` + "\n" +
				`{"at": "2026-11-30T10:00:01.5Z", "target": {}, "promptTokens": 64, "refused": {"code": "all_filtered"}}`,
			[]string{"0s 128/7 [18446744073709551615 3] #0 m", "1.5s 64/0 [] #0 "},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rows(t, tt.format, tt.text)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestWhatIsWrongWithALine(t *testing.T) {
	for _, tt := range []struct{ name, format, text, want string }{
		{"no JSON", "mooncake", "{}\n{", "line 2"},
		{"no lengths", "mooncake", `{"timestamp": 1}`, "negative"},
		{"a negative time", "mooncake", `{"timestamp": -5, "input_length": 1, "output_length": 1}`, "before the first row"},
		{"no header", "azure", "1,2,3\n", `no column "TIMESTAMP"`},
		{"a field too few", "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5\n", "line 2: 2 fields"},
		{"no number", "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,x,1\n", `"x"`},
		{"no time", "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", `"yesterday"`},
		{"no record", "fairlead", `{"foo": 1}`, `"at"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.text
			if tt.name == "no JSON" {
				text = `{"timestamp": 0, "input_length": 1, "output_length": 1}` + "\n{"
			}
			if _, err := rows(t, tt.format, text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want something with %q", err, tt.want)
			}
		})
	}
}

// A line without end does not fill the memory.
func TestALineIsBounded(t *testing.T) {
	if _, err := rows(t, "mooncake", `{"hash_ids": [`+strings.Repeat("1,", 5<<20)); err == nil || !strings.Contains(err.Error(), "a line may have") {
		t.Errorf("%v; want the bound", err)
	}
}

func TestFind(t *testing.T) {
	if _, err := traces.Find("no-such-trace.jsonl"); !errors.Is(err, traces.ErrAbsent) {
		t.Errorf("%v; want ErrAbsent", err)
	}
	if _, err := traces.FormatNamed("splitwise"); err == nil || !strings.Contains(err.Error(), "burstgpt") {
		t.Errorf("%v; want the names", err)
	}
}
