package plugins

import "github.com/fairlead/fairlead/pkg/pool"

// AdapterClaim is what a request takes of engines' places for LoRA adapters. The zero value: nothing.
type AdapterClaim struct {
	Adapter int32       `json:"adapter"` // its number in the pool, from 1
	To      [2]pool.Ref `json:"-"`       // the engines of its first two legs
}
