package server

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// maxGap bounds the pause between two writes of a fixed stream.
const maxGap = time.Second

func (c *call) storeFixed() {
	if len(c.body) > maxFixedBytes {
		badRequest("", fmt.Sprintf("The stream has %d bytes; at most %d are stored.", len(c.body), maxFixedBytes)).write(c.w)
		return
	}
	c.h.setFixed(c.body)
	c.release()
	writeJSON(c.w, http.StatusOK, fmt.Appendf(nil, `{"stored":%d}`, len(*c.h.fixed.Load())))
}

// serveFixed answers with the stored bytes, cut where the request says.
func (c *call) serveFixed() {
	stored := c.h.fixed.Load()
	if stored == nil {
		(&apiError{http.StatusNotFound, "NotFoundError", "", "No stream is stored on this engine; POST it to /sim/sse."}).write(c.w)
		return
	}
	rest := *stored
	first, step, refused := cuts(c.r.Header, len(rest))
	gap, err := time.ParseDuration(c.r.Header.Get(headerGap))
	if c.r.Header.Get(headerGap) != "" && (err != nil || gap < 0 || gap > maxGap) {
		refused = badRequest(headerGap, fmt.Sprintf("x-sim-gap must be a duration of 0s to %v.", maxGap))
	}
	if refused != nil {
		refused.write(c.w)
		return
	}
	faults, refused := c.faults()
	if refused != nil {
		refused.write(c.w)
		return
	}
	faults.never = faults.never || faults.Hang // no engine is asked, so nothing would let it go on
	if c.spoiled(faults) {
		return
	}
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	for n, written := first, 1; len(rest) > 0; n, written = step, written+1 {
		n = min(n, len(rest))
		if !c.write(rest[:n]) {
			return
		}
		rest = rest[n:]
		if faults.ResetAfterChunks > 0 && written >= faults.ResetAfterChunks {
			c.reset()
			return
		}
		if gap > 0 && len(rest) > 0 && !c.pause(gap) {
			return
		}
	}
}

// cuts returns the length of the first write of a stream of size bytes, and of those after it.
func cuts(header http.Header, size int) (first, step int, refused *apiError) {
	chunk, split := header.Get(headerChunk), header.Get(headerSplit)
	switch {
	case chunk != "" && split != "":
		return 0, 0, badRequest(headerSplit, "x-sim-chunk and x-sim-split-at exclude each other.")
	case chunk != "":
		n, err := strconv.Atoi(chunk)
		if err != nil || n < 1 {
			return 0, 0, badRequest(headerChunk, "x-sim-chunk must be a positive number of bytes.")
		}
		return n, n, nil
	case split != "":
		n, err := strconv.Atoi(split)
		if err != nil || n < 1 || n >= size {
			return 0, 0, badRequest(headerSplit, fmt.Sprintf("x-sim-split-at must be an offset inside the stored %d bytes.", size))
		}
		return n, size, nil
	}
	return max(size, 1), max(size, 1), nil
}

// pause waits, and reports whether the client is still there.
func (c *call) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.r.Context().Done():
		return false
	}
}
