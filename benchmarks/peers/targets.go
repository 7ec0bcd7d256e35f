package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// target is one router in front of the workers.
type target struct {
	name string
	url  string
	// slow targets get fewer requests of a size; 1 is the full number.
	share func(size, workers int) float64
	parts []part
	why   string // why it is missing, empty if it runs
}

// part is one of a target's processes, with the name under which its CPU is told beside the sum.
type part struct {
	name  string
	child *children.Child
}

// site is what targets are started with.
type site struct {
	ctx      context.Context
	self     string // this program, to serve as floors
	fairlead string
	envoy    string // its binary; empty: targets with Envoy are missing
	peers    string // folder of the Python environments
	manifest string // the shipped Envoy configuration
	dir      string // for configurations
	ports    func() int
	first    int // the first worker's port
	workers  int
}

func (s *site) addresses() (list []string) {
	for i := range s.workers {
		list = append(list, "127.0.0.1:"+strconv.Itoa(s.first+i))
	}
	return list
}

func (s *site) urls() (list []string) {
	for _, a := range s.addresses() {
		list = append(list, "http://"+a)
	}
	return list
}

func (s *site) write(name, text string) (path string, err error) {
	path = filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// all starts every target that can be started here, or only those of a list of names.
func (s *site) all(only string) (list []*target) {
	for _, t := range []struct {
		name  string
		start func(name string) *target
	}{
		{"nginx round robin", s.nginx},
		{"Go httputil.ReverseProxy", s.reverseProxy},
		{"Fairlead gateway", s.fairleadGateway},
		{"smg round_robin", s.python("smg-1.13.0", full, "smg", "launch", "--policy", "round_robin")},
		{"smg cache_aware", s.python("smg-1.13.0", full, "smg", "launch", "--policy", "cache_aware")},
		{"vllm-router round_robin", s.python("vllm-router-0.1.17", full, "vllm-router", "--policy", "round_robin")},
		{"vllm-router cache_aware", s.python("vllm-router-0.1.17", fanOut, "vllm-router", "--policy", "cache_aware")},
		{"sglang-router round_robin", s.python("sglang-router-0.3.2", stalls, "python", "-m", "sglang_router.launch_router", "--policy", "round_robin")},
		{"sglang-router cache_aware", s.python("sglang-router-0.3.2", stalls, "python", "-m", "sglang_router.launch_router", "--policy", "cache_aware")},
		{"Envoy + no-op picker", s.envoyNoOp},
		{"Envoy + Fairlead EPP", s.envoyFairlead},
	} {
		if only == "" || slices.Contains(strings.Split(only, ","), t.name) {
			list = append(list, t.start(t.name))
		}
	}
	return list
}

func full(int, int) float64 { return 1 }

// fanOut is for a router that sends each prompt to every worker.
func fanOut(size, workers int) float64 {
	if workers > 8 || size > 50_000 {
		return 0.1
	}
	return 0.4
}

// stalls is for a router whose answers wait for a delayed acknowledgement, some 40 ms each.
func stalls(int, int) float64 { return 0.3 }

// started waits until the target answers a request, or says why it is missing.
func (s *site) started(t *target, err error) *target {
	if err == nil {
		err = t.parts[len(t.parts)-1].child.Until(s.ctx, 60*time.Second, func(ctx context.Context) error {
			return answers(ctx, t.url)
		})
	}
	if err != nil {
		t.why = err.Error()
		t.stop()
	}
	return t
}

// answers reports whether a router has workers behind it by now.
func answers(ctx context.Context, at string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"hello"}],"stream":true}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

func (t *target) stop() {
	for _, p := range t.parts {
		p.child.Stop(2 * time.Second)
	}
	t.parts = nil
}

func (t *target) run(name string, command []string) error {
	child, err := children.Start(command, nil, nil)
	if err != nil {
		return err
	}
	t.parts = append(t.parts, part{name, child})
	return nil
}

// python returns how a peer that is a Python package is started.
func (s *site) python(environment string, share func(int, int) float64, command ...string) func(name string) *target {
	return func(name string) *target { return s.startPython(name, environment, share, command) }
}

func (s *site) startPython(name, environment string, share func(int, int) float64, command []string) *target {
	port, metrics := s.ports(), s.ports()
	t := &target{name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), share: share}
	bin := filepath.Join(s.peers, environment, "bin", command[0])
	if _, err := os.Stat(bin); err != nil {
		t.why = "not installed"
		return t
	}
	command = append([]string{bin}, command[1:]...)
	command = append(command, "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--prometheus-host", "127.0.0.1", "--prometheus-port", strconv.Itoa(metrics),
		"--log-level", "error", "--disable-retries", "--worker-urls")
	return s.started(t, t.run("", append(command, s.urls()...)))
}

func (s *site) nginx(name string) *target {
	port := s.ports()
	t := &target{name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), share: full}
	bin, err := exec.LookPath("nginx")
	if err != nil {
		t.why = "not installed"
		return t
	}
	path, err := s.write("nginx.conf", fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream workers { %[2]s keepalive 64; }
  server {
    listen 127.0.0.1:%[3]d; client_max_body_size 0; client_body_buffer_size 1m;
    location / { proxy_pass http://workers; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off; }
  }
}
`, s.dir, "server "+strings.Join(s.addresses(), "; server ")+";", port))
	if err == nil {
		err = t.run("", []string{bin, "-e", "stderr", "-c", path, "-p", s.dir})
	}
	return s.started(t, err)
}

// reverseProxy is what the standard library alone costs.
func (s *site) reverseProxy(name string) *target {
	port := s.ports()
	t := &target{name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), share: full}
	return s.started(t, t.run("", []string{s.self, "-serve-proxy", strconv.Itoa(port), "-first", strconv.Itoa(s.first), "-workers", strconv.Itoa(s.workers)}))
}

// serveProxy serves a ReverseProxy over the workers, in turn.
func serveProxy(port, first, workers int) error {
	var turn atomic.Uint64
	p := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", first+int(turn.Add(1)%uint64(workers)))})
		},
	}
	server := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Handler: p, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

func (s *site) endpoints() (path string, err error) {
	var b strings.Builder
	b.WriteString("endpoints:\n")
	for i := range s.workers {
		fmt.Fprintf(&b, "- {name: w-%d, address: 127.0.0.1, port: \"%d\"}\n", i, s.first+i)
	}
	return s.write("endpoints.yaml", b.String())
}

// fairleadGateway is the embedded proxy with the default profile.
func (s *site) fairleadGateway(name string) *target {
	port := s.ports()
	t := &target{name: name, url: fmt.Sprintf("http://127.0.0.1:%d", port), share: full}
	path, err := s.endpoints()
	if err == nil {
		err = t.run("", []string{s.fairlead, "gateway", "--listen", "127.0.0.1:" + strconv.Itoa(port), "--endpoints", path, "--metrics-port", "0",
			"--grpc-health-port", "0", "--log-level", "error"})
	}
	return s.started(t, err)
}

func (s *site) envoyFairlead(name string) *target {
	t := &target{name: name, share: full}
	grpc := s.ports()
	path, err := s.endpoints()
	if err == nil {
		err = t.run("EPP", []string{s.fairlead, "epp", "--grpc-bind", "127.0.0.1", "--grpc-port", strconv.Itoa(grpc), "--secure-serving=false", "--endpoints", path,
			"--metrics-port", "0", "--grpc-health-port", "0", "--log-level", "error"})
	}
	return s.behindEnvoy(t, grpc, err)
}

func (s *site) envoyNoOp(name string) *target {
	t := &target{name: name, share: full}
	grpc := s.ports()
	err := t.run("EPP", []string{s.fairlead, "bench", "extproc", "--noop-serve", fmt.Sprintf("127.0.0.1:%d", grpc), "--noop-destinations", strings.Join(s.addresses(), ",")})
	return s.behindEnvoy(t, grpc, err)
}

// behindEnvoy puts an Envoy with the shipped configuration in front of a picker.
func (s *site) behindEnvoy(t *target, grpc int, err error) *target {
	if err == nil && s.envoy == "" {
		err = fmt.Errorf("envoy is not installed")
	}
	if err != nil {
		t.why = err.Error()
		t.stop()
		return t
	}
	port, admin := s.ports(), s.ports()
	t.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	text := s.manifest
	text = strings.Replace(text, "port_value: 8080", fmt.Sprintf("port_value: %d", port), 1)
	text = strings.Replace(text, "port_value: 9002", fmt.Sprintf("port_value: %d", grpc), 1)
	text = strings.Replace(text, "port_value: 9901", fmt.Sprintf("port_value: %d", admin), 1)
	var hosts strings.Builder
	for i := range s.workers {
		fmt.Fprintf(&hosts, "        - {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}\n", s.first+i)
	}
	at := strings.Index(text, "        - {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8100}}}}")
	if at < 0 {
		t.why = "the shipped Envoy configuration does not list its pods as expected"
		t.stop()
		return t
	}
	path, err := s.write(fmt.Sprintf("envoy-%d.yaml", port), text[:at]+hosts.String())
	if err == nil {
		err = t.run("Envoy", []string{s.envoy, "-c", path, "--concurrency", "2", "--disable-hot-restart", "-l", "error"})
	}
	return s.started(t, err)
}
