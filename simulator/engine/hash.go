package engine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Chain makes the hashes under which blocks are cached: each covers its tokens and, through the hash before it, everything
// that came earlier, the model, the adapter and the salt (vLLM: hash_block_tokens and generate_block_hash_extra_keys in
// vllm/v1/core/kv_cache_utils.py; its bytes are other ones).
type Chain struct {
	last   uint64
	buf    []byte
	filled int // bytes of buf that hold tokens of the open block
}

const parentBytes = 8

// NewChain returns the chain of a prompt for this model, adapter and salt, with blocks of blockTokens tokens. Empty names
// are names like any other: no adapter and no salt.
func NewChain(model, adapter, salt string, blockTokens int32) *Chain {
	root := make([]byte, 0, 64)
	for _, name := range [...]string{model, adapter, salt} {
		// The length keeps ("ab", "c") apart from ("a", "bc").
		root = binary.LittleEndian.AppendUint64(root, uint64(len(name)))
		root = append(root, name...)
	}
	return &Chain{last: xxhash.Sum64(root), buf: make([]byte, parentBytes+4*int(blockTokens))}
}

// Append adds tokens and appends to dst the hash of each block that they fill. Tokens of a block not yet full are kept for
// the next call.
func (c *Chain) Append(dst []uint64, tokens []uint32) []uint64 {
	room := len(c.buf) - parentBytes
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(c.buf[parentBytes+c.filled:], t)
		c.filled += 4
		if c.filled == room {
			binary.LittleEndian.PutUint64(c.buf, c.last)
			c.last = xxhash.Sum64(c.buf)
			c.filled = 0
			dst = append(dst, c.last)
		}
	}
	return dst
}

// Digest returns a hash of everything added so far, full blocks or not.
func (c *Chain) Digest() uint64 {
	binary.LittleEndian.PutUint64(c.buf, c.last)
	return xxhash.Sum64(c.buf[:parentBytes+c.filled])
}
