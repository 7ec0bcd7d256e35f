package workload

// chain names the blocks of a prompt as it grows segment by segment. A block's hash stands for everything up to its end: the
// segments, where they begin and, for the last one, that it goes on.
type chain struct {
	hashes []uint64
	acc    uint64
	filled int32 // tokens of the open block
	tokens int32
	size   int32 // tokens of a block
}

func newChain(blockTokens int32) chain { return chain{size: blockTokens, acc: 0x51ed270b4d2a1f4f} }

// add appends a segment: identity is what it says, equal for equal text.
func (c *chain) add(identity uint64, tokens int32) {
	c.tokens += tokens
	for tokens > 0 {
		n := min(c.size-c.filled, tokens)
		c.acc = mix(c.acc ^ mix(identity+uint64(c.filled)*0x9e3779b97f4a7c15))
		c.filled += n
		tokens -= n
		if c.filled == c.size {
			c.hashes = append(c.hashes, c.acc)
			c.filled = 0
		}
	}
}

// extended returns a copy that grows on its own.
func (c *chain) extended() chain {
	d := *c
	d.hashes = append(make([]uint64, 0, len(c.hashes)+8), c.hashes...)
	return d
}

// mix is the finaliser of splitmix64.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
