package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Headers of the simulator's own.
const (
	headerEngine      = "X-Sim-Engine"         // answer: the engine's index
	headerBodySum     = "X-Sim-Body-Sha256"    // answer: hex SHA-256 of the request's body as it was received
	headerEcho        = "X-Sim-Echo-Headers"   // request: 1 asks for the next one
	headerSaw         = "X-Sim-Saw-Headers"    // answer: the names of the request's headers, lower case, sorted
	headerFault       = "X-Sim-Fault"          // request: see Faults
	headerFixed       = "X-Sim-Fixed-Sse"      // request: 1 asks for the stored event stream
	headerChunk       = "X-Sim-Chunk"          // request: the fixed stream in writes of so many bytes
	headerSplit       = "X-Sim-Split-At"       // request: the fixed stream in two writes, the first of so many bytes
	headerGap         = "X-Sim-Gap"            // request: a pause between these writes, such as 1ms
	headerTTFT        = "X-Sim-Ttft-Engine-Ms" // answer in one piece: engine time from arrival to first token
	headerRequestID   = "X-Request-Id"         // request and answer
	maxRequestIDBytes = 256
)

// maxFixedBytes bounds the stored event stream.
const maxFixedBytes = 8 << 20

// ServeHTTP answers as a vLLM server would, under these paths:
//
//	POST /v1/chat/completions, /v1/completions   generate
//	POST /v1/responses, /v1/messages             generate, in the shapes of these APIs
//	POST /v1/embeddings                          compute a prompt
//	POST /tokenize, /detokenize, /v1/messages/count_tokens
//	POST /v1/load_lora_adapter, /v1/unload_lora_adapter
//	GET  /v1/models, /health, /metrics, /version
//	POST /reset_prefix_cache                     forget what is cached; 409 while requests hold blocks
//	GET  /sim/faults, POST /sim/faults           Faults
//	POST /sim/crash, /sim/restart                as Fleet.Stop and Fleet.Restart, for ?engine=INDEX
//	POST /sim/sse                                store the body as this engine's fixed event stream
//
// Each answer says which engine gave it (x-sim-engine), repeats x-request-id, and, where the request had a body or a method
// that has one, tells the SHA-256 of the bytes received (x-sim-body-sha256). x-sim-echo-headers: 1 asks for the names of the
// request's headers. A request of any path with x-sim-fixed-sse: 1 gets the stored bytes, in one write, or cut by
// x-sim-chunk or x-sim-split-at with x-sim-gap between the pieces. Any other path is 404.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.enter()
	defer h.leave()
	rc := http.NewResponseController(w)
	header := w.Header()
	header.Set(headerEngine, strconv.Itoa(h.index))
	if id := r.Header.Get(headerRequestID); id != "" {
		header.Set(headerRequestID, id)
	}
	if r.Header.Get(headerEcho) == "1" {
		header.Set(headerSaw, headerNames(r))
	}
	route := h.route(r)
	body, sum, free, err := h.readBody(r, rc, route.keepsBody)
	c := &call{h: h, w: w, rc: rc, r: r, body: body, free: free}
	defer c.release()
	if err != nil {
		header.Set("Connection", "close")
		if errors.Is(err, errTooLarge) {
			(&apiError{http.StatusRequestEntityTooLarge, "BadRequestError", "", "The body is larger than " + strconv.FormatInt(h.fleet.options.MaxBodyBytes, 10) + " bytes."}).write(w)
			return
		}
		badRequest("", "The body could not be read: "+err.Error()+".").write(w)
		return
	}
	if r.ContentLength != 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set(headerBodySum, sum)
	}
	if c.pod = h.current(); c.pod == nil { // stopped between accept and here
		(&apiError{http.StatusServiceUnavailable, "Service Unavailable", "", "The engine is stopped."}).write(w)
		return
	}
	route.serve(c)
}

// call is one request on its way through its handler.
type call struct {
	h    *host
	pod  *pod
	w    http.ResponseWriter
	rc   *http.ResponseController
	r    *http.Request
	body []byte
	free func() // gives back the body's place in memory
}

// release lets go of the body, which is not needed any more. It may be called again.
func (c *call) release() {
	c.body = nil
	c.free()
	c.free = func() {}
}

type route struct {
	keepsBody bool
	serve     func(*call)
}

func (h *host) route(r *http.Request) route {
	if r.Header.Get(headerFixed) == "1" {
		return route{false, (*call).serveFixed}
	}
	switch r.URL.Path {
	case "/v1/chat/completions":
		return byMethod(r, nil, &route{true, func(c *call) { c.generate(chat) }})
	case "/v1/completions":
		return byMethod(r, nil, &route{true, func(c *call) { c.generate(completions) }})
	case "/v1/responses":
		return byMethod(r, nil, &route{true, func(c *call) { c.generate(responses) }})
	case "/v1/messages":
		return byMethod(r, nil, &route{true, func(c *call) { c.generate(messages) }})
	case "/v1/messages/count_tokens":
		return byMethod(r, nil, &route{true, (*call).countTokens})
	case "/v1/embeddings":
		return byMethod(r, nil, &route{true, (*call).embeddings})
	case "/tokenize":
		return byMethod(r, nil, &route{true, (*call).tokenize})
	case "/detokenize":
		return byMethod(r, nil, &route{true, (*call).detokenize})
	case "/v1/load_lora_adapter":
		return byMethod(r, nil, &route{true, (*call).loadAdapter})
	case "/v1/unload_lora_adapter":
		return byMethod(r, nil, &route{true, (*call).unloadAdapter})
	case "/v1/models":
		return byMethod(r, (*call).models, nil)
	case "/health", "/ping":
		return byMethod(r, (*call).health, nil)
	case "/metrics":
		return byMethod(r, (*call).metrics, nil)
	case "/version":
		return byMethod(r, (*call).version, nil)
	case "/reset_prefix_cache":
		return byMethod(r, nil, &route{false, (*call).resetCache})
	case "/sim/faults":
		return byMethod(r, (*call).getFaults, &route{true, (*call).setFaults})
	case "/sim/crash":
		return byMethod(r, nil, &route{false, (*call).crash})
	case "/sim/restart":
		return byMethod(r, nil, &route{false, (*call).restart})
	case "/sim/sse":
		return byMethod(r, nil, &route{true, (*call).storeFixed})
	}
	return route{false, (*call).notFound}
}

// byMethod chooses between what a path does for GET and for POST; nil is nothing.
func byMethod(r *http.Request, get func(*call), post *route) route {
	switch {
	case get != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return route{false, get}
	case post != nil && r.Method == http.MethodPost:
		return *post
	}
	return route{false, (*call).wrongMethod}
}

func headerNames(r *http.Request) string {
	names := []string{"host"}
	for name := range r.Header {
		names = append(names, strings.ToLower(name))
	}
	for range r.TransferEncoding {
		names = append(names, "transfer-encoding")
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

func (c *call) notFound() {
	(&apiError{http.StatusNotFound, "NotFoundError", "", "Not Found"}).write(c.w)
}

func (c *call) wrongMethod() {
	(&apiError{http.StatusMethodNotAllowed, "BadRequestError", "", "Method Not Allowed"}).write(c.w)
}

func (c *call) health() { c.w.WriteHeader(http.StatusOK) }

func (c *call) version() { writeJSON(c.w, http.StatusOK, []byte(`{"version":"0.32.0"}`)) }

func (c *call) models() {
	writeJSON(c.w, http.StatusOK, c.pod.models.append(nil, time.Now().Unix(), c.pod.engine.Profile().MaxModelLen))
}

func (c *call) metrics() {
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if c.h.faults.Load().MetricsOff {
		(&apiError{http.StatusNotFound, "NotFoundError", "", "Not Found"}).write(c.w)
		return
	}
	page := c.h.frozen.Load()
	if page == nil {
		fresh := c.pod.page(nil, time.Now())
		page = &fresh
	}
	c.w.Header().Set("Content-Length", strconv.Itoa(len(*page)))
	c.w.Write(*page)
}

func (c *call) resetCache() {
	if !c.pod.resetCache() {
		(&apiError{http.StatusConflict, "ConflictError", "", "Requests hold blocks; reset the cache when none is running."}).write(c.w)
		return
	}
	writeJSON(c.w, http.StatusOK, []byte(`{"success":true}`))
}

// addressed returns the hosts that the query names: this one without a name.
func (c *call) addressed() ([]*host, *apiError) {
	name := c.r.URL.Query().Get("engine")
	switch name {
	case "":
		return []*host{c.h}, nil
	case "all":
		return c.h.fleet.hosts, nil
	}
	i, err := strconv.Atoi(name)
	if err != nil {
		return nil, badRequest("engine", "engine must be an index or all.")
	}
	h, err := c.h.fleet.host(i)
	if err != nil {
		return nil, badRequest("engine", err.Error())
	}
	return []*host{h}, nil
}

func (c *call) getFaults() {
	hosts, refused := c.addressed()
	if refused != nil {
		refused.write(c.w)
		return
	}
	var body []byte
	var err error
	if len(hosts) == 1 {
		body, err = json.Marshal(hosts[0].faults.Load())
	} else {
		all := make([]*Faults, len(hosts))
		for i, h := range hosts {
			all[i] = h.faults.Load()
		}
		body, err = json.Marshal(all)
	}
	if err != nil {
		(&apiError{http.StatusInternalServerError, "InternalServerError", "", err.Error()}).write(c.w)
		return
	}
	writeJSON(c.w, http.StatusOK, body)
}

func (c *call) setFaults() {
	hosts, refused := c.addressed()
	if refused != nil {
		refused.write(c.w)
		return
	}
	var f Faults
	d := json.NewDecoder(strings.NewReader(string(c.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		badRequest("", "faults: "+err.Error()).write(c.w)
		return
	}
	for _, h := range hosts {
		if err := h.setFaults(f); err != nil {
			badRequest("", err.Error()).write(c.w)
			return
		}
	}
	c.getFaults()
}
