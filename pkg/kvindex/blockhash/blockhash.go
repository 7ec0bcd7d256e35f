// Package blockhash cuts a prompt into blocks and names each by a hash that stands for everything up to its end. Two
// prompts share cached blocks exactly as far as their hashes agree.
//
// No tokenizer is involved: a block is 4 bytes of prompt for each of its tokens, as the client sent them, escapes kept.
// The hash of block k is
//
//	h(k) = H(a, H(bytes of block k))
//
// where a begins as h(k-1), or as the seed for the first block, and takes up a mark for each segment that begins inside the
// block: its kind and its offset in the block. Media count by a mark alone, with the hash of their bytes: how many tokens
// an image has cannot be told from its length. H is xxHash64 (github.com/Cyan4973/xxHash, XXH64 with seed 0). So equal text
// in another role, message or part hashes differently, and a conversation's next turn, which appends, shares all full
// blocks of the turn before. The last, partial block is not hashed.
//
// A hash has 64 bits: among 10 million blocks the chance that any two collide is 3 in a million. A collision, also one
// that somebody makes on purpose (XXH64 is not a cryptographic hash), sends a request to an endpoint that does not have its
// prefix; engines compare prefixes on their own, so that nothing else comes of it.
package blockhash

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/fairlead/fairlead/pkg/openai"
)

// BytesPerToken is the estimate by which a prompt's bytes stand for tokens.
const BytesPerToken = 4

// Seed returns where the chain of a prompt begins: prompts share blocks only for one model, adapter and cache salt.
func Seed(model, adapter, salt string) uint64 {
	h := uint64(len(model))
	h = pair(h, xxhash.Sum64String(model))
	h = triple(h, uint64(len(adapter)), xxhash.Sum64String(adapter))
	return triple(h, uint64(len(salt)), xxhash.Sum64String(salt))
}

// Append appends to dst the hashes of the first full blocks of s's prompt, at most limit of them, and returns dst. A block
// has blockTokens tokens; limit 0 is no limit.
//
// Of a request with several prompts (Summary.Separate) each is a chain of its own that begins with seed, one behind the other
// in dst; blocks that an earlier one has already are left out.
//
// Cost is one pass over the prompt's bytes, read where they lie unless a block spans pieces; nothing is allocated but the
// growth of dst.
func Append(dst []uint64, s *openai.Summary, seed uint64, blockTokens, limit int) []uint64 {
	size := blockTokens * BytesPerToken
	c := chain{acc: seed, size: size, dst: dst, left: limit}
	if limit <= 0 {
		c.left = int(^uint(0) >> 1)
	}
	if size > len(c.small) {
		c.large = make([]byte, size)
	}
	for i, seg := range s.Prompt {
		if s.Separate {
			c.acc, c.n, c.again, c.first = seed, 0, i > 0, len(dst)
		}
		c.mark(seg.Kind)
		if seg.Kind == openai.SegmentMedia {
			c.acc = pair(c.acc, whole(s, seg.Span))
			continue
		}
		s.Pieces(seg.Span, c.write)
		if c.left == 0 {
			break
		}
	}
	return c.dst
}

// chain is the state between two pieces of a prompt.
type chain struct {
	acc   uint64
	size  int
	left  int // blocks that may still be hashed
	dst   []uint64
	again bool      // this prompt may begin like one before
	first int       // where the hashes of the request begin in dst
	n     int       // bytes of the block that has begun
	small [512]byte // they, or
	large []byte    // they, in blocks that do not fit
}

// begun returns the room for a block that spans pieces.
func (c *chain) begun() []byte {
	if c.large != nil {
		return c.large
	}
	return c.small[:c.size]
}

// mark takes up that a segment begins.
func (c *chain) mark(kind openai.SegmentKind) {
	c.acc = triple(c.acc, uint64(c.n), uint64(kind))
}

func (c *chain) write(p []byte) bool {
	if c.n > 0 {
		n := copy(c.begun()[c.n:], p)
		c.n += n
		p = p[n:]
		if c.n < c.size {
			return true
		}
		c.block(c.begun())
		c.n = 0
	}
	for c.left > 0 && len(p) >= c.size {
		c.block(p[:c.size])
		p = p[c.size:]
	}
	if c.left == 0 {
		return false
	}
	c.n = copy(c.begun(), p)
	return true
}

func (c *chain) block(b []byte) {
	c.acc = pair(c.acc, xxhash.Sum64(b))
	if c.again {
		if slices.Contains(c.dst[c.first:], c.acc) {
			return
		}
		c.again = false // what differs once differs from here on
	}
	c.dst = append(c.dst, c.acc)
	c.left--
}

// whole returns the hash of a span, in whatever pieces it lies.
func whole(s *openai.Summary, span openai.Span) uint64 {
	var d xxhash.Digest
	d.Reset()
	s.Pieces(span, func(p []byte) bool {
		_, _ = d.Write(p) // it cannot fail
		return true
	})
	return d.Sum64()
}

// pair and triple are H over two and three words; their lengths keep blocks and marks apart.
func pair(a, b uint64) uint64 {
	var w [16]byte
	binary.LittleEndian.PutUint64(w[:], a)
	binary.LittleEndian.PutUint64(w[8:], b)
	return xxhash.Sum64(w[:])
}

func triple(a, b, c uint64) uint64 {
	var w [24]byte
	binary.LittleEndian.PutUint64(w[:], a)
	binary.LittleEndian.PutUint64(w[8:], b)
	binary.LittleEndian.PutUint64(w[16:], c)
	return xxhash.Sum64(w[:])
}
