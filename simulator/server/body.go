package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"
)

var (
	errTooLarge = errors.New("body too large")
	errNoTime   = errors.New("the client left while its body waited for memory")
)

// uploadTime bounds how long a body may take to arrive.
const uploadTime = 5 * time.Minute

// readBody reads the request's body and returns it with the hex SHA-256 of exactly its bytes. Where keep is false only the
// sum is made. The returned function gives back the memory's place and must be called.
func (h *host) readBody(r *http.Request, rc *http.ResponseController, keep bool) (body []byte, sum string, free func(), err error) {
	free = func() {}
	limit := h.fleet.options.MaxBodyBytes
	if r.ContentLength > limit {
		return nil, "", free, errTooLarge
	}
	if r.ContentLength == 0 {
		empty := sha256.Sum256(nil)
		return nil, hex.EncodeToString(empty[:]), free, nil
	}
	rc.SetReadDeadline(time.Now().Add(uploadTime))
	defer rc.SetReadDeadline(time.Time{})
	size := r.ContentLength
	if size < 0 || size > bigBody {
		size = bigBody
	}
	digest := sha256.New()
	buf := make([]byte, 0, size+1) // one more, so that the end is seen without growing
	var total int64
	placed := false
	for {
		if len(buf) == cap(buf) {
			if keep && !placed {
				// From here on the body is a large one.
				select {
				case h.bigBodies <- struct{}{}:
					placed = true
					free = func() { <-h.bigBodies }
				case <-r.Context().Done():
					return nil, "", free, errNoTime
				}
				if r.ContentLength > 0 {
					grown := make([]byte, len(buf), r.ContentLength+1)
					copy(grown, buf)
					buf = grown
				}
			}
			if len(buf) == cap(buf) {
				buf = append(buf, 0)[:len(buf)]
			}
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		total += int64(n)
		if total > limit {
			return nil, "", free, errTooLarge
		}
		digest.Write(buf[len(buf) : len(buf)+n])
		if keep {
			buf = buf[:len(buf)+n]
		}
		if err == io.EOF {
			return buf, hex.EncodeToString(digest.Sum(nil)), free, nil
		}
		if err != nil {
			return nil, "", free, err
		}
	}
}
