//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// everyWay are the ways that bytes can take: an answer past us or through us, the modes static or chosen.
func everyWay(t *testing.T, f func(t *testing.T, o options)) {
	for _, way := range []struct {
		name string
		o    options
	}{
		{"edges", options{envoy: "edges.yaml"}},
		{"override", options{envoy: "override.yaml"}},
		{"override, every chunk", options{envoy: "override.yaml", picker: []string{"--response-mode", "full"}}},
		{"static, every chunk", options{envoy: "edges.yaml", edit: fullDuplexAnswers}},
	} {
		t.Run(way.name, func(t *testing.T) { f(t, way.o) })
	}
}

// fullDuplexAnswers makes of edges.yaml a configuration whose answers pass through the picker, as other gateways have it.
func fullDuplexAnswers(yaml string) string {
	yaml = strings.Replace(yaml, "response_body_mode: NONE", "response_body_mode: FULL_DUPLEX_STREAMED", 1)
	return strings.Replace(yaml, "response_trailer_mode: SKIP", "response_trailer_mode: SEND", 1)
}

// TestChunkBoundaries: an event stream of 3 kB arrives as it was sent wherever it is cut, and so does each request.
func TestChunkBoundaries(t *testing.T) {
	everyWay(t, func(t *testing.T, o options) {
		w := newWorld(t, o)
		w.store(events(3072))
		each(len(w.stored)-1, 16, func(i int) {
			r := w.do(call{
				fixed: true, body: chat(i, 200, `,"stream":true`), h2: i%2 == 1,
				headers: []string{"X-Sim-Split-At", fmt.Sprint(i + 1), "X-Sim-Gap", "2ms"},
			})
			if r.err != nil || r.status != 200 {
				t.Errorf("cut at %d: status %d, error %v", i+1, r.status, r.err)
			}
		})
		w.booksZero(time.Now(), 50*time.Millisecond)
		chunks := w.metric(`fairlead_ext_proc_messages_total{kind="response_body"}`)
		if full := strings.Contains(t.Name(), "every_chunk"); full != (chunks > 0) {
			t.Errorf("%v response-body messages came", chunks)
		}
		t.Logf("%v response-body messages for %d answers", chunks, len(w.stored)-1)
	})
}

// TestBodies of many sizes arrive as they were sent, over both protocols, whole or in pieces.
func TestBodies(t *testing.T) {
	everyWay(t, func(t *testing.T, o options) {
		w := newWorld(t, o)
		w.store(events(200_000))
		sizes := []int{1, 100, 1000, 61_990, 62_000, 70_000, 200_000, 1_100_000}
		each(160, 8, func(i int) {
			r := w.do(call{fixed: true, body: chat(i, sizes[i%len(sizes)], ""), h2: i%3 == 0, headers: []string{"X-Sim-Chunk", fmt.Sprint(1 + i*977)}})
			if r.err != nil || r.status != 200 {
				t.Errorf("request %d: status %d, error %v", i, r.status, r.err)
			}
		})
		each(40, 8, func(i int) { // answers in one piece, with a content-length
			r := w.do(call{body: chat(i, 500, `,"max_tokens":50`), h2: i%2 == 0})
			if r.err != nil || r.status != 200 || !json.Valid(r.body) {
				t.Errorf("an answer in one piece: status %d, error %v, %d bytes", r.status, r.err, len(r.body))
			}
		})
		for _, h2 := range []bool{false, true} {
			r := w.do(call{fixed: true, body: chat(0, 20<<20, ""), h2: h2})
			if r.err != nil || r.status != 200 {
				t.Errorf("20 MiB, HTTP/2 %v: status %d, error %v", h2, r.status, r.err)
			}
		}
		w.booksZero(time.Now(), 50*time.Millisecond)
	})
}

// TestEditedBodies: an alias is replaced in the bytes, and what follows on the same upstream connection is the next request
// and nothing else, although Envoy would keep the length of the body before the edit in some modes.
func TestEditedBodies(t *testing.T) {
	for _, way := range []struct {
		name string
		o    options
	}{
		{"edges", options{envoy: "edges.yaml"}},
		{"override, static STREAMED", options{envoy: "override.yaml"}},
		{"override, static NONE, which keeps the content-length", options{envoy: "override.yaml", edit: func(yaml string) string {
			return strings.Replace(yaml, "request_body_mode: STREAMED", "request_body_mode: NONE", 1)
		}}},
		{"BUFFERED", options{envoy: "edges.yaml", edit: func(yaml string) string {
			yaml = strings.Replace(yaml, "request_body_mode: FULL_DUPLEX_STREAMED", "request_body_mode: BUFFERED", 1)
			return strings.Replace(yaml, "request_trailer_mode: SEND", "request_trailer_mode: SKIP", 1)
		}}},
	} {
		t.Run(way.name, func(t *testing.T) {
			w := newWorld(t, way.o)
			w.store(events(500))
			for _, alias := range []string{"m", "a-name-that-is-longer-than-the-one-that-the-engine-knows", modelName} {
				each(60, 6, func(i int) {
					body := fmt.Sprintf(`{"n":12345678901234567890,"model" : %q ,"messages":[{"role":"user","content":"%d"}]}`, alias, i)
					arrives := strings.Replace(body, `"`+alias+`"`, `"`+modelName+`"`, 1)
					r := w.do(call{fixed: true, body: []byte(body), arrives: []byte(arrives), h2: i%2 == 0})
					if r.err != nil || r.status != 200 {
						t.Errorf("alias %q: status %d, error %v, %s", alias, r.status, r.err, r.body)
					}
				})
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
		})
	}
}

// TestHeaders: what only a gateway may say does not come from a client, and nothing of ours leaks upstream beyond the
// destination.
func TestHeaders(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config})
			forged := []string{
				"x-gateway-destination-endpoint", "6.6.6.6:1", "x-prefiller-host-port", "6.6.6.6:2", "x-gateway-model-name", "other",
				"x-envoy-retry-on", "5xx", "x-llm-d-inference-objective", "vip", "x-fairlead-decision-id", "1",
			}
			see := func(when string, forbidden ...string) http.Header {
				t.Helper()
				r := w.do(call{body: chat(1, 20, `,"max_tokens":2`), headers: append([]string{"X-Sim-Echo-Headers", "1", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, forged...)})
				if r.err != nil || r.status != 200 {
					t.Fatalf("%s: status %d, error %v", when, r.status, r.err)
				}
				saw := strings.Split(r.header.Get("X-Sim-Saw-Headers"), ",")
				for _, name := range forbidden {
					if slices.Contains(saw, name) {
						t.Errorf("%s: %s came to the pod", when, name)
					}
				}
				for _, name := range []string{"x-request-id", "traceparent"} {
					if !slices.Contains(saw, name) {
						t.Errorf("%s: %s did not come to the pod; it saw %v", when, name, saw)
					}
				}
				return r.header
			}
			control := []string{"x-prefiller-host-port", "x-gateway-model-name", "x-envoy-retry-on", "x-fairlead-decision-id"}
			see("with the picker", append(control, "x-llm-d-inference-objective")...)
			w.picker.kill()
			time.Sleep(2500 * time.Millisecond) // the health check of edges.yaml notices
			see("without it", append(control, "x-gateway-destination-endpoint")...)
		})
	}
}

// TestRefusals: each comes with the status and the shape that clients know, through the gateway, and costs nothing.
func TestRefusals(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config, picker: []string{"--max-body-bytes", "100000"}})
			for _, c := range []struct {
				name, body string
				status     int
				code       string
			}{
				{"malformed JSON", `{"model":"m","messages":[`, 400, "malformed_json"},
				{"bad UTF-8", "{\"model\":\"\xff\",\"messages\":[]}", 400, "malformed_json"},
				{"an unknown model", `{"model":"nobody","messages":[]}`, 404, "model_not_found"},
				{"too large", string(chat(1, 200_000, "")), 413, "body_too_large"},
			} {
				r := w.do(call{body: []byte(c.body)})
				if r.err != nil || r.status != c.status || !strings.Contains(string(r.body), `"code":"`+c.code+`"`) {
					t.Errorf("%s: status %d, error %v, %s", c.name, r.status, r.err, r.body)
				}
				if len(r.header.Get("x-fairlead-decision-id")) != 32 || r.header.Get("X-Sim-Engine") != "" {
					t.Errorf("%s: headers %v", c.name, r.header)
				}
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
			time.Sleep(200 * time.Millisecond) // the access log's entries of the refusals come, and are no strangers
			if n := w.metric(`fairlead_reasons_total{reason="unknown_log_entry"}`); n != 0 {
				t.Errorf("%v log entries were taken for strangers", n)
			}
		})
	}
}

// TestTrailers: a request that ends with trailers is a request.
func TestTrailers(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config, edit: func(yaml string) string {
				return strings.Replace(yaml, "codec_type: AUTO", "codec_type: AUTO\n          http_protocol_options: {enable_trailers: true}", 1)
			}})
			for range 20 {
				c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				body := chat(1, 50, `,"max_tokens":2`)
				fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\ntrailer: x-checksum\r\nconnection: close\r\n\r\n%x\r\n%s\r\n0\r\nx-checksum: 1\r\n\r\n", len(body), body)
				r, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 {
					t.Errorf("status %d, error %v, %s", r.StatusCode, err, got)
				}
				bodies.same(t, "a request with trailers", sum(body), r.Header.Get("X-Sim-Body-Sha256"))
				c.Close()
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
		})
	}
}

// TestSecureServing: over TLS, as the picker serves by default, with a certificate that nobody verifies.
func TestSecureServing(t *testing.T) {
	w := newWorld(t, options{envoy: "override.yaml", secure: true, edit: func(yaml string) string {
		const socket = `    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}
`
		return strings.Replace(yaml, "  - name: picker\n", "  - name: picker\n"+socket, 1)
	}})
	w.store(events(3072))
	each(200, 8, func(i int) {
		if r := w.do(call{fixed: true, body: chat(i, 10_000, ""), h2: i%2 == 0}); r.err != nil || r.status != 200 {
			t.Errorf("status %d, error %v", r.status, r.err)
		}
	})
	w.booksZero(time.Now(), 50*time.Millisecond)
}

// TestOriginalDestination: a gateway that declares nothing, routes by the header and knows one destination alone.
func TestOriginalDestination(t *testing.T) {
	w := newWorld(t, options{envoy: "edges.yaml", edit: func(yaml string) string {
		yaml = fullDuplexAnswers(yaml)
		yaml = strings.Replace(yaml, `value: "fallbacks,access-log,trailers-route"`, `value: "none"`, 1)
		yaml = strings.Replace(yaml, "request_headers_to_remove: [x-gateway-destination-endpoint]", "", 1) // this cluster reads it
		return yaml[:strings.Index(yaml, "  - name: pods\n")] + `  - name: pods
    type: ORIGINAL_DST
    lb_policy: CLUSTER_PROVIDED
    connect_timeout: 1s
    original_dst_lb_config: {use_http_header: true, http_header_name: x-gateway-destination-endpoint}
`
	}})
	w.store(events(3072))
	engines := map[string]bool{}
	var lock sync.Mutex
	each(200, 8, func(i int) {
		r := w.do(call{fixed: true, body: chat(i, 10_000, ""), h2: i%2 == 0})
		if r.err != nil || r.status != 200 {
			t.Errorf("status %d, error %v", r.status, r.err)
			return
		}
		lock.Lock()
		engines[r.header.Get("X-Sim-Engine")] = true
		lock.Unlock()
	})
	if len(engines) != pods {
		t.Errorf("%d pods served; want %d", len(engines), pods)
	}
	w.booksZero(time.Now(), 50*time.Millisecond)
}
