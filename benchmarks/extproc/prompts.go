package extproc

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// MinChars and MaxChars bound the prompts: below the first a turn has no room for what makes it unique, above the second a
// body no longer fits the client's stream window, which a server that echoes while it reads would then fill.
const (
	MinChars = 100
	MaxChars = 4_000_000
)

const (
	corpusChars = 1 << 18
	lanes       = 64 // conversations that are open at the same time
	turns       = 4  // requests of one conversation
	groups      = 32 // system prompts
)

// Prompts makes the request bodies of a run: chat completions of exactly one prompt size, deterministic in seed, size and
// number.
//
// Requests belong to conversations of four turns, sixty-four of which are open at a time. Half of the characters are a
// system prompt, one of thirty-two. A turn repeats the history of the turns before it and adds a message of its own that
// fills the prompt to its size; of that message the next turn's history keeps the beginning, as clients do that trim
// pasted documents, and adds an answer. So half of a prompt and more has been seen before, deeper with each turn, and no
// prompt is seen whole twice.
//
// Prompts is immutable and may be used concurrently.
type Prompts struct {
	seed  uint64
	chars int
	model []byte  // a JSON string
	text  []byte  // JSON-escaped
	at    []int32 // byte offset of each character of text, and its end
}

// NewPrompts returns the bodies of prompts with this many characters (Unicode code points after JSON unescaping, all
// messages together) for this model.
func NewPrompts(seed uint64, chars int, model string) (*Prompts, error) {
	if chars < MinChars || chars > MaxChars {
		return nil, fmt.Errorf("prompt size is %d characters; between %d and %d", chars, MinChars, MaxChars)
	}
	if model == "" {
		return nil, fmt.Errorf("model is empty; name one that the server knows")
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", model, err)
	}
	p := &Prompts{seed: seed, chars: chars, model: name}
	p.text, p.at = corpus(seed)
	return p, nil
}

// corpus writes prose of invented words with the escapes and multi-byte characters that bodies have.
func corpus(seed uint64) (text []byte, at []int32) {
	rng := rand.New(rand.NewPCG(seed, 0x636f72707573))
	char := func(escaped string) {
		at = append(at, int32(len(text)))
		text = append(text, escaped...)
	}
	for len(at) < corpusChars {
		for range 2 + rng.IntN(8) {
			char(string(rune('a' + rng.IntN(26))))
		}
		switch rng.IntN(40) {
		case 0:
			char(`\n`)
		case 1:
			char(`\"`)
		case 2:
			char("é")
		case 3:
			char("。")
		case 4:
			char(`\u00df`)
		case 5, 6, 7:
			char(",")
		}
		char(" ")
	}
	return text, append(at, int32(len(text)))
}

// slice appends n characters of the corpus, from a place that follows from the keys.
func (p *Prompts) slice(dst []byte, n int, keys ...uint64) []byte {
	chars := len(p.at) - 1
	h := p.seed
	for _, k := range keys {
		h = mix(h ^ k)
	}
	from := int(h % uint64(chars))
	for n > 0 {
		to := min(from+n, chars)
		dst = append(dst, p.text[p.at[from]:p.at[to]]...)
		n -= to - from
		from = 0
	}
	return dst
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Body appends the body of the request with this number to dst and returns it.
func (p *Prompts) Body(dst []byte, number uint64) []byte {
	session := number%lanes + lanes*(number/(lanes*turns))
	turn := int(number / lanes % turns)
	group := session % groups

	system := p.chars / 2
	exchange := p.chars / (2 * turns) // of a past turn: its question and its answer
	question := exchange / 2

	dst = append(dst, `{"model":`...)
	dst = append(dst, p.model...)
	dst = append(dst, `,"messages":[{"role":"system","content":"`...)
	dst = p.slice(dst, system, 1, group)
	for past := range turn {
		dst = append(dst, `"},{"role":"user","content":"`...)
		dst = p.question(dst, question, session, past)
		dst = append(dst, `"},{"role":"assistant","content":"`...)
		dst = p.slice(dst, exchange-question, 2, session, uint64(past))
	}
	dst = append(dst, `"},{"role":"user","content":"`...)
	dst = p.question(dst, p.chars-system-turn*exchange, session, turn)
	return append(dst, `"}],"max_tokens":256,"temperature":0.7,"stream":true,"stream_options":{"include_usage":true}}`...)
}

// question appends a user message of n ≥ 6 characters, which begins with what makes the conversation unique.
func (p *Prompts) question(dst []byte, n int, session uint64, turn int) []byte {
	const digits = 6
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[session>>shift&15])
	}
	return p.slice(dst, n-digits, 3, session, uint64(turn))
}
