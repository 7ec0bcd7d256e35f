package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
)

// blockTokens is the block size of the prompts that scripts make.
const blockTokens = 64

// prompt is what a burst says of its prompts.
type prompt struct {
	name, prefix         string
	tokens, prefixTokens int64
}

// burst sends requests at one instant.
func (r *run) burst(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("it takes the number of requests")
	}
	var n int
	if err := one(args[:1], &n); err != nil {
		return err
	}
	p := prompt{tokens: 1000}
	for _, word := range args[1:] {
		name, value, has := strings.Cut(word, "=")
		if !has {
			return fmt.Errorf("%q is no name=value", word)
		}
		var err error
		switch name {
		case "prompt":
			p.name = value
		case "prefix":
			p.prefix = value
		case "prompt-tokens":
			p.tokens, err = strconv.ParseInt(value, 10, 64)
		case "prefix-tokens":
			p.prefixTokens, err = strconv.ParseInt(value, 10, 64)
		default:
			return fmt.Errorf("a request has no %q", name)
		}
		if err != nil {
			return fmt.Errorf("%q: %q is no whole number", word, value)
		}
	}
	r.last = nil
	for range n {
		s := &sent{x: r.scheduler.Begin(r.now, nil)}
		a := s.x.Described(r.now, r.summary(p), exchange.Said{})
		switch a.Do {
		case exchange.Forward:
			s.to = r.names(a.To)
			s.picked = s.to[0]
			r.sent = append(r.sent, s)
		case exchange.Reply:
			s.refused = a.Reply.Details
		default:
			return fmt.Errorf("a request got the answer %v; scripts know no stage that holds", a.Do)
		}
		r.last = append(r.last, s)
	}
	return nil
}

// summary describes a prompt as a trace does: by its length and block hashes.
func (r *run) summary(p prompt) *openai.Summary {
	s := openai.NewSummary()
	s.Complete, s.PromptTokens, s.BlockTokens = true, p.tokens, blockTokens
	name := p.name
	if name == "" {
		r.made++
		name = fmt.Sprint("prompt number ", r.made)
	}
	s.BlockHashes = []uint64{}
	for end := int64(blockTokens); end <= p.tokens; end += blockTokens {
		of := p.prefix + "/" + name
		if p.prefix != "" && end <= p.prefixTokens {
			of = p.prefix
		}
		s.BlockHashes = append(s.BlockHashes, xxhash.Sum64String(fmt.Sprintf("%q at %d", of, end)))
	}
	return s
}
