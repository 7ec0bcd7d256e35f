//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shapesConfig has a pool that serves, one without endpoints, one whose endpoint is dead, and one that is always full.
const shapesConfig = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: max-score-picker
- type: utilization-filter
  parameters: {conditions: [{metric: running-requests, maxValue: 10}]}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
- name: bounded
  plugins: [{pluginRef: utilization-filter}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
pools:
- {name: default, models: [{name: llama-3.1-8b}], profiles: [default], handler: single-profile-handler}
- {name: empty, models: [{name: empty}], profiles: [default], handler: single-profile-handler}
- {name: dead, models: [{name: dead}], profiles: [default], handler: single-profile-handler}
- {name: full, models: [{name: full}], profiles: [bounded], handler: single-profile-handler}
`

// shapesWorld starts a gateway of a kind in front of the shapes server and returns its URL, and the pod's.
func shapesWorld(t *testing.T, kind string) (url, alone string) {
	t.Helper()
	dir, first := t.TempDir(), freePorts(t, pods+4)
	s := &http.Server{Handler: &shapes{}, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { s.Close() })
	for i := range pods - 1 { // the last is dead
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(l) }()
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var endpoints strings.Builder
	endpoints.WriteString("endpoints:\n")
	for i, pool := range []string{"default", "default", "full", "dead"} {
		fmt.Fprintf(&endpoints, "- {name: pod-%d, address: 127.0.0.1, port: \"%d\", pool: %s}\n", i, first+i, pool)
	}
	grpc, port, admin, envoyAdmin := first+pods, first+pods+1, first+pods+2, first+pods+3
	args := []string{"--config-file", write("picker.yaml", shapesConfig), "--endpoints", write("endpoints.yaml", endpoints.String()), "--max-body-bytes", strconv.Itoa(2 << 20),
		"--metrics-port", strconv.Itoa(admin), "--grpc-health-port", "0", "--log-level", "warn", "--ready-without-endpoints"}
	if kind == "proxy" {
		args = append([]string{"gateway", "--listen", fmt.Sprintf("127.0.0.1:%d", port)}, args...)
	} else {
		args = append([]string{"epp", "--grpc-bind", "127.0.0.1", "--grpc-port", strconv.Itoa(grpc), "--secure-serving=false"}, args...)
	}
	picker := start(t, "picker", dir, fairlead, args...)
	picker.until(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin))
	if kind != "proxy" {
		shipped, err := os.ReadFile(filepath.Join("..", "..", "manifests", "envoy", kind))
		if err != nil {
			t.Fatal(err)
		}
		ports := []string{"8080", strconv.Itoa(port), "9002", strconv.Itoa(grpc), "9901", strconv.Itoa(envoyAdmin)}
		for i := range pods {
			ports = append(ports, strconv.Itoa(8100+i), strconv.Itoa(first+i))
		}
		for i := range ports {
			ports[i] = "port_value: " + ports[i]
		}
		text := strings.NewReplacer(append(ports, "message_timeout: 0.5s", "message_timeout: 10s")...).Replace(string(shipped))
		e := start(t, "envoy", dir, envoy, "-c", write("envoy.yaml", text), "--concurrency", "2", "--disable-hot-restart", "-l", "warning")
		e.until(fmt.Sprintf("http://127.0.0.1:%d/ready", envoyAdmin))
		e.until(fmt.Sprintf("http://127.0.0.1:%d/v1/models", port)) // the picker's health check has passed
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", first)
}

// sdkShapes is what a script of shapes prints.
type sdkShapes struct {
	Version string
	Calls   map[string]string
	Errors  map[string]struct {
		Type, Code, Message string
		Status              int
	}
	Retried map[string]struct {
		Outcome string
		Seconds float64
	}
	Bodies []struct{ Sent, Arrived string }
}

// shapeCalls is what the calls return, by name.
var shapeCalls = map[string]string{
	"models": "dead,empty,full,llama-3.1-8b",
	"chat":   "so be it", "chat streamed": "so be it|9/3/4", "chat with pictures and sound": "so be it", "chat with tools": "weather", "chat parsed": "Ulm",
	"completion": "upon a time", "completion of a list": "upon a time", "completion of token ids": "upon a time", "completion streamed": "upon a time",
	"responses": "so be it", "responses streamed": "so be it|9/2", "moderation": "", "image": "iVBORw0KGgo=", "image edited": "iVBORw0KGgo=",
	"raw header": "shapes", "speech": "", "transcription": "", "translation": "", "embeddings": "", "embeddings of token ids": "",
	"message": "so be it|17/40/6", "message streamed": "so be it|17/40/6", "message with tools": "weather", "message with a picture": "so be it", "beta message": "so be it",
	"count of tokens": "21",
}

// refusal is how an SDK is to tell an error of ours.
type refusal struct {
	status int
	code   string
}

// shapeErrors are the errors that the gateway itself answers with, by the name of the call.
var shapeErrors = map[string]refusal{
	"unknown model": {404, "model_not_found"}, "unknown model, responses": {404, "model_not_found"}, "unknown model, embeddings": {404, "model_not_found"},
	"model is a number": {400, "invalid_model"}, "body too large": {413, "body_too_large"}, "no endpoint": {503, "no_endpoint"},
	"dead endpoint": {503, "upstream_unreachable"}, "saturated": {429, "all_filtered"}, "pod says nothing": {502, "upstream_broken"},
}

// typeOf is the exception by which an SDK tells a status.
func typeOf(script string, status int) []string {
	types := map[int][]string{400: {"BadRequestError"}, 401: {"AuthenticationError"}, 403: {"PermissionDeniedError"}, 404: {"NotFoundError"}, 409: {"ConflictError"},
		413: {"APIStatusError", "APIError", "RequestTooLargeError", "ContentTooLargeError"}, 422: {"UnprocessableEntityError"}, 429: {"RateLimitError"}, 500: {"InternalServerError"}, 502: {"InternalServerError"},
		503: {"InternalServerError", "ServiceUnavailableError"}, 529: {"OverloadedError"}}
	return types[status]
}

// TestSDKShapes: the official SDKs make every call that they have for inference, through Envoy and through the embedded proxy, and
// what a pod says alone they say through the gateway; each error raises the type that the SDK has for it; Retry-After is
// honoured.
func TestSDKShapes(t *testing.T) {
	for _, kind := range []string{"edges.yaml", "override.yaml", "proxy"} {
		t.Run(kind, func(t *testing.T) {
			url, alone := shapesWorld(t, kind)
			for _, script := range []string{"shapes.py", "shapes.js", "shapes_anthropic.py"} {
				t.Run(script, func(t *testing.T) {
					t.Parallel() // most of their time they wait
					direct := make(chan sdkShapes, 1)
					go func() { direct <- runShapes(t, script, alone, kind+" alone") }()
					through := runShapes(t, script, url, kind)
					compareShapes(t, script, through, <-direct)
				})
			}
		})
	}
}

func runShapes(t *testing.T, script, base, key string) (saw sdkShapes) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", script))
	if err != nil {
		t.Error(err)
		return saw
	}
	interpreter := python
	if strings.HasSuffix(script, ".js") {
		interpreter = "node"
	}
	cmd := exec.Command(interpreter, path, base, modelName, strings.ReplaceAll(key, " ", "-")+script, sdks)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v: %s", script, err, errs.String())
	} else if err := json.Unmarshal(out.Bytes(), &saw); err != nil {
		t.Errorf("%s: %v", script, err)
	}
	return saw
}

func compareShapes(t *testing.T, script string, through, direct sdkShapes) {
	t.Helper()
	t.Logf("SDK %s: %d calls, %d errors, %d bodies", through.Version, len(through.Calls), len(through.Errors), len(through.Bodies))
	for _, b := range through.Bodies {
		bodies.same(t, "a body of the SDK", b.Sent, b.Arrived)
	}
	if len(through.Bodies) < 5 {
		t.Errorf("%d bodies were heard of", len(through.Bodies))
	}
	for name, got := range through.Calls {
		want, known := shapeCalls[name]
		if want == "" {
			want = direct.Calls[name]
		}
		if !known || got != want || strings.Contains(got, "Error") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, got := range through.Errors {
		want, ours := shapeErrors[name]
		switch {
		case ours:
			if got.Status != want.status || got.Code != want.code || !slices.Contains(typeOf(script, want.status), got.Type) {
				t.Errorf("%s: %+v, want %d %s as one of %v", name, got, want.status, want.code, typeOf(script, want.status))
			}
		case strings.HasPrefix(name, "pod ") && got.Status != 0:
			if alone := direct.Errors[name]; got != alone || !slices.Contains(typeOf(script, got.Status), got.Type) || !strings.Contains(got.Message, "own words") {
				t.Errorf("%s: %+v; alone %+v, as one of %v", name, got, alone, typeOf(script, got.Status))
			}
		default: // no status: the connection's end, and the client's own patience
			if alone := direct.Errors[name]; got.Type != alone.Type || got.Type == "none" {
				t.Errorf("%s: %+v; alone %+v", name, got, alone)
			}
		}
	}
	for name, got := range through.Retried {
		want, atLeast := "so be it", 2.0
		switch name {
		case "no endpoint":
			want, atLeast = strings.Join(typeOf(script, 503), " "), 1
		case "saturated":
			want, atLeast = "RateLimitError", 1
		}
		if !strings.Contains(want, got.Outcome) || got.Seconds < atLeast {
			t.Errorf("%s, with one retry: %q after %.2f s, want %q after %v s", name, got.Outcome, got.Seconds, want, atLeast)
		}
	}
}
