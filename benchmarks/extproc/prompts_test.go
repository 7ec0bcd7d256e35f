package extproc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// chat is what a server reads of a body.
type chat struct {
	Model    string
	Stream   bool
	Messages []struct{ Role, Content string }
}

func decode(t interface{ Fatalf(string, ...any) }, body []byte) (c chat, chars int, text string) {
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatalf("body is no JSON: %v", err)
	}
	var all strings.Builder
	for _, m := range c.Messages {
		chars += utf8.RuneCountInString(m.Content)
		all.WriteString(m.Content)
	}
	return c, chars, all.String()
}

func TestPromptsHaveExactlyTheirSize(t *testing.T) {
	var of [3]*Prompts // by seed; a corpus takes longer to make than a body
	for seed := range of {
		var err error
		if of[seed], err = NewPrompts(uint64(seed), MinChars, `a "quoted" model`); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := *rapid.SampledFrom(of[:]).Draw(t, "seed")
		chars := rapid.OneOf(rapid.IntRange(MinChars, 2000), rapid.SampledFrom([]int{8000, 100_000, corpusChars, 2*corpusChars + 1})).Draw(t, "chars")
		p.chars = chars
		number := rapid.Uint64().Draw(t, "number")
		body := p.Body(nil, number)
		c, got, _ := decode(t, body)
		if got != chars || c.Model != `a "quoted" model` || !c.Stream {
			t.Fatalf("number %d: %d characters of model %q, stream %v; want %d", number, got, c.Model, c.Stream, chars)
		}
		if !bytes.Equal(body, p.Body(nil, number)) {
			t.Fatal("the same number gave another body")
		}
		if n := len(c.Messages); n%2 != 0 || n < 2 || n > 2*turns {
			t.Fatalf("%d messages; a system prompt, past exchanges and a question", n)
		}
	})
}

func TestTurnsOfAConversationShareMoreAndMore(t *testing.T) {
	p, err := NewPrompts(7, 8000, "m")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for lane := range uint64(lanes) {
		var last string
		for turn := range uint64(turns) {
			_, _, text := decode(t, p.Body(nil, lane+lanes*turn))
			if seen[text] {
				t.Fatalf("lane %d turn %d repeats a prompt", lane, turn)
			}
			seen[text] = true
			// the system prompt, the exchanges before, and the beginning of the message that is history now
			if want := 4000 + int(turn)*1000 - 500; turn > 0 && sharedChars(last, text) < want {
				t.Errorf("lane %d turn %d shares %d characters with the turn before; at least %d", lane, turn, sharedChars(last, text), want)
			}
			last = text
		}
	}
	_, _, one := decode(t, p.Body(nil, 3))
	_, _, other := decode(t, p.Body(nil, 3+groups))
	if got := sharedChars(one, other); got < 4000 || got > 4010 {
		t.Errorf("two conversations with one system prompt share %d characters; want its 4000", got)
	}
}

func sharedChars(a, b string) (n int) {
	x, y := []rune(a), []rune(b)
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

func TestPromptsOfNoUseAreRefused(t *testing.T) {
	for _, row := range []struct {
		name, model string
		chars       int
		want        string
	}{
		{"too small for a unique turn", "m", MinChars - 1, "between"},
		{"larger than the window", "m", MaxChars + 1, "between"},
		{"no model", "", 200, "model"},
	} {
		if _, err := NewPrompts(1, row.chars, row.model); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want an error with %q", row.name, err, row.want)
		}
	}
}

func TestTheLargestBodyFitsTheWindow(t *testing.T) {
	p, err := NewPrompts(1, MaxChars, "m")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Body(nil, lanes*3)); n > window/2 {
		t.Errorf("%d bytes; at most half of %d", n, window)
	}
}

func BenchmarkBody(b *testing.B) {
	p, err := NewPrompts(1, 8000, "m")
	if err != nil {
		b.Fatal(err)
	}
	var body []byte
	b.ReportAllocs()
	for i := range b.N {
		body = p.Body(body[:0], uint64(i))
	}
	b.SetBytes(int64(len(body)))
}
