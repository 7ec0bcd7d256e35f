package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// writeTime bounds how long one write may wait for a client that does not read.
const writeTime = 2 * time.Minute

// generate serves the APIs that generate.
func (c *call) generate(shape shape) {
	faults, refused := c.faults()
	if refused != nil {
		refused.write(c.w)
		return
	}
	if c.spoiled(faults) {
		return
	}
	g, refused := c.h.parse(c.body, shape, c.pod.models, c.pod.engine.Profile().MaxModelLen)
	c.release()
	if refused != nil {
		refused.write(c.w)
		return
	}
	g.id = c.requestID(shape)
	s, err := c.pod.submit(g.request, g.maxTokens, g.finish != "length")
	if err != nil {
		if errors.Is(err, engine.ErrQueueFull) {
			busy.write(c.w)
			return
		}
		badRequest("", err.Error()).write(c.w)
		return
	}
	defer c.pod.abort(s) // of a request that ended, it does nothing
	if g.stream {
		c.stream(g, s, faults)
	} else {
		c.unary(g, s, faults)
	}
}

// faults returns what is wrong with this request.
func (c *call) faults() (trouble, *apiError) {
	f, err := c.h.faults.Load().withHeader(c.r.Header.Get(headerFault))
	if err != nil {
		return f, badRequest(headerFault, err.Error())
	}
	return f, nil
}

// spoiled does what f demands in place of an answer, and reports whether it did. The body has been read.
func (c *call) spoiled(f trouble) bool {
	switch {
	case f.ResetBeforeFirstByte:
		c.reset()
	case f.Status != 0:
		(&apiError{f.Status, "InternalServerError", "", "This engine was told to fail."}).write(c.w)
	case f.never:
		c.release()
		select {
		case <-c.r.Context().Done():
		case <-c.pod.done:
		}
		c.reset()
	default:
		return false
	}
	return true
}

// reset cuts the connection in place of an end.
func (c *call) reset() {
	conn, _, err := c.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	reset(conn)
}

// requestID returns what answers call the request: its x-request-id, or a number of this engine.
func (c *call) requestID(shape shape) string {
	id := c.r.Header.Get(headerRequestID)
	if id == "" || len(id) > maxRequestIDBytes {
		id = "sim-" + strconv.Itoa(c.h.index) + "-" + strconv.FormatUint(c.h.requests.Add(1), 10)
	}
	switch shape {
	case completions:
		return "cmpl-" + id
	case responses:
		return "resp_" + id
	}
	return "chatcmpl-" + id
}

// write writes and flushes p, and reports whether that went well.
func (c *call) write(p []byte) bool {
	c.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := c.w.Write(p); err != nil {
		return false
	}
	return c.rc.Flush() == nil
}

// wait returns when there is something new of s, and whether the client is still there.
func (c *call) wait(s *stream) bool {
	select {
	case <-s.ready:
		return true
	case <-c.r.Context().Done():
		return false
	case <-c.pod.done:
		panic(http.ErrAbortHandler) // the engine is gone, and so is the connection
	}
}

// stream answers with an event per token. The headers go out at once, as vLLM's do, long before the first token; but not
// from an engine that hangs.
func (c *call) stream(g *generation, s *stream, faults trouble) {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.w.WriteHeader(http.StatusOK)
	if !faults.Hang && !c.write(nil) {
		return
	}
	e := newWriter(g, time.Now().Unix())
	left := faults.ResetAfterChunks
	var sent int32
	var buf []byte
	for {
		if !c.wait(s) {
			return
		}
		// In this order: who sees the end sees all tokens.
		finished := s.finished.Load()
		generated := s.generated.Load()
		buf = buf[:0]
		for ; sent < generated; sent++ {
			buf = e.appendToken(buf, sent)
			if left > 0 {
				if left--; left == 0 {
					c.write(buf)
					c.reset()
					return
				}
			}
		}
		if finished {
			buf = e.appendEnd(buf, s.timeline, c.h.index)
		}
		if len(buf) > 0 && !c.write(buf) || finished {
			return
		}
	}
}

// unary answers in one piece, when all tokens are there.
func (c *call) unary(g *generation, s *stream, faults trouble) {
	for !s.finished.Load() {
		if !c.wait(s) {
			return
		}
	}
	body := appendWhole(nil, g, s.timeline, c.h.index, time.Now().Unix())
	c.w.Header().Set(headerTTFT, string(appendMillis(nil, s.timeline.FirstToken-s.timeline.Arrived)))
	if faults.ResetAfterChunks > 0 {
		c.w.Header().Set("Content-Type", "application/json")
		c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		c.w.WriteHeader(http.StatusOK)
		c.write(body[:len(body)/2])
		c.reset()
		return
	}
	writeJSON(c.w, http.StatusOK, body)
}
