package sessions

import (
	"bytes"
	"encoding/base64"

	"github.com/fairlead/fairlead/pkg/pool"
)

// A token is the base64 of "namespace/name" of an endpoint.

// maxToken is the length of the token of the longest names that Kubernetes allows.
const maxToken = (63 + 1 + 253 + 2) / 3 * 4

// token returns the token of an endpoint.
func token(e *pool.Endpoint) string {
	return base64.StdEncoding.EncodeToString([]byte(e.Namespace + "/" + e.Name))
}

// named returns the candidate whose token this is. What is no token names nobody. It does not allocate.
func named(token string, s *pool.Snapshot, candidates []pool.ID) (pool.ID, bool) {
	var text, plain [maxToken]byte
	if len(token) > maxToken {
		return 0, false
	}
	n, err := base64.StdEncoding.Decode(plain[:], text[:copy(text[:], token)])
	if err != nil {
		return 0, false
	}
	namespace, name, ok := bytes.Cut(plain[:n], []byte{'/'})
	if !ok {
		return 0, false
	}
	for _, id := range candidates {
		if e := &s.Slots[id]; e.Name == string(name) && e.Namespace == string(namespace) {
			return id, true
		}
	}
	return 0, false
}
