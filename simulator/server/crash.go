package server

import "net/http"

// crash kills the engines that the query names, as Fleet.Stop does. An engine that kills itself cuts this connection too.
func (c *call) crash() {
	hosts, refused := c.addressed()
	if refused != nil {
		refused.write(c.w)
		return
	}
	itself := false
	for _, h := range hosts {
		if h == c.h {
			itself = true
			continue
		}
		_ = h.stop() // a listener that is gone already is what is wanted
	}
	if itself {
		// stop waits for its handlers, of which this is one.
		go func() { _ = c.h.stop() }()
		c.reset()
		return
	}
	writeJSON(c.w, http.StatusOK, []byte(`{"stopped":true}`))
}

// restart brings stopped engines back, as Fleet.Restart does; it goes through the port of one that runs.
func (c *call) restart() {
	hosts, refused := c.addressed()
	if refused != nil {
		refused.write(c.w)
		return
	}
	for _, h := range hosts {
		if h.current() != nil {
			continue
		}
		if err := h.start(int(h.addr.Port())); err != nil {
			(&apiError{http.StatusConflict, "ConflictError", "engine", err.Error()}).write(c.w)
			return
		}
	}
	writeJSON(c.w, http.StatusOK, []byte(`{"running":true}`))
}
