package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestBodiesReachTheEngineByteForByte(t *testing.T) {
	sizes := []int{0, 1, 4000, smallBuffer, smallBuffer + 1, largeBuffer - 100, largeBuffer, 3 * largeBuffer, 20 << 20}
	for _, reads := range []plugins.Reads{plugins.ReadsBody, plugins.ReadsHeaders} {
		e := newEngine(t, nil)
		w := newWorld(t, setup{reads: reads}, e.addr)
		for _, size := range sizes {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("reads %d, %d bytes, chunked %t", reads, size, chunked), func(t *testing.T) {
					body := prompt(size)
					var source io.Reader = strings.NewReader(body)
					if chunked {
						source = struct{ io.Reader }{source}
					}
					resp, err := http.Post(w.front.URL+chatPath, "application/json", source)
					if err != nil {
						t.Fatal(err)
					}
					got, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode != 200 || string(got) != "ok" || resp.Header.Get("X-Body") != hash([]byte(body)) {
						t.Fatalf("got %d %q, body hash %s", resp.StatusCode, got, resp.Header.Get("X-Body"))
					}
					s := <-e.requests
					if !chunked && s.Length != int64(len(body)) {
						t.Errorf("the engine was told of %d bytes, sent were %d", s.Length, len(body))
					}
					if chunked && s.Length != -1 {
						t.Errorf("a chunked body came with content-length %d", s.Length)
					}
					if o := w.settled(); o.Ending != 0 {
						t.Errorf("ended %v, want clean", o.Ending)
					}
				})
			}
		}
	}
}

func TestEditsKeepTheContentLengthTrue(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		for _, chunked := range []bool{false, true} {
			for _, name := range []string{"a-much-longer-name-of-a-model", "x"} {
				t.Run(fmt.Sprintf("%d bytes, chunked %t, model %s", size, chunked, name), func(t *testing.T) {
					e := newEngine(t, nil)
					w := newWorld(t, setup{reads: plugins.ReadsBody, extra: []any{hook(func(r *plugins.Request, out *plugins.Outgoing) {
						out.Edits = append(out.Edits, openai.Edit{Span: r.Body.ModelSpan, New: openai.QuoteModel(name)})
					})}}, dead(t), e.addr) // the edits are made in each attempt
					body := prompt(size)
					var source io.Reader = strings.NewReader(body)
					if chunked {
						source = struct{ io.Reader }{source}
					}
					resp, err := http.Post(w.front.URL+chatPath, "application/json", source)
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					want := strings.Replace(body, `"m-base"`, `"`+name+`"`, 1)
					s := <-e.requests
					if s.Hash != hash([]byte(want)) || !chunked && s.Length != int64(len(want)) {
						t.Errorf("the engine got %d bytes, told of %d; want %d", s.Bytes, s.Length, len(want))
					}
				})
			}
		}
	}
}

func TestRequestHeaders(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, extra: []any{hook(func(_ *plugins.Request, out *plugins.Outgoing) {
		out.Set = out.Set.Set("x-prefiller-host-port", "192.0.2.1:8000")
	})}}, e.addr)
	c, r := w.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: llm.example\r\nContent-Type: application/json\r\n" +
		"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\n" +
		"Upgrade: websocket\r\nAuthorization: Bearer k\r\nX-Multi: a\r\nX-Multi: b\r\nx-forwarded-for: 203.0.113.9\r\n" +
		"X-Gateway-Destination-Endpoint: 192.0.2.66:1\r\nx-prefiller-host-port: 192.0.2.66:2\r\nx-fairlead-decision-id: forged\r\n" +
		"Content-Length: " + fmt.Sprint(len(prompt(5))) + "\r\n\r\n" + prompt(5))
	defer c.Close()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	got := <-e.requests
	if got.Host != "llm.example" {
		t.Errorf("host %q", got.Host)
	}
	want := map[string]string{
		"Authorization": "[Bearer k]", "X-Multi": "[a b]", "X-Forwarded-For": "[203.0.113.9, 127.0.0.1]", "Te": "[trailers]",
		"X-Prefiller-Host-Port": "[192.0.2.1:8000]", "Content-Type": "[application/json]",
	}
	for name, value := range want {
		if fmt.Sprint(got.Header[name]) != value {
			t.Errorf("%s is %v, want %s", name, got.Header[name], value)
		}
	}
	for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Connection", "Upgrade", "Connection", "User-Agent", "Accept-Encoding",
		"X-Gateway-Destination-Endpoint", "X-Fairlead-Decision-Id"} {
		if v, ok := got.Header[name]; ok {
			t.Errorf("the engine got %s: %v", name, v)
		}
	}
	if len(got.Header["X-Request-Id"]) != 1 {
		t.Errorf("x-request-id is %v, want one made by us", got.Header["X-Request-Id"])
	}
}

func TestRequestTargetsPassAsSent(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{}, e.addr)
	for _, row := range [][2]string{
		{"/", "/"},
		{"/v1/thing?a=1;b=%zz&c", "/v1/thing?a=1;b=%zz&c"},
		{"/a%2Fb/%7Euser/...//c", "/a%2Fb/%7Euser/...//c"},
		{"/a|b\"c^d", "/a|b\"c^d"},
		{"/x?", "/x?"},
		{"//double/slash", "//double/slash"},
		{"http://other.example/absolute?q=1", "/absolute?q=1"},
	} {
		_, r := w.raw("GET " + row[0] + " HTTP/1.1\r\nHost: llm.example\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", row[0], err)
		}
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s", row[0], resp.Status)
		}
		if got := <-e.requests; got.Target != row[1] {
			t.Errorf("%s reached the engine as %s, want %s", row[0], got.Target, row[1])
		}
	}
}

func TestMethods(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{}, e.addr)
	for _, method := range []string{"HEAD", "OPTIONS", "DELETE", "PUT", "GET"} {
		request, _ := http.NewRequest(method, w.front.URL+"/v1/thing", nil)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if got := <-e.requests; got.Method != method || resp.StatusCode != 200 {
			t.Errorf("%s: the engine saw %s, the client %d", method, got.Method, resp.StatusCode)
		}
		if method == "HEAD" && (len(body) > 0 || resp.ContentLength != 2) {
			t.Errorf("HEAD: %q, content-length %d", body, resp.ContentLength)
		}
	}
	_, r := w.raw("CONNECT llm.example:443 HTTP/1.1\r\nHost: llm.example\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 405 || w.noted.count(reason.UnsupportedMethod) != 1 {
		t.Errorf("CONNECT: %v %v", resp, err)
	}
}

func TestExpectContinueIsAnsweredHere(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: llm.example\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
	c, r := w.raw(head + "Content-Length: " + fmt.Sprint(len(prompt(5))) + "\r\n\r\n")
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(c, prompt(5))
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if got := <-e.requests; got.Header.Get("Expect") != "" {
		t.Error("Expect reached the engine")
	}
}

func TestBodiesBeyondTheLimitAreRefusedUnread(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	_, r := w.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: llm.example\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n" +
		"Content-Length: 99999999999\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 413 || !strings.Contains(string(body), `"code":"body_too_large"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if e.count.Load() != 0 {
		t.Error("the engine got something")
	}
}

func TestABodyThatOutgrowsTheLimitOnItsWay(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	w := newWorld(t, setup{reads: plugins.ReadsHeaders, options: func(o *exchange.Options) { o.MaxBodyBytes = 500_000 }}, e.addr)
	const piece = 10_000
	c, r := w.raw("POST /v1/messages HTTP/1.1\r\nHost: llm.example\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() {
		for range 100 {
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", piece, strings.Repeat("a", piece)); err != nil {
				return
			}
		}
	}()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 413 || !strings.Contains(string(body), `"type":"request_too_large"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if o := w.settled(); o.Ending != reason.BodyTooLarge {
		t.Errorf("ended %v", o.Ending)
	}
}

func TestMalformedBodiesAreRefused(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	resp, body := w.post(`{"model":}`)
	if resp.StatusCode != 400 || !strings.Contains(body, "malformed_json") || resp.Header.Get("X-Fairlead-Decision-Id") == "" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if e.count.Load() != 0 || w.pool.Open() != 0 {
		t.Error("something was forwarded")
	}
}

// TestBrokenFraming: a client that is still there is told what is wrong with its chunks, before the decision and after it; one
// that went away is told nothing. Either way no load stays booked.
func TestBrokenFraming(t *testing.T) {
	for _, row := range []struct{ name, body, says string }{
		{"a length beyond 64 bits", "fffffffffffffffffff\r\nhello", "http chunk length too large"},
		{"a length below zero", "-1\r\nhello", "invalid byte in chunk length"},
		{"a length that is none", "5\r\nhello\r\nZZ\r\n", "invalid byte in chunk length"},
		{"an endless extension", "5;" + strings.Repeat("x", 100_000) + "\r\nhello", "line too long"},
		{"endless trailers", "0\r\n" + strings.Repeat("X-A: 1\r\n", 10_000) + "\r\n", "suspiciously long trailer"},
	} {
		for _, reads := range []plugins.Reads{plugins.ReadsBody, plugins.ReadsHeaders} {
			t.Run(fmt.Sprint(row.name, ", reads ", reads), func(t *testing.T) {
				e := newEngine(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				w := newWorld(t, setup{reads: reads}, e.addr)
				_, r := w.raw("POST /v1/thing HTTP/1.1\r\nHost: llm.example\r\nTransfer-Encoding: chunked\r\n\r\n" + row.body)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != 400 || !strings.Contains(string(body), `"code":"malformed_request"`) || !strings.Contains(string(body), row.says) {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				if !resp.Close {
					t.Error("the connection is kept")
				}
				if w.pool.Open() != 0 {
					t.Error("load stays booked")
				}
			})
		}
	}
	t.Run("a client that goes away", func(t *testing.T) {
		e := newEngine(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
		c, r := w.raw("POST /v1/thing HTTP/1.1\r\nHost: llm.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe")
		_ = c.(*net.TCPConn).CloseWrite()
		if resp, err := http.ReadResponse(r, nil); err == nil {
			t.Errorf("was answered with %d", resp.StatusCode)
		}
	})
}

func TestRequestTrailers(t *testing.T) {
	for _, reads := range []plugins.Reads{plugins.ReadsBody, plugins.ReadsHeaders} {
		t.Run(fmt.Sprint("reads ", reads), func(t *testing.T) {
			e := newEngine(t, nil)
			w := newWorld(t, setup{reads: reads}, e.addr)
			_, r := w.raw("POST /v1/thing HTTP/1.1\r\nHost: llm.example\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum, X-Prefiller-Host-Port\r\n\r\n" +
				"5\r\nhello\r\n0\r\nX-Checksum: 7\r\nX-Late: 8\r\nX-Prefiller-Host-Port: 192.0.2.66:1\r\n\r\n")
			resp, err := http.ReadResponse(r, nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			got := <-e.requests
			if got.Trailer.Get("X-Checksum") != "7" || got.Trailer.Get("X-Late") != "8" || got.Trailer.Get("X-Prefiller-Host-Port") != "" {
				t.Errorf("trailers %v", got.Trailer)
			}
		})
	}
}

func TestBodyStreamsThroughWhileTheEngineAnswers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				_, _ = w.Write(buffer[:n])
				_ = http.NewResponseController(w).Flush()
			}
			if err != nil {
				return
			}
		}
	})
	w := newWorld(t, setup{}, e.addr)
	source, sink := io.Pipe()
	request, _ := http.NewRequest("POST", w.front.URL+"/v1/echo", source)
	resp, err := http.DefaultClient.Do(request) // the answer's headers come before the body's end
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 20 {
		said := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(sink, said); err != nil {
			t.Fatal(err)
		}
		heard := make([]byte, len(said))
		if _, err := io.ReadFull(resp.Body, heard); err != nil || string(heard) != said {
			t.Fatalf("%q %v", heard, err)
		}
	}
	_ = sink.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	if o := w.settled(); o.Ending != 0 {
		t.Errorf("ended %v, want clean", o.Ending)
	}
}
