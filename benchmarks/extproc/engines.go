package extproc

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// engines are the model servers of a comparison, as far as a picker looks at them: one metrics page each, under vLLM's
// names. Requests never reach them, since the load generator stands in for Envoy and what is behind it.
type engines struct {
	at      []netip.AddrPort
	servers []*http.Server
}

// startEngines serves n pages on free loopback ports. Their queues and caches differ, so that a choice is to be made.
func startEngines(n int, model string) (*engines, error) {
	if n < 1 || n > 4096 {
		return nil, fmt.Errorf("endpoints is %d; between 1 and 4096", n)
	}
	e := &engines{}
	for i := range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			e.close()
			return nil, fmt.Errorf("metrics page of endpoint %d: %w", i, err)
		}
		page := enginePage(model, i)
		server := &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/metrics" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
				_, _ = w.Write(page) // a scraper that went away
			}),
		}
		e.servers = append(e.servers, server)
		e.at = append(e.at, listener.Addr().(*net.TCPAddr).AddrPort())
		go func() { _ = server.Serve(listener) }() // ends with close
	}
	return e, nil
}

func (e *engines) close() {
	for _, s := range e.servers {
		_ = s.Close()
	}
}

// enginePage is the part of a vLLM page that pickers read.
func enginePage(model string, i int) []byte {
	labels := fmt.Sprintf(`engine="0",model_name=%q`, model)
	var b strings.Builder
	gauge := func(name string, value float64) {
		fmt.Fprintf(&b, "# TYPE %[1]s gauge\n%[1]s{%[2]s} %[3]g\n", name, labels, value)
	}
	gauge("vllm:num_requests_running", float64(4+i%5))
	gauge("vllm:num_requests_waiting", float64(i%4))
	gauge("vllm:kv_cache_usage_perc", 0.1+float64(i%6)/10)
	fmt.Fprintf(&b, "# TYPE vllm:cache_config_info gauge\n"+
		`vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="27000"} 1`+"\n")
	return []byte(b.String())
}

// names returns address:port of each engine.
func (e *engines) names() []string {
	out := make([]string, len(e.at))
	for i, at := range e.at {
		out[i] = at.String()
	}
	return out
}

// endpointsFile is the endpoint file that lists the engines.
func (e *engines) endpointsFile() []byte {
	var b strings.Builder
	b.WriteString("endpoints:\n")
	for i, at := range e.at {
		fmt.Fprintf(&b, "- {name: pod-%d, address: %s, port: %q}\n", i, at.Addr(), fmt.Sprint(at.Port()))
	}
	return []byte(b.String())
}

// defaultConfig is the profile that decisions are measured with: the scorers that a deployment begins with.
const defaultConfig = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
`
