package plugins

// HotPrefix is what is known of the longest beginning of a prompt that many requests share. The zero value: none is known.
type HotPrefix struct {
	// Hash is that of its last block, and Blocks how many it has.
	Hash   uint64 `json:"hash"`
	Blocks int32  `json:"blocks"`

	// PerSecond is the rate of requests that begin with it, of late, and Pods how many endpoints the work of these requests
	// keeps busy, apart from the prefix itself.
	PerSecond float64 `json:"perSecond"`
	Pods      float64 `json:"pods"`

	// Holders is how many candidates have it cached, and Target how many should.
	Holders int32 `json:"holders"`
	Target  int32 `json:"target"`
}
