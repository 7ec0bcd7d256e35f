//go:build e2e && storm

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// stormTime is how long the storm lasts where STORM_TIME does not say.
	stormTime = 10 * time.Minute
	// settleTime is what connections that are kept idle, and log entries that are awaited, take to go.
	settleTime = 8 * time.Second
	// endTime is what an exchange may take to end whose log entry never comes: a stream to the picker that is no gateway's has
	// none, and it is waited for 5 s.
	endTime = 6 * time.Second
	// goroutinesMore and heapMore are what the end may have more than the time after the warm-up: runtime and collector are
	// not exact, and caches fill up to their bounds.
	goroutinesMore = 12
	heapMore       = 12 << 20
)

// longStorm is everything at once that can go wrong, for as long as is asked for.
type longStorm struct {
	*world
	proxy string // the embedded proxy's URL, in the same picker
	kinds sync.Map
	stop  chan struct{}
	all   sync.WaitGroup
}

func (s *longStorm) counted(kind string) {
	n, _ := s.kinds.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// TestLongStorm: through Envoy and through the embedded proxy come clean requests, aborts, resets, slow readers, malformed
// frames and bodies; meanwhile configurations, good and broken, and endpoints change. In the end the books are zero, there are
// no more goroutines and no more memory than after the warm-up, and the picker has nothing to report of itself.
func TestLongStorm(t *testing.T) {
	lasts := stormTime
	if text := os.Getenv("STORM_TIME"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOMAXPROCS", "2")
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			port := freePorts(t, 1)
			w := newWorld(t, options{envoy: config, speed: 200, picker: []string{"--listen", fmt.Sprintf("127.0.0.1:%d", port)}})
			w.store(events(3072))
			s := &longStorm{world: w, proxy: fmt.Sprintf("http://127.0.0.1:%d", port)}
			s.blow(min(lasts/8, 20*time.Second)) // fills pools and caches
			warm := s.measure()
			s.blow(lasts / 2)
			end := s.measure()
			t.Logf("after the warm-up %v, in the end %v", warm, end)
			if end.goroutines > warm.goroutines+goroutinesMore {
				t.Errorf("%d goroutines, %d after the warm-up", end.goroutines, warm.goroutines)
				t.Logf("%s", s.page("/debug/pprof/goroutine?debug=1"))
			}
			if end.heap > warm.heap+heapMore {
				t.Errorf("%d bytes of heap are in use, %d after the warm-up", end.heap, warm.heap)
			}
			for _, reason := range []string{"internal", "plugin_panic", "hook_panic", "booking_expired"} {
				if k := w.metric(`fairlead_reasons_total{reason="` + reason + `"}`); k != 0 {
					t.Errorf("%s: %v times", reason, k)
				}
			}
			s.readLog()
			s.report()
		})
	}
}

// blow has everything happen for a time, and then waits until nothing is left of it.
func (s *longStorm) blow(lasts time.Duration) {
	s.t.Helper()
	s.stop = make(chan struct{})
	for k := range 20 {
		s.again(0, func(i int) { s.one(s.url, k, i) })
		s.again(0, func(i int) { s.one(s.proxy, k, i) })
	}
	s.again(500*time.Millisecond, s.reconfigure)
	s.again(700*time.Millisecond, s.churn)
	s.again(20*time.Millisecond, func(int) { s.nonsense() })
	time.Sleep(lasts)
	close(s.stop)
	s.all.Wait()
	s.replace("picker.yaml", pickerConfig)
	s.h1.CloseIdleConnections()
	s.h2.CloseIdleConnections()
	s.booksZero(time.Now(), endTime)
}

// again does something again and again until the storm stops.
func (s *longStorm) again(every time.Duration, f func(i int)) {
	s.all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-s.stop:
				return
			case <-time.After(every):
			}
			f(i)
		}
	})
}

// one is one request of a kind that chance chooses.
func (s *longStorm) one(base string, k, i int) {
	s.t.Helper()
	through := "envoy"
	if base == s.proxy {
		through = "proxy"
	}
	kind := func(name string) { s.counted(through + ": " + name) }
	c := call{base: base, fixed: true, body: chat(k*1_000_000+i, rand.IntN(3000), `,"stream":true`), h2: i%2 == 0}
	want := func(r result, status int) {
		s.t.Helper()
		if r.err != nil || r.status != status {
			s.t.Errorf("through %s: status %d after %v, error %v, %.300s; want %d", through, r.status, r.took, r.err, r.body, status)
		}
	}
	switch n := rand.IntN(100); {
	case n < 40:
		kind("clean stream")
		want(s.do(c), 200)
	case n < 50:
		kind("generated answer")
		c.fixed, c.body = false, chat(i%100, 1000, `,"max_tokens":4`)
		want(s.do(c), 200)
	case n < 54:
		kind("long prompt")
		c.body = chat(i, 300_000, `,"stream":true`)
		want(s.do(c), 200)
	case n < 62:
		kind("client leaves before the answer")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c.ctx = ctx
		time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, cancel)
		s.do(c)
	case n < 70:
		kind("client leaves in the middle")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c.ctx, c.headers = ctx, []string{"X-Sim-Chunk", "100", "X-Sim-Gap", "20ms"}
		c.read = func(b *bufio.Reader) {
			_, _ = io.CopyN(io.Discard, b, int64(rand.IntN(800)))
			cancel()
		}
		s.do(c)
	case n < 76:
		kind("pod resets in the middle")
		c.headers = []string{"X-Sim-Fault", "reset-mid", "X-Sim-Chunk", "100", "X-Sim-Gap", "1ms"}
		if r := s.do(c); r.err == nil && r.status != 502 {
			s.t.Errorf("through %s: a stream that the pod reset came to its end, status %d", through, r.status)
		}
	case n < 82:
		kind("pod resets before its first byte")
		c.headers = []string{"X-Sim-Fault", "reset-before"}
		want(s.do(c), 502)
	case n < 86:
		kind("slow reader")
		c.read = func(b *bufio.Reader) {
			for {
				if _, err := io.CopyN(io.Discard, b, 256); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		s.do(c)
	case n < 91:
		kind("malformed body")
		c.fixed, c.body = false, []byte(`{"model":"m","messages":[`)
		want(s.do(c), 400)
	case n < 94:
		kind("list of models")
		c.get, c.fixed, c.path, c.body = true, false, "/v1/models", nil
		want(s.do(c), 200)
	default:
		kind("malformed frames")
		s.raw(strings.TrimPrefix(base, "http://"))
	}
}

// raw says something on a connection that is no request, or half of one.
func (s *longStorm) raw(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		s.t.Errorf("connecting: %v", err)
		return
	}
	defer c.Close()
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	says := []string{
		head + "Content-Length: 1000\r\n\r\n{\"model\":", // and leaves
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod\r\nzz\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
		head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		head + "X-Long: " + strings.Repeat("x", 400_000) + "\r\n\r\n",
		head + strings.Repeat("X-Many: x\r\n", 1000) + "\r\n",
		"GET / HTTP/7.3\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x04\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\x09\x00\x00\x00\x00\x01",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		string(bytes.Repeat([]byte{0}, 3000)),
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, says[rand.IntN(len(says))])
	if rand.IntN(2) == 0 {
		_, _ = io.CopyN(io.Discard, c, 100)
	}
}

// nonsense is a stream to the picker itself of which no gateway would think.
func (s *longStorm) nonsense() {
	s.counted("picker: nonsense on an ext_proc stream")
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", s.pickerPort), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := extprocpb.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return
	}
	fields := func(pairs ...string) *extprocpb.HttpHeaders {
		h := &corepb.HeaderMap{}
		for i := 0; i < len(pairs); i += 2 {
			h.Headers = append(h.Headers, &corepb.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
		}
		return &extprocpb.HttpHeaders{Headers: h, EndOfStream: rand.IntN(2) == 0}
	}
	messages := []*extprocpb.ProcessingRequest{
		{}, {Request: &extprocpb.ProcessingRequest_RequestHeaders{}},
		{Request: &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: fields(":method", "POST", ":path", "/v1/chat/completions", "content-type", "application/json")}},
		{Request: &extprocpb.ProcessingRequest_RequestHeaders{RequestHeaders: fields(":method", "\xff", ":path", "")}},
		{Request: &extprocpb.ProcessingRequest_RequestBody{RequestBody: &extprocpb.HttpBody{Body: []byte(`{"model":"m","messages":[]}`), EndOfStream: rand.IntN(2) == 0}}},
		{Request: &extprocpb.ProcessingRequest_RequestBody{RequestBody: &extprocpb.HttpBody{Body: make([]byte, rand.IntN(100_000)), EndOfStream: true}}},
		{Request: &extprocpb.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocpb.HttpTrailers{}}},
		{Request: &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: fields(":status", "200")}},
		{Request: &extprocpb.ProcessingRequest_ResponseBody{ResponseBody: &extprocpb.HttpBody{Body: []byte("data: x"), EndOfStream: true}}},
		{Request: &extprocpb.ProcessingRequest_ResponseTrailers{}},
	}
	for range rand.IntN(8) {
		if stream.Send(messages[rand.IntN(len(messages))]) != nil {
			break
		}
	}
	if rand.IntN(2) == 0 {
		_ = stream.CloseSend()
		for {
			if _, err := stream.Recv(); err != nil {
				break
			}
		}
	}
}

// reconfigure gives the picker another configuration, by file or by signal.
func (s *longStorm) reconfigure(i int) {
	text, good := configurations(i)
	s.replace("picker.yaml", text)
	kind := "picker: good configuration"
	if !good {
		kind = "picker: broken configuration"
	}
	s.counted(kind)
	if i%2 == 0 {
		s.picker.signal(syscall.SIGHUP)
	}
}

// churn rewrites the endpoint file: some of the pods, in any order, now and then broken.
func (s *longStorm) churn(i int) {
	if i%10 == 9 {
		s.counted("picker: broken endpoint file")
		s.replace("endpoints.yaml", "endpoints:\n- {name: pod-0, address: nowhere, port: \"1\"}\n")
		return
	}
	s.counted("picker: other endpoints")
	addrs := s.fleet.Addrs()
	var b strings.Builder
	b.WriteString("endpoints:\n")
	for _, j := range rand.Perm(pods)[:2+rand.IntN(pods-1)] {
		fmt.Fprintf(&b, "- {name: pod-%d, address: 127.0.0.1, port: \"%d\"}\n", j, addrs[j].Port())
	}
	s.replace("endpoints.yaml", b.String())
}

// figures are what a picker that rests has.
type figures struct{ goroutines, heap int64 }

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MB", f.goroutines, float64(f.heap)/1e6)
}

// measure waits until the picker rests, has it collect its garbage, and looks.
func (s *longStorm) measure() figures {
	s.t.Helper()
	time.Sleep(settleTime)
	s.booksZero(time.Now(), 50*time.Millisecond)
	for range 2 { // what finalizers let go, the second time
		s.page("/debug/pprof/heap?gc=1")
	}
	return figures{goroutines: int64(s.metric("go_goroutines")), heap: int64(s.metric("go_memstats_heap_alloc_bytes"))}
}

// readLog looks for lines of the picker in which it reports a fault of its own.
func (s *longStorm) readLog() {
	s.t.Helper()
	log, err := os.ReadFile(s.picker.log)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		mistake := strings.Contains(line, `msg="configuration refused`) || strings.Contains(line, `msg="endpoint file refused`) // those that the storm makes
		if strings.Contains(line, "level=ERROR") && !mistake || strings.Contains(line, "panic") || strings.Contains(line, "goroutine ") {
			s.t.Errorf("the picker's log: %s", line)
		}
	}
}

// report prints what was done.
func (s *longStorm) report() {
	counts := map[string]int64{}
	s.kinds.Range(func(kind, n any) bool {
		counts[kind.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		s.t.Logf("%8d  %s", counts[kind], kind)
	}
	for _, result := range []string{"applied", "unchanged", "refused"} {
		s.t.Logf("%8.0f  reloads %s", s.metric(`fairlead_config_reloads_total{result="`+result+`"}`), result)
	}
	if s.metric(`fairlead_config_reloads_total{result="applied"}`) == 0 {
		s.t.Error("no configuration was reloaded")
	}
}
