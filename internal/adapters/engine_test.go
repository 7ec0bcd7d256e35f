package adapters

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// house is where model servers live: a, b and c answer, on x, y and z nobody listens. All sides use the same, one after the
// other.
type house struct {
	t       *testing.T
	engines map[byte]*httptest.Server
	dead    map[byte]string
	side    atomic.Pointer[side] // whose requests come
	answer  func(*visit)         // of the row
}

// visit is one request at an engine.
type visit struct {
	w      http.ResponseWriter
	r      *http.Request
	letter byte
	side   *side
	body   []byte
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, engines: map[byte]*httptest.Server{}, dead: map[byte]string{}}
	for _, letter := range []byte("abc") {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		e := &httptest.Server{Listener: l, Config: &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.serve(&visit{w: w, r: r, letter: letter, side: h.side.Load()})
		})}}
		e.Start()
		t.Cleanup(e.Close)
		h.engines[letter] = e
	}
	for _, letter := range []byte("xyz") {
		h.dead[letter] = deadAddress(t)
	}
	return h
}

// deadAddress returns an address on which connections are refused as long as the test runs: the socket is bound, and nobody
// listens on it.
func deadAddress(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

func (h *house) addresses() map[byte]string {
	at := map[byte]string{}
	for letter, e := range h.engines {
		at[letter] = e.Listener.Addr().String()
	}
	for letter, address := range h.dead {
		at[letter] = address
	}
	return at
}

// members returns the endpoints that letters name, in their order: the pool numbers them so. An upper-case letter is one that
// drains; - is nobody.
func (h *house) members(letters string) []pool.Endpoint {
	var members []pool.Endpoint
	at := h.addresses()
	for i := range len(strings.Trim(letters, "-")) {
		letter := letters[i] | 0x20
		members = append(members, pool.Endpoint{
			Namespace: "ns", Name: string(letter), Addr: netip.MustParseAddrPort(at[letter]), Draining: letters[i] != letter,
			Labels: map[string]string{"letter": string(letter)},
		})
	}
	return members
}

// serve reads a request, notes it, and lets the row answer. A row whose engine answers before it has the body reads by itself.
func (h *house) serve(v *visit) {
	v.side.visits.Add(1)
	defer v.side.visits.Add(-1)
	v.side.clock.step(50 * time.Millisecond)
	v.side.arrived <- string(v.letter)
	if v.r.Header.Get("Engine-Reads") == "" {
		body, err := io.ReadAll(v.r.Body)
		if v.note(body, err); err != nil {
			return
		}
		v.side.taken <- string(v.letter)
	}
	h.answer(v)
}

// note keeps what came of a request, for the comparison.
func (v *visit) note(body []byte, broken error) {
	v.body = body
	text := describeRequest(v.letter, v.r, body, broken)
	v.side.mu.Lock()
	v.side.requests = append(v.side.requests, text)
	v.side.mu.Unlock()
}

// plainAnswer is a short JSON answer that tells how long the body was.
func plainAnswer(v *visit) {
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("X-Engine", string(v.letter))
	_, _ = fmt.Fprintf(v.w, `{"id":"cmpl-1","object":"chat.completion","bytes":%d,"choices":[{"index":0,"message":{"role":"assistant","content":"héllo"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4}}}`, len(v.body))
}

// status answers with a status, fields ("Name: value" in pairs) and a body.
func status(code int, body string, pairs ...string) func(*visit) {
	return func(v *visit) {
		for i := 0; i < len(pairs); i += 2 {
			v.w.Header().Add(pairs[i], pairs[i+1])
		}
		v.w.WriteHeader(code)
		_, _ = io.WriteString(v.w, body)
	}
}

// stream answers in pieces. The first leaves at once; before the others the client must have it, and time passes.
func stream(contentType string, pieces ...string) func(*visit) {
	return func(v *visit) {
		v.w.Header().Set("Content-Type", contentType)
		for i, piece := range pieces {
			_, _ = io.WriteString(v.w, piece)
			_ = http.NewResponseController(v.w).Flush()
			if i == 0 && !v.clientHasSome() {
				return
			}
		}
	}
}

// clientHasSome waits until the client has the first bytes of the answer, and lets time pass then. It reports false when the
// exchange was broken off before.
func (v *visit) clientHasSome() bool {
	v.side.mu.Lock()
	got := v.side.gotByte
	v.side.mu.Unlock()
	select {
	case <-got:
		v.side.clock.step(200 * time.Millisecond)
		return true
	case <-v.r.Context().Done():
		return false
	}
}

// breakOff closes the connection in the midst of whatever was written.
func (v *visit) breakOff() {
	c, _, err := http.NewResponseController(v.w).Hijack()
	if err == nil {
		_ = c.Close()
	}
}

// events is a chat completion as an event stream.
func events(usage bool) []string {
	pieces := []string{
		"data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
		"data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hé",
		"llo\"}}]}\n\ndata: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n",
	}
	if usage {
		pieces = append(pieces, "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"comple", "tion_tokens\":3,\"total_tokens\":14}}\n\n")
	}
	return append(pieces, "data: [DO", "NE]\n\n")
}
