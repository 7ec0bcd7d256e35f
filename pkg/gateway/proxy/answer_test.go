package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// rawEngine accepts connections, reads one request's head from each and hands the connection to serve.
func rawEngine(t testing.TB, serve func(c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				serve(c, r)
			}()
		}
	}()
	return l.Addr().String()
}

// readRequest reads a request with its body.
func readRequest(r *bufio.Reader) (*http.Request, error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, request.Body)
	return request, err
}

// stream is a server-sent answer of about 3 kB.
func stream() string {
	var b strings.Builder
	for i := 0; b.Len() < 2800; i++ {
		fmt.Fprintf(&b, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"täg %d\"}}]}\n\n", i)
	}
	b.WriteString("data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":31,\"total_tokens\":38}}\n\ndata: [DONE]\n\n")
	return b.String()
}

func TestAnswersPassAtEveryChunkBoundary(t *testing.T) {
	whole := stream()
	cut := make(chan int, 1)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		at := <-cut
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, whole[:at])
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, whole[at:])
	})
	for _, wants := range []plugins.Parts{0, plugins.Usage | plugins.Chunks} {
		w := newWorld(t, setup{reads: plugins.ReadsBody, wants: wants}, e.addr)
		for at := range len(whole) + 1 {
			cut <- at
			resp, got := w.post(prompt(100))
			if hash([]byte(got)) != hash([]byte(whole)) || resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("cut at %d: %d bytes came, want %d", at, len(got), len(whole))
			}
			o := w.settled()
			if wants != 0 && (o.Prompt != 7 || o.Out != 31 || w.watch.seen.String() != whole) {
				t.Fatalf("cut at %d: usage %d/%d, a hook saw %d bytes of %d", at, o.Prompt, o.Out, w.watch.seen.Len(), len(whole))
			}
			if wants == 0 && (o.Out != plugins.Unknown || w.watch.seen.Len() != 0) {
				t.Fatalf("nobody asked, but usage %d, and a hook saw %d bytes", o.Out, w.watch.seen.Len())
			}
			w.watch.seen.Reset()
		}
	}
}

func TestHeadersAndChunksLeaveAsTheyCome(t *testing.T) {
	step := make(chan string)
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for s := range step {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	go func() { step <- "" }() // headers alone
	resp, err := http.Post(w.front.URL+chatPath, "application/json", strings.NewReader(prompt(10)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var took []time.Duration
	for i := range 50 { // each chunk is waited for before the next is written
		said := fmt.Sprintf("data: %d\n\n", i)
		began := time.Now()
		step <- said
		heard := make([]byte, len(said))
		if _, err := io.ReadFull(resp.Body, heard); err != nil || string(heard) != said {
			t.Fatalf("%q %v", heard, err)
		}
		took = append(took, time.Since(began))
	}
	close(step)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("of 50 chunks, from the engine's write to the client's read: median %v, slowest %v", took[25], took[49])
	if took[25] > 5*time.Millisecond {
		t.Errorf("the median chunk took %v; at most 5 ms", took[25])
	}
}

func TestAnswerHeadersAndErrorBodiesPassUnchanged(t *testing.T) {
	at := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nserver: uvicorn\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n"+
			"x-multi: a\r\nx-multi: b\r\ncontent-encoding: br\r\nContent-Length: 12\r\n\r\n{\"error\":42}")
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, at)
	resp, body := w.post(prompt(10))
	if resp.Header.Get("X-Fairlead-Decision-Id") == "" {
		t.Error("the answer does not name its decision")
	}
	if resp.StatusCode != 400 || body != `{"error":42}` {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	for name, want := range map[string]string{"Server": "[uvicorn]", "X-Multi": "[a b]", "Content-Encoding": "[br]", "Content-Length": "[12]",
		"X-Hop": "[]", "Keep-Alive": "[]", "Connection": "[]", "Content-Type": "[]", "Transfer-Encoding": "[]"} {
		if got := fmt.Sprint(resp.Header[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestAnswerTrailers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Checksum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Checksum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
		w.Header().Set(http.TrailerPrefix+"X-Fairlead-Decision-Id", "forged")
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	resp, body := w.post(prompt(10))
	if body != "body" || resp.Trailer.Get("X-Checksum") != "7" || resp.Trailer.Get("X-Late") != "8" || len(resp.Trailer) != 2 {
		t.Errorf("%q, trailers %v", body, resp.Trailer)
	}
}

func TestInformationalAnswersPass(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.Header().Set("X-Fairlead-Decision-Id", "forged")
		w.WriteHeader(103)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "ok")
	})
	w := newWorld(t, setup{}, e.addr)
	hints := 0
	request, _ := http.NewRequest("GET", w.front.URL+"/v1/thing", nil)
	request = request.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 103 && h.Get("Link") == "</style.css>" && h.Get("X-Fairlead-Decision-Id") == "" {
				hints++
			}
			return nil
		}}))
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if hints != 1 || resp.StatusCode != 200 || resp.Header.Get("Link") != "" {
		t.Errorf("%d hints, then %d with %v", hints, resp.StatusCode, resp.Header)
	}
}

// TestEndlessInformationalAnswers: an engine that sends nothing else is left after a thousand of them.
func TestEndlessInformationalAnswers(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for err == nil {
			_, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
		}
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	_, r := w.raw("POST /v1/thing HTTP/1.1\r\nHost: llm.example\r\nContent-Length: 2\r\n\r\n{}")
	hints := 0
	resp, err := http.ReadResponse(r, nil)
	for ; err == nil && resp.StatusCode == 103; hints++ {
		resp, err = http.ReadResponse(r, nil)
	}
	if err != nil || resp.StatusCode != 502 || hints != maxInformational {
		t.Errorf("%d hints, then %v, %v", hints, resp, err)
	}
	w.settled()
}

func TestAnswersWithoutBody(t *testing.T) {
	for _, status := range []int{204, 304, 200} {
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
			if status == 200 {
				w.Header().Set("Content-Length", "0")
			}
			w.WriteHeader(status)
		})
		w := newWorld(t, setup{}, e.addr)
		resp, body := w.post(prompt(10))
		if resp.StatusCode != status || body != "" {
			t.Errorf("%d %q, want %d", resp.StatusCode, body, status)
		}
		if o := w.settled(); o.Ending != 0 {
			t.Errorf("%d ended %v", status, o.Ending)
		}
	}
}

// breakage is an answer that breaks off: what of it was sent, in which framing, and how.
var breakages = map[string]string{
	"chunked":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"inside a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
	"content-length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
}

func TestAnAnswerThatBreaksOffNeverLooksWhole(t *testing.T) {
	for name, answer := range breakages {
		for _, hard := range []bool{false, true} {
			for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
				t.Run(fmt.Sprintf("%s, reset %t, to %s", name, hard, proto), func(t *testing.T) {
					heard := make(chan bool)
					at := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
						if _, err := readRequest(r); err != nil {
							return
						}
						_, _ = io.WriteString(c, answer)
						<-heard // a reset would overtake the bytes
						if hard {
							_ = c.(*net.TCPConn).SetLinger(0)
						}
					})
					w := newWorld(t, setup{reads: plugins.ReadsBody}, at)
					_, r := w.raw("POST " + chatPath + " " + proto + "\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(prompt(10))) + "\r\n\r\n" + prompt(10))
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					got := make([]byte, 5)
					if name == "inside a chunk" {
						got = nil // net/http hands out a chunk that is short of its buffer when it is complete
					}
					if _, err := io.ReadFull(resp.Body, got); err != nil {
						t.Error(err)
					}
					close(heard)
					rest, err := io.ReadAll(resp.Body)
					if err == nil {
						t.Error("the answer looks whole")
					}
					if got = append(got, rest...); !hard && string(got) != "hello" || !strings.HasPrefix("hello", string(got)) {
						t.Errorf("got %q, want hello", got)
					}
					if o := w.settled(); o.Ending != reason.UpstreamBroken {
						t.Errorf("ended %v, want %v", o.Ending, reason.UpstreamBroken)
					}
				})
			}
		}
	}
}

func TestClientsThatGoAwayEndTheUpstreamRequest(t *testing.T) {
	for _, when := range []string{"before the answer", "in the midst of it"} {
		t.Run(when, func(t *testing.T) {
			arrived, gone := make(chan bool), make(chan error, 1)
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if when != "before the answer" {
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				arrived <- true
				<-r.Context().Done()
				gone <- r.Context().Err()
			})
			w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
			c, r := w.raw("POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(prompt(10))) + "\r\n\r\n" + prompt(10))
			<-arrived
			if when != "before the answer" {
				if line, err := r.ReadString('\n'); err != nil {
					t.Fatal(line, err)
				}
			}
			_ = c.Close()
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Fatal("the engine still works for nobody")
			}
			if o := w.settled(); o.Ending != reason.ClientAborted {
				t.Errorf("ended %v, want %v", o.Ending, reason.ClientAborted)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]string{
		"another protocol, unasked": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"a status of two digits":    "HTTP/1.1 042 What\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":                   "SSH-2.0-OpenSSH_9.2\r\n",
		"endless headers":           "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxAnswerHeader) + "\r\n\r\n",
	} {
		at := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
			if _, err := readRequest(r); err == nil {
				_, _ = io.WriteString(c, answer)
			}
		})
		w := newWorld(t, setup{reads: plugins.ReadsBody}, at)
		resp, body := w.post(prompt(10))
		if resp.StatusCode != 502 || !strings.Contains(body, "upstream_broken") || strings.Contains(body, at) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		w.settled()
		if n := w.noted.count(reason.Internal); n != 0 {
			t.Errorf("%s: the handler panicked", name)
		}
	}
}

func TestAnAnswerThatOutlivesItsBookingIsRelayed(t *testing.T) {
	arrived, answer := make(chan bool), make(chan bool)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- true
		<-answer
		_, _ = io.WriteString(w, "late")
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	go func() {
		<-arrived
		w.s.Tick(pool.Instant(time.Hour))
		close(answer)
	}()
	if resp, body := w.post(prompt(10)); resp.StatusCode != 200 || body != "late" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	w.settled()
	if w.noted.count(reason.BookingExpired) != 1 {
		t.Error("the booking did not expire")
	}
}

func TestAnAnswerBeforeTheBodyIsRead(t *testing.T) {
	at := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\n\r\ntoo much")
		_, _ = io.Copy(io.Discard, r)
	})
	w := newWorld(t, setup{reads: plugins.ReadsHeaders}, at)
	// The client sends no more than a part before it sees the answer.
	_, r := w.raw("POST /v1/thing HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n" + strings.Repeat("x", 100_000))
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "too much" || resp.StatusCode != 413 {
		t.Errorf("%d %q %v", resp.StatusCode, body, err)
	}
	if o := w.settled(); o.Ending != 0 {
		t.Errorf("ended %v, want clean", o.Ending)
	}
}

func TestALargeAnswer(t *testing.T) {
	large := []byte(strings.Repeat("0123456789abcdef", 1<<20))
	for _, chunked := range []bool{false, true} {
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if !chunked {
				w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			}
			_, _ = w.Write(large)
		})
		w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
		if _, body := w.post(prompt(10)); hash([]byte(body)) != hash(large) {
			t.Errorf("chunked %t: %d bytes came, want %d", chunked, len(body), len(large))
		}
	}
}

func TestHTTP2WithPriorKnowledge(t *testing.T) {
	e := newEngine(t, nil)
	broken := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			_, _ = io.WriteString(c, breakages["chunked"])
		}
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	body := prompt(200_000)
	resp, err := client.Post(w.front.URL+chatPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != "ok" || resp.ProtoMajor != 2 || resp.Header.Get("X-Body") != hash([]byte(body)) {
		t.Errorf("%v %q %s", err, got, resp.Proto)
	}
	w = newWorld(t, setup{reads: plugins.ReadsBody}, broken)
	resp, err = client.Post(w.front.URL+chatPath, "application/json", strings.NewReader(prompt(10)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a broken answer ended with %q, %v", got, err)
	}
}
