package telemetry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/engines"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The KV usage under its new name, its old one, both and neither.
func TestM01ARenamedMetric(t *testing.T) {
	const running = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
	for _, tt := range []struct {
		name, page string
		want       float64
		missing    string
	}{
		{"A", `vllm:kv_cache_usage_perc{model_name="m"} 0.42`, 0.42, ""},
		{"B", `vllm:gpu_cache_usage_perc{model_name="m"} 0.42`, 0.42, ""},
		{"both", `vllm:gpu_cache_usage_perc{model_name="m"} 0.1` + "\n" + `vllm:kv_cache_usage_perc{model_name="m"} 0.42`, 0.42, ""},
		{"neither", "", -1, `pool "a": default/pod-0 at 10.0.0.0:8000: no vllm:kv_cache_usage_perc`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &served{answer: func(context.Context, string) (string, error) { return running + tt.page, nil }}
				var sink counts
				p := pool.New("a", nil)
				p.Update(0, members(1))
				start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Sink: &sink})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if s := sample(p, 0); s.KVUsage != tt.want || s.Running != 1 {
					t.Errorf("sample %+v", s)
				}
				if got := strings.Join(sink.of(reason.SeriesMissing), "; "); got != tt.missing { // once, however often it is asked
					t.Errorf("noted %q, want %q", got, tt.missing)
				}
			})
		})
	}
}

func TestM02NoAdaptersIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(context.Context, string) (string, error) {
			return "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:kv_cache_usage_perc 0\n", nil
		}}
		var sink counts
		p := pool.New("a", nil)
		p.Update(0, members(1))
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Sink: &sink})
		time.Sleep(1000 * time.Second)
		synctest.Wait()
		if n := e.times("10.0.0.0:8000"); n < 900 {
			t.Fatalf("%d pages", n)
		}
		if s := sample(p, 0); len(s.Adapters)+len(s.AdaptersWaiting) != 0 || s.Running != 1 {
			t.Errorf("sample %+v", s)
		}
		if len(sink.notes) != 0 {
			t.Errorf("noted %v", sink.notes)
		}
	})
}

// An endpoint that does not answer at first is never scraped, neither idle nor busy, and is like all others after its
// first page.
func TestM04NeverScrapedUntilTheFirstPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := &served{answer: func(_ context.Context, host string) (string, error) {
			if host == "10.0.0.0:8000" && time.Since(began) < 30*time.Second {
				return "", errors.New("connection refused")
			}
			return "vllm:num_requests_waiting 0\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n", nil
		}}
		p := pool.New("a", nil)
		p.Update(0, members(2))
		clock := stopwatch()
		start(t, Options{Pools: []*pool.Pool{p}, Clock: clock, Transport: e})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		never, other := sample(p, 0), sample(p, 1)
		if want := pool.NoSample(); !cmp.Equal(want, never) || never.State(clock(), p.StaleAfter()) != pool.Never || other.State(clock(), p.StaleAfter()) != pool.Fresh {
			t.Errorf("never scraped %+v, other %+v", never, other)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := sample(p, 0); s.State(clock(), p.StaleAfter()) != pool.Fresh || s.KVUsage != 0.1 {
			t.Errorf("after its first page %+v", s)
		}
	})
}

// Over real sockets: one of 50 accepts and never answers. The others are read again and again.
func TestM07OneOf50TargetsHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			go func() { <-hang; c.Close() }()
		}
	}()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "vllm:num_requests_waiting 1\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n")
	}))
	defer server.Close()
	at := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
	m := members(50)
	for i := range m {
		m[i].Metrics = at
	}
	m[13].Metrics = netip.MustParseAddrPort(silent.Addr().String())
	var sink counts
	p := pool.New("a", nil)
	p.Update(0, m)
	var pages [50]chan struct{}
	for i := range pages {
		pages[i] = make(chan struct{}, 1000)
	}
	start(t, Options{
		Pools: []*pool.Pool{p}, Clock: stopwatch(), Sink: &sink, Interval: 100 * time.Millisecond, Timeout: 80 * time.Millisecond,
		Scraped: func(s Scrape) {
			if s.Outcome == OK {
				pages[s.Endpoint.ID] <- struct{}{}
			}
		},
	})
	for range 10 {
		for i := range pages {
			if i != 13 {
				<-pages[i]
			}
		}
	}
	if s := sample(p, 13); s.At != 0 {
		t.Errorf("the silent one has a sample: %+v", s)
	}
	if failed := sink.of(reason.ScrapeFailed); len(failed) == 0 || !strings.Contains(strings.Join(failed, "\n"), "no whole page within 80ms") {
		t.Errorf("noted %q", failed)
	}
}

// Two models behind one port, each of a pool of its own: a pool sees its model's load.
func TestM08TwoModelsOnOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(context.Context, string) (string, error) {
			return `vllm:num_requests_running{model_name="a",engine="0"} 3
vllm:num_requests_running{model_name="a",engine="1"} 4
vllm:num_requests_running{model_name="b",engine="0"} 50
vllm:num_requests_waiting{model_name="b",engine="0"} 5
vllm:kv_cache_usage_perc{model_name="a",engine="0"} 0.25
vllm:kv_cache_usage_perc{model_name="b",engine="0"} 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="100",engine="0"} 1
`, nil
		}}
		var pools []*pool.Pool
		for _, name := range []string{"a", "b", "both", "renamed", "open"} {
			p := pool.New(name, nil)
			p.Update(0, members(1))
			pools = append(pools, p)
		}
		start(t, Options{Pools: pools, Clock: stopwatch(), Transport: e, Models: map[string][]string{
			"a": {"a", "alias-of-a"}, "b": {"b"}, "both": {"a", "b"}, "renamed": {"named otherwise by its engine"}}})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for i, want := range []struct {
			running, waiting int32
			usage            float64
		}{{7, -1, 0.25}, {50, 5, 0.5}, {57, 5, 0.5}, {57, 5, 0.5}, {57, 5, 0.5}} {
			// Of a the page has no waiting requests. A pool none of whose models it names takes all of it.
			if s := sample(pools[i], 0); s.Running != want.running || s.Waiting != want.waiting || s.KVUsage != want.usage || s.Blocks != 100 {
				t.Errorf("pool %s: %+v, want %+v", pools[i].Name, s, want)
			}
		}
	})
}

func TestM13CountersByEitherName(t *testing.T) {
	for _, tt := range []struct{ name, page string }{
		{"text without the suffix", "vllm:prefix_cache_hits 42\nvllm:prompt_tokens 7\n"},
		{"text with the suffix", "vllm:prefix_cache_hits_total 42\nvllm:prompt_tokens_total 7\n"},
		{"both: the name asked for", "vllm:prefix_cache_hits 1\nvllm:prefix_cache_hits_total 42\nvllm:prompt_tokens 1\nvllm:prompt_tokens_total 7\n"},
		{"OpenMetrics", "# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total 42.0 # {trace_id=\"a\"} 1.0 1700000000.1\n" +
			"vllm:prefix_cache_hits_created 1.7e9\n# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total 7 # {} 1\n# EOF\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := engines.Builtin()[0]
			e.Custom = []engines.Custom{{Key: "hits", Spec: mustSpec(t, "vllm:prefix_cache_hits_total")}}
			r := NewScanner(e, nil).Scan([]byte(tt.page))
			if want := []pool.Attribute{{Name: "hits", Value: 42}}; !cmp.Equal(want, r.Sample.Custom) || r.Sample.PromptTokens != 7 {
				t.Errorf("sample %+v", r.Sample)
			}
		})
	}
}

// The pool serves at 8000, a pod at 8200, and metrics are at 9090.
func TestM14TheMetricsPortIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{}
		var sink counts
		p := pool.New("a", nil)
		m := members(3)
		m[0].Addr = netip.MustParseAddrPort("10.0.0.0:8200")
		m[1].Metrics = netip.MustParseAddrPort("10.0.0.1:9400")
		p.Update(0, m)
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Sink: &sink, Port: 9090})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for host, asked := range map[string]bool{"10.0.0.0:9090": true, "10.0.0.0:8200": false, "10.0.0.1:9400": true, "10.0.0.1:9090": false, "10.0.0.2:9090": true} {
			if (e.times(host) > 0) != asked {
				t.Errorf("%s was asked %d times", host, e.times(host))
			}
		}
		want := []string{`pool "a": default/pod-1 at 10.0.0.1:9400: its metrics port is 9400, and that of metrics-data-source is 9090`}
		if diff := cmp.Diff(want, sink.of(reason.MetricsPortDiffers)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestX05ValuesThatCannotBe(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-Inf", "-1", "1e309", "-1e309", "1e18", "0x1p4", "", "many"} {
		var s Scanner
		r := s.Scan([]byte("vllm:num_requests_waiting " + value + "\nvllm:num_requests_running " + value + "\nvllm:kv_cache_usage_perc " + value + "\n"))
		if r.Sample.Waiting != -1 || r.Sample.Running != -1 || r.Sample.KVUsage != -1 || len(r.Rejected) != 3 {
			t.Errorf("%q: %+v, rejected %v", value, r.Sample, r.Rejected)
		}
	}
	for _, value := range []string{"42", "1.0001"} {
		var s Scanner
		if r := s.Scan([]byte("vllm:kv_cache_usage_perc " + value)); r.Sample.KVUsage != -1 || len(r.Rejected) != 1 {
			t.Errorf("a share of %s: %+v", value, r)
		}
	}
}

func TestX06DuplicatesAndTimestamps(t *testing.T) {
	const w = "vllm:num_requests_waiting"
	for _, tt := range []struct {
		name, page string
		want       int32
	}{
		{"in order", w + " 3 1000\n" + w + " 4 2000\n", 4},
		{"out of order", w + " 4 2000\n" + w + " 3 1000\n", 4},
		{"without timestamps the later line", w + " 3\n" + w + " 4\n", 4},
		{"no line feed at the end", w + " 3 1000\n" + w + " 4 2000", 4},
		{"a line of 1 MB before", "#" + strings.Repeat("x", 1<<20) + "\n" + w + " 4\n", 4},
		{"a line of 1 MB of ours", w + `{x="` + strings.Repeat("y", 1<<20) + `"} 4` + "\n", 4},
		{"a line of 1 MB that cannot be read", w + " " + strings.Repeat("9", 1<<20) + "x\n" + "vllm:num_requests_running 1\n", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			if r := s.Scan([]byte(tt.page)); r.Sample.Waiting != tt.want {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestEnginesOfEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(_ context.Context, host string) (string, error) {
			if strings.HasSuffix(host, ".1:8000") {
				return "sglang:num_queue_reqs 5\nsglang:num_running_reqs 1\nsglang:token_usage 0.1\n", nil
			}
			return "vllm:num_requests_waiting 3\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n", nil
		}}
		var sink counts
		p := pool.New("a", nil)
		m := members(3)
		m[1].Labels = map[string]string{engines.LegacyLabelKey: "sglang"}
		m[2].Labels = map[string]string{engines.LabelKey: "vlm"}
		p.Update(0, m)
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Sink: &sink})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for id, want := range []int32{3, 5, 3} {
			if s := sample(p, pool.ID(id)); s.Waiting != want {
				t.Errorf("endpoint %d: %+v", id, s)
			}
		}
		if diff := cmp.Diff([]string{`pool "a": default/pod-2 at 10.0.0.2:8000: engine "vlm"; its page is read as one of vllm`}, sink.of(reason.EngineUnknown)); diff != "" {
			t.Error(diff)
		}
		// The label changes, and the endpoint is read as what it says.
		m = members(3)
		m[1].Labels = map[string]string{engines.LabelKey: "vllm"}
		p.Update(1, m)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if failed := sink.of(reason.ScrapeFailed); len(failed) == 0 || !strings.Contains(failed[0], "none of the series of engine vllm; is this its metrics port, and is label llm-d.ai/engine-type right?") {
			t.Errorf("noted %q", failed)
		}
	})
}

func TestARarePageIsNotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(context.Context, string) (string, error) {
			return "vllm:num_requests_waiting 3\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\n{\"http.requests\"} 4\n", nil
		}}
		var sink counts
		p := pool.New("a", nil)
		p.Update(0, members(2))
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Sink: &sink})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := len(sink.of(reason.PageReadWhole)); n != 2 {
			t.Errorf("noted %d times of 2 endpoints", n)
		}
		if s := sample(p, 1); s.Waiting != 3 {
			t.Errorf("sample %+v", s)
		}
	})
}

func TestTheEnginesOwnPath(t *testing.T) {
	for _, tt := range []struct{ engine, path, want string }{
		{"vllm", "", "/metrics"},
		{"trtllm-serve", "", "/prometheus/metrics"},
		{"trtllm-serve", "/metrics", "/metrics"},
		{"vllm", "/m?x=1", "/m?x=1"},
	} {
		p := pool.New("a", nil)
		p.Update(0, members(1))
		poller, err := New(Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Path: tt.path, Engines: engines.Choice{Default: tt.engine}})
		if err != nil {
			t.Fatal(err)
		}
		if got := poller.target(poller.identify(0, &p.Snapshot().Slots[0])).request.URL.RequestURI(); got != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.engine, tt.path, got, tt.want)
		}
	}
}

// authority writes a certificate for 127.0.0.1 that signs itself, and its key, into dir.
func authority(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestPagesOverTLS(t *testing.T) {
	dir := t.TempDir()
	serverCert, serverKey := authority(t, dir, "server")
	clientCert, clientKey := authority(t, dir, "client")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	data, err := os.ReadFile(clientCert)
	if err != nil {
		t.Fatal(err)
	}
	known.AppendCertsFromPEM(data)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "vllm:num_requests_waiting 3\n")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, tt := range []struct {
		name   string
		tls    TLS
		failed string
	}{
		{"trusted and known", TLS{CAFile: serverCert, CertFile: clientCert, KeyFile: clientKey}, ""},
		{"any certificate will do", TLS{SkipVerify: true, CertFile: clientCert, KeyFile: clientKey}, ""},
		{"not trusted", TLS{CertFile: clientCert, KeyFile: clientKey}, "certificate"},
		{"not known", TLS{CAFile: serverCert}, "certificate required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, err := tt.tls.Config()
			if err != nil {
				t.Fatal(err)
			}
			var sink counts
			target, p := one(t, strings.Replace(server.URL, "https", "http", 1), Options{Scheme: "https", TLS: config, Sink: &sink, Timeout: 10 * time.Second})
			target.once(t.Context())
			failed := strings.Join(sink.of(reason.ScrapeFailed), "")
			if s := sample(p, 0); (s.Waiting == 3) != (tt.failed == "") || !strings.Contains(failed, tt.failed) {
				t.Errorf("sample %+v, noted %q", s, failed)
			}
		})
	}
	for _, tt := range []struct {
		name string
		tls  TLS
		want string
	}{
		{"no CA file", TLS{CAFile: filepath.Join(dir, "none")}, "telemetry: the engines' CA: open "},
		{"a CA file without certificate", TLS{CAFile: serverKey}, "has no certificate in PEM form"},
		{"half a certificate", TLS{CertFile: clientCert}, "of the client's certificate and key one is given; give both"},
		{"another's key", TLS{CertFile: clientCert, KeyFile: serverKey}, "telemetry: our certificate for engines: "},
	} {
		if _, err := tt.tls.Config(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
