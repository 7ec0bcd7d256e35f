package server

// answer is the text that is generated for a prompt. It is made of words of three letters and a space, and depends on
// nothing but the seed: token i can be made at any time, by itself.
type answer struct{ seed uint64 }

// newAnswer returns the answer to a prompt with this digest, under the server's and the client's seed.
func newAnswer(server, client, prompt uint64) answer {
	return answer{mix(mix(mix(server)+client) ^ prompt)}
}

const (
	consonants = "bdfgklmnprstvzhj"
	vowels     = "aeio"
)

// bytes returns token i, from 0. The first one begins without a space, so that a client that trims the answer sends it back
// as it was.
func (a answer) bytes(i int32) [bytesPerToken]byte {
	h := mix(a.seed + uint64(i)*0x9E3779B97F4A7C15)
	w := [bytesPerToken]byte{' ', consonants[h&15], vowels[h>>4&3], consonants[h>>6&15]}
	if i == 0 {
		w[0] = consonants[h>>10&15] - 'a' + 'A'
	}
	return w
}

// appendText appends the text of the tokens from … to-1.
func (a answer) appendText(dst []byte, from, to int32) []byte {
	for i := from; i < to; i++ {
		w := a.bytes(i)
		dst = append(dst, w[:]...)
	}
	return dst
}

// appendTokens appends the tokens from … to-1, as appendText of package-level tokens makes them from the text.
func (a answer) appendTokens(dst []uint32, from, to int32) []uint32 {
	for i := from; i < to; i++ {
		w := a.bytes(i)
		dst = append(dst, uint32(w[0])|uint32(w[1])<<8|uint32(w[2])<<16|uint32(w[3])<<24)
	}
	return dst
}

// length returns how many tokens the answer has by itself: between least and most, each as likely.
func (a answer) length(least, most int32) int32 {
	return least + int32(mix(a.seed^0xD1B54A32D192ED03)%uint64(most-least+1))
}

// mix is the finalizer of splitmix64: a bijection whose output bits each depend on all input bits.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
