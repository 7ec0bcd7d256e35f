package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// edited is the obvious reading of edits.
func edited(body string, edits []Edit) string {
	var b strings.Builder
	at := int64(0)
	for _, e := range edits {
		b.WriteString(body[at:e.Span.Start])
		b.Write(e.New)
		at = e.Span.End
	}
	b.WriteString(body[at:])
	return b.String()
}

// spliced applies edits to a body chunk by chunk.
func spliced(body string, edits []Edit, cuts ...int) string {
	var pieces [][]byte
	from := 0
	for _, c := range append(cuts, len(body)) {
		pieces = Splice(pieces, int64(from), []byte(body[from:c]), edits)
		from = c
	}
	return string(bytes.Join(pieces, nil))
}

func TestSplice(t *testing.T) {
	edit := func(start, end int64, to string) Edit { return Edit{Span{start, end}, []byte(to)} }
	tests := []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"no edit", nil, "0123456789"},
		{"a replacement", []Edit{edit(3, 5, "ab")}, "012ab56789"},
		{"a longer one", []Edit{edit(3, 5, "abcdefghijklmnop")}, "012abcdefghijklmnop56789"},
		{"a removal", []Edit{edit(3, 5, "")}, "01256789"},
		{"an insertion", []Edit{edit(3, 3, "ab")}, "012ab3456789"},
		{"an insertion at the start", []Edit{edit(0, 0, "ab")}, "ab0123456789"},
		{"an insertion at the end", []Edit{edit(10, 10, "ab")}, "0123456789ab"},
		{"several insertions at one place", []Edit{edit(3, 3, "a"), edit(3, 3, "b")}, "012ab3456789"},
		{"an insertion before a replacement", []Edit{edit(3, 3, "a"), edit(3, 6, "b")}, "012ab6789"},
		{"an insertion behind a replacement", []Edit{edit(3, 6, "a"), edit(6, 6, "b")}, "012ab6789"},
		{"replacements side by side", []Edit{edit(3, 6, "a"), edit(6, 8, "b")}, "012ab89"},
		{"everything", []Edit{edit(0, 10, "x")}, "x"},
		{"everything removed", []Edit{edit(0, 10, "")}, ""},
		{"both ends", []Edit{edit(0, 0, "<"), edit(0, 1, "a"), edit(9, 10, "b"), edit(10, 10, ">")}, "<a12345678b>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const body = "0123456789"
			for a := range len(body) + 1 {
				for b := a; b <= len(body); b++ {
					if got := spliced(body, tt.edits, a, b); got != tt.want {
						t.Fatalf("cut at %d and %d: %q, want %q", a, b, got, tt.want)
					}
				}
			}
			if got := int64(len(body)) + Delta(tt.edits); got != int64(len(tt.want)) {
				t.Errorf("Delta foretells %d bytes, there are %d", got, len(tt.want))
			}
		})
	}
}

// FuzzSplice cuts and edits anywhere.
func FuzzSplice(f *testing.F) {
	f.Add("0123456789", []byte{1, 2, 3, 0, 0, 5}, []byte{3, 0, 4})
	f.Add("", []byte{}, []byte{})
	f.Add("ab", []byte{0, 0, 2, 1, 1, 1, 1}, []byte{1})
	f.Fuzz(func(t *testing.T, body string, plan, steps []byte) {
		var edits []Edit
		at := 0
		for i := 0; i+1 < len(plan); i += 2 {
			start := min(at+int(plan[i]), len(body))
			end := min(start+int(plan[i+1]>>4), len(body))
			if start == end && len(edits) > 0 && edits[len(edits)-1].Span.Start == int64(start) && edits[len(edits)-1].Span.Len() > 0 {
				continue
			}
			edits = append(edits, Edit{Span{int64(start), int64(end)}, plan[i : i+int(plan[i+1]&1)+1]})
			at = end
		}
		if body == "" {
			edits = nil
		}
		var cuts []int
		for at, i := 0, 0; at < len(body) && i < len(steps); i++ {
			at = min(at+int(steps[i]), len(body))
			cuts = append(cuts, at)
		}
		want := edited(body, edits)
		if got := spliced(body, edits, cuts...); got != want {
			t.Fatalf("%q with %+v, cut at %v: %q, want %q", body, edits, cuts, got, want)
		}
		if got := int64(len(body)) + Delta(edits); got != int64(len(want)) {
			t.Fatalf("Delta foretells %d bytes, there are %d", got, len(want))
		}
	})
}

// Reading an edited body gives what the edit said and nothing else changes, down to numbers no float can hold.
func TestSplicedModelReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blank := rapid.SampledFrom([]string{"", " ", "\n\t"})
		member := rapid.SampledFrom([]string{`"seed":9007199254740995`, `"zeta":1.0`, `"x":"\u00e9\/é"`, `"metadata":{"model":"no"}`,
			`"messages":[{"role":"user","content":"say \"model\":\"int\""}]`, `"logit_bias":{"50256":-100}`})
		name := rapid.String().Draw(t, "name")
		value, _ := json.Marshal(name)
		members := append(rapid.SliceOfN(member, 0, 4).Draw(t, "before"), blank.Draw(t, "b1")+`"model"`+blank.Draw(t, "b2")+":"+blank.Draw(t, "b3")+string(value))
		members = append(members, rapid.SliceOfN(member, 0, 4).Draw(t, "after")...)
		body := "{" + strings.Join(members, ","+blank.Draw(t, "b4")) + "}" + blank.Draw(t, "b5")

		cuts := func(n int) []int {
			c := rapid.SliceOfN(rapid.IntRange(0, n), 0, 8).Draw(t, "cuts")
			slices.Sort(c)
			return c
		}
		sum, err := scan(ChatCompletions, body, cuts(len(body))...)
		if err != nil || sum.Model != name {
			t.Fatalf("%s: model %q, error %v", body, sum.Model, err)
		}
		to := rapid.String().Draw(t, "to")
		edits := []Edit{{sum.ModelSpan, QuoteModel(to)}}
		got := spliced(body, edits, cuts(len(body))...)
		if want := edited(body, edits); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		after, err := scan(ChatCompletions, got, cuts(len(got))...)
		if err != nil || after.Model != strings.ToValidUTF8(to, "\ufffd") {
			t.Fatalf("%s: model %q, want %q, error %v", got, after.Model, to, err)
		}
		d := Delta(edits)
		if after.Bytes != sum.Bytes+d || got[:sum.ModelSpan.Start] != body[:sum.ModelSpan.Start] || got[sum.ModelSpan.End+d:] != body[sum.ModelSpan.End:] {
			t.Fatalf("bytes outside the model changed:\n%s\n%s", body, got)
		}
		if !slices.Equal(segments(sum), segments(after)) {
			t.Fatalf("the prompt changed: %q, %q", segments(sum), segments(after))
		}
	})
}

func TestSpliceCopiesNothing(t *testing.T) {
	chunk := []byte("0123456789")
	edits := []Edit{{Span{12, 15}, []byte("ab")}}
	dst := make([][]byte, 0, 8)
	if got := testing.AllocsPerRun(100, func() { dst = Splice(dst[:0], 10, chunk, edits) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if &dst[0][0] != &chunk[0] || &dst[2][0] != &chunk[5] || cap(dst[0]) != 2 {
		t.Error("pieces are not the chunk's own bytes, or could be appended to over them")
	}
}
