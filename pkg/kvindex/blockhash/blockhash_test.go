package blockhash_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/kvindex/blockhash"
	"github.com/fairlead/fairlead/pkg/openai"
)

// piece is a segment with its bytes.
type piece struct {
	kind openai.SegmentKind
	text string
}

// summary lays pieces one behind the other in a body that comes in chunks of these sizes, the rest as one.
func summary(pieces []piece, chunks ...int) *openai.Summary {
	s := openai.NewSummary()
	var body []byte
	for _, p := range pieces {
		from := int64(len(body))
		body = append(body, p.text...)
		s.Prompt = append(s.Prompt, openai.Segment{Kind: p.kind, Span: openai.Span{Start: from, End: int64(len(body))}})
		body = append(body, `","`...) // what stands between does not count
	}
	for _, n := range chunks {
		n = min(n, len(body))
		s.AddChunk(body[:n])
		body = body[n:]
	}
	s.AddChunk(body)
	return s
}

func hashes(pieces []piece, chunks ...int) []uint64 {
	return blockhash.Append(nil, summary(pieces, chunks...), 1, 64, 0)
}

// model is the package's formula, word by word, over one byte at a time.
func model(pieces []piece, seed uint64, size, limit int) []uint64 {
	words := func(w ...uint64) uint64 {
		var b []byte
		for _, v := range w {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return xxhash.Sum64(b)
	}
	var out []uint64
	var block []byte
	a := seed
	for _, p := range pieces {
		a = words(a, uint64(len(block)), uint64(p.kind))
		if p.kind == openai.SegmentMedia {
			a = words(a, xxhash.Sum64String(p.text))
			continue
		}
		for i := range len(p.text) {
			block = append(block, p.text[i])
			if len(block) == size {
				a = words(a, xxhash.Sum64(block))
				out, block = append(out, a), nil
			}
		}
	}
	if limit > 0 {
		out = out[:min(len(out), limit)]
	}
	return out
}

func drawPieces(t *rapid.T) []piece {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) piece {
		n := rapid.SampledFrom([]int{0, 1, 3, 255, 256, 257, 512, 700, 2000}).Draw(t, "n")
		return piece{
			openai.SegmentKind(rapid.IntRange(0, int(openai.SegmentMedia)).Draw(t, "kind")),
			strings.Repeat(rapid.StringN(1, 5, 8).Draw(t, "text"), n+1)[:n],
		}
	}), 0, 8).Draw(t, "pieces")
}

func TestAgainstTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := drawPieces(t)
		chunks := rapid.SliceOfN(rapid.IntRange(1, 600), 0, 12).Draw(t, "chunks")
		tokens := rapid.SampledFrom([]int{64, 65, 128, 200}).Draw(t, "block tokens")
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		seed := rapid.Uint64().Draw(t, "seed")
		got := blockhash.Append(nil, summary(pieces, chunks...), seed, tokens, limit)
		if want := model(pieces, seed, tokens*blockhash.BytesPerToken, limit); !slices.Equal(got, want) {
			t.Fatalf("got %x\nwant %x", got, want)
		}
	})
}

func TestANextTurnSharesAllFullBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := drawPieces(t)
		next := append(slices.Clone(turn), drawPieces(t)...)
		short, long := hashes(turn), hashes(next)
		if len(long) < len(short) || !slices.Equal(long[:len(short)], short) {
			t.Fatalf("turn has %x, the next %x", short, long)
		}
	})
}

func shared(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestWhatTellsPromptsApart(t *testing.T) {
	text := func(n int) string { return strings.Repeat("abcdefgh", n/8+1)[:n] }
	const user, text0 = openai.SegmentRole, openai.SegmentText
	for _, r := range []struct {
		name   string
		a, b   []piece
		blocks int // full blocks of a
		shared int
	}{
		{"equal prompts share all", []piece{{text0, text(1024)}}, []piece{{text0, text(1024)}}, 4, 4},
		{"a partial block is not hashed", []piece{{text0, text(255)}}, []piece{{text0, text(255)}}, 0, 0},
		{"one byte more than a block", []piece{{text0, text(257)}}, []piece{{text0, text(300)}}, 1, 1},
		{"another byte ends the sharing at its block",
			[]piece{{text0, text(1024)}}, []piece{{text0, text(600) + "X" + text(1024)[601:]}}, 4, 2},
		{"the same text as another kind shares nothing", []piece{{text0, text(512)}}, []piece{{openai.SegmentSystem, text(512)}}, 2, 0},
		{"a boundary inside counts", []piece{{text0, text(1024)}}, []piece{{text0, text(300)}, {text0, text(1024)[300:]}}, 4, 1},
		{"a boundary elsewhere counts", []piece{{text0, text(300)}, {text0, text(1024)[300:]}}, []piece{{text0, text(301)}, {text0, text(1024)[301:]}}, 4, 1},
		{"a boundary between blocks belongs to the one behind", []piece{{text0, text(1024)}}, []piece{{text0, text(512)}, {text0, text(1024)[512:]}}, 4, 2},
		{"another role ends it at once",
			[]piece{{user, "user"}, {text0, text(512)}}, []piece{{user, "tool"}, {text0, text(512)}}, 2, 0},
		{"another image ends it behind the text",
			[]piece{{text0, text(512)}, {openai.SegmentMedia, "1"}, {text0, text(256)}}, []piece{{text0, text(512)}, {openai.SegmentMedia, "2"}, {text0, text(256)}}, 3, 2},
		{"an image takes no blocks", []piece{{openai.SegmentMedia, text(100000)}, {text0, text(256)}}, []piece{{openai.SegmentMedia, text(100000)}, {text0, text(256)}}, 1, 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			a, b := hashes(r.a), hashes(r.b)
			if len(a) != r.blocks || shared(a, b) != r.shared {
				t.Errorf("got %d blocks, %d shared; want %d, %d", len(a), shared(a, b), r.blocks, r.shared)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range [][3]string{
		{"m", "", ""}, {"", "m", ""}, {"", "", "m"}, {"", "", ""}, {"ab", "c", ""}, {"a", "bc", ""}, {"abc", "", ""},
		{"a", "b", "c"}, {"ab", "", "c"}, {"a", "", "bc"}, {"m-base", "lora-a", ""}, {"m-base", "lora-b", ""}, {"m-base", "", ""},
	} {
		h, at := blockhash.Seed(s[0], s[1], s[2]), fmt.Sprintf("%q", s)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one seed", at, other)
		}
		seen[h] = at
	}
}

// The values are what other processes have stored: a change of the formula is a change of the format.
func TestGolden(t *testing.T) {
	got := blockhash.Append(nil, summary([]piece{
		{openai.SegmentRole, "user"}, {openai.SegmentText, strings.Repeat("Fairlead ", 100)},
	}), blockhash.Seed("llama-3.1-8b", "", ""), 64, 0)
	want := []uint64{0xd02a417e0e80ec5c, 0x71859a65a8c45240, 0xff0d7bf6be2d7748}
	if !slices.Equal(got, want) {
		t.Errorf("got %#x\nwant %#x", got, want)
	}
}

// A conversation as clients send it: each turn repeats the messages so far, through the real scanner.
func TestConversation(t *testing.T) {
	scan := func(messages ...string) []uint64 {
		body := `{"model":"m","messages":[` + strings.Join(messages, ",") + `],"temperature":0.` + strings.Repeat("1", len(messages)) + `}`
		sc := openai.NewScanner(openai.ChatCompletions)
		for len(body) > 0 {
			n := min(len(body), 100)
			if err := sc.Feed([]byte(body[:n])); err != nil {
				t.Fatal(err)
			}
			body = body[n:]
		}
		s, err := sc.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return blockhash.Append(nil, s, 1, 64, 0)
	}
	message := func(role, text string, n int) string {
		return `{"role":"` + role + `","content":"` + strings.Repeat(text, n) + `"}`
	}
	var turns []string
	var last []uint64
	for i := range 6 {
		turns = append(turns, message("user", fmt.Sprintf("question %d, \\\"quoted\\\"\\n", i), 37))
		got := scan(turns...)
		if len(got) <= len(last) || !slices.Equal(got[:len(last)], last) {
			t.Fatalf("turn %d: %d blocks, of which %d shared; the turn before had %d", i, len(got), shared(got, last), len(last))
		}
		last = got
		turns = append(turns, message("assistant", fmt.Sprintf("answer %d. ", i), 51))
	}
}

func TestNothingIsAllocated(t *testing.T) {
	s := summary([]piece{{openai.SegmentRole, "user"}, {openai.SegmentText, strings.Repeat("x", 10000)}, {openai.SegmentMedia, strings.Repeat("y", 5000)}}, 777, 3000)
	dst := make([]uint64, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		dst = blockhash.Append(dst[:0], s, blockhash.Seed("m", "a", "s"), 64, 0)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if len(dst) == 0 {
		t.Error("nothing was hashed")
	}
}

func FuzzChunks(f *testing.F) {
	f.Add(strings.Repeat("a", 1000), uint16(3), uint16(700))
	f.Add(strings.Repeat("ab", 900), uint16(256), uint16(1024))
	f.Fuzz(func(t *testing.T, text string, boundary, chunk uint16) {
		at := min(int(boundary), len(text))
		pieces := []piece{{openai.SegmentRole, text[:at]}, {openai.SegmentText, text[at:]}}
		if whole, cut := hashes(pieces), hashes(pieces, int(chunk)+1, int(chunk/3)+1); !slices.Equal(whole, cut) {
			t.Errorf("in one chunk %x\nin three %x", whole, cut)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, r := range []struct {
		name     string
		segments int
		chunk    int
	}{{"100kB in one chunk", 1, 1 << 20}, {"100kB in 16kB chunks", 1, 16 << 10}, {"100kB in 100 messages", 100, 1 << 20}} {
		b.Run(r.name, func(b *testing.B) {
			var pieces []piece
			for range r.segments {
				pieces = append(pieces, piece{openai.SegmentRole, "user"}, piece{openai.SegmentText, strings.Repeat("the quick br", 100000/12/r.segments)})
			}
			s := summary(pieces, slices.Repeat([]int{r.chunk}, 100000/r.chunk)...)
			dst := make([]uint64, 0, 1000)
			b.SetBytes(100000)
			b.ReportAllocs()
			for b.Loop() {
				dst = blockhash.Append(dst[:0], s, 1, 64, 0)
			}
		})
	}
}

// scanned reads a body sent to api.
func scanned(t *testing.T, api openai.API, body string) []uint64 {
	t.Helper()
	sc := openai.NewScanner(api)
	if err := sc.Feed([]byte(body)); err != nil {
		t.Fatal(err)
	}
	sum, err := sc.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return blockhash.Append(nil, sum, 1, 64, 0)
}

func TestB04EachPromptIsHashedOnItsOwn(t *testing.T) {
	text := func(word string, blocks int) string { return strings.Repeat(word, (blocks*256+50)/len(word)) }
	alpha, beta, common := text("alpha ", 3), text("beta ", 2), text("same ", 2)
	one := func(prompt string) []uint64 { return scanned(t, openai.Completions, `{"prompt":"`+prompt+`"}`) }
	list := func(prompts ...string) []uint64 {
		return scanned(t, openai.Completions, `{"prompt":["`+strings.Join(prompts, `","`)+`"]}`)
	}
	if got, want := list(alpha, beta), slices.Concat(one(alpha), one(beta)); len(want) != 5 || !slices.Equal(got, want) {
		t.Errorf("two prompts: %x, want %x", got, want)
	}
	if slices.Equal(list(alpha, beta), list(beta, alpha)) {
		t.Error("their order makes no difference")
	}
	if got := list(alpha, alpha, alpha); !slices.Equal(got, one(alpha)) {
		t.Errorf("a prompt thrice: %x, want that of once %x", got, one(alpha))
	}
	if got := list(common+alpha, common+beta); len(got) != len(one(common+alpha))+len(one(common+beta))-2 {
		t.Errorf("prompts that begin alike: %d blocks", len(got))
	}
	if !slices.Equal(list(alpha), one(alpha)) {
		t.Error("a list of one prompt is another prompt")
	}
	parts := scanned(t, openai.ChatCompletions, `{"messages":[{"content":["`+alpha+`","`+beta+`"]}]}`)
	if slices.Equal(parts, slices.Concat(one(alpha), one(beta))) {
		t.Error("the parts of a message are prompts of their own")
	}
}

func TestB05TokenIDs(t *testing.T) {
	ids := func(from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,", from+i)
		}
		return "[" + strings.TrimSuffix(b.String(), ",") + "]"
	}
	one := func(list string) []uint64 { return scanned(t, openai.Completions, `{"model":"m","prompt":`+list+`}`) }
	a, b := ids(1000, 300), ids(5000, 200)
	if got, want := one("["+a+","+b+"]"), slices.Concat(one(a), one(b)); len(want) < 6 || !slices.Equal(got, want) {
		t.Errorf("nested ids: %d blocks, want %d", len(got), len(want))
	}
	if got := scanned(t, openai.Embeddings, `{"input":[`+a+`,`+b+`]}`); !slices.Equal(got, one("["+a+","+b+"]")) {
		t.Error("the ids of embeddings are others")
	}
	for _, odd := range []string{"[1,-2]", "[1.5]", "[[1],2]", "[]", "[[]]", `[1,"a"]`} {
		one(odd) // forwarded, whatever it hashes to
	}
}

func TestB07ContentPartsInTheHash(t *testing.T) {
	body := func(part string) []uint64 {
		return scanned(t, openai.ChatCompletions, `{"messages":[{"role":"user","content":[{"type":"text","text":"what?"},`+part+`,{"type":"text","text":"`+strings.Repeat("and more ", 60)+`"}]}]}`)
	}
	image := func(last string) string {
		return `{"type":"image_url","image_url":{"url":"https://img.example/` + strings.Repeat("a", 300) + last + `.png"}}`
	}
	for name, pair := range map[string][2]string{
		"images that differ in their last bytes": {image("1"), image("2")},
		"audio":                                  {`{"type":"audio_url","audio_url":{"url":"a"}}`, `{"type":"audio_url","audio_url":{"url":"b"}}`},
		"parts of an unknown type":               {`{"type":"novelty","x":1}`, `{"type":"novelty","x":2}`},
	} {
		if a, b := body(pair[0]), body(pair[1]); len(a) == 0 || a[0] == b[0] {
			t.Errorf("%s hash alike: %x, %x", name, a, b)
		}
	}
}

func TestB08ToolsArePartOfThePrompt(t *testing.T) {
	body := func(name string) []uint64 {
		return scanned(t, openai.ChatCompletions, `{"messages":[{"role":"user","content":"`+strings.Repeat("hello ", 100)+`"}],"tools":[{"type":"function","function":{"name":"`+name+
			`","parameters":{"enum":["`+strings.Repeat(`word","`, 45_000)+`"]}}}]}`)
	}
	a, b := body("f1"), body("f2")
	if len(a) < 1000 || len(a) != len(b) {
		t.Fatalf("%d and %d blocks", len(a), len(b))
	}
	for i := range a {
		if a[i] == b[i] {
			t.Fatalf("block %d is the same though the tools differ before it", i)
		}
	}
}

func TestB10SystemComesFirst(t *testing.T) {
	body := func(system string) []uint64 {
		return scanned(t, openai.Messages, `{"messages":[{"role":"user","content":"`+strings.Repeat("hello ", 100)+`"}],"max_tokens":5,"model":"m","system":[{"type":"text","text":"`+system+`"}]}`)
	}
	if a, b := body("S"), body("T"); len(a) == 0 || a[0] == b[0] {
		t.Errorf("the system text is not in block 0: %x, %x", a, b)
	}
}
