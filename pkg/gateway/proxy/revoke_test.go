package proxy

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/reason"
)

// A request that is taken back is answered with 429, and its engine sees the client go.
func TestRevoke(t *testing.T) {
	for _, size := range []int{10, 200_000} {
		arrived, gone := make(chan struct{}), make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			close(arrived)
			<-r.Context().Done()
			close(gone)
		})
		q := pluginstest.NewEvictor()
		w := newWorld(t, setup{extra: []any{q}}, e.addr)
		type answer struct {
			resp *http.Response
			body string
		}
		answered := make(chan answer)
		go func() {
			resp, body := w.post(prompt(size))
			answered <- answer{resp, body}
		}()
		<-arrived
		if !q.TakeBack(func() { w.s.Tick(1) }) {
			t.Fatal("it was not taken back")
		}
		a := <-answered
		if a.resp.StatusCode != 429 || !strings.Contains(a.body, `"code":"evicted"`) || a.resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d %s", a.resp.StatusCode, a.body)
		}
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Error("the engine goes on with it")
		}
		if o := w.settled(); o.Ending != reason.Evicted {
			t.Errorf("it settled as %v", o.Ending)
		}
		if e.count.Load() != 1 {
			t.Errorf("%d requests reached the engine, want 1", e.count.Load())
		}
	}
}

// Whoever wins, the client gets one whole answer: the engine's or the refusal.
func TestRevokeAgainstTheAnswer(t *testing.T) {
	for i := range 50 {
		q := pluginstest.NewEvictor()
		arrived, ready := make(chan struct{}), make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-ready
			_, _ = io.WriteString(w, "ok")
		})
		w := newWorld(t, setup{extra: []any{q}}, e.addr)
		go func() {
			<-arrived
			close(ready)
			for range i * 20 {
				runtime.Gosched()
			}
			q.TakeBack(func() { w.s.Tick(1) })
		}()
		resp, body := w.post(prompt(10))
		o := w.settled()
		switch resp.StatusCode {
		case 200:
			if body != "ok" || o.Ending != 0 {
				t.Errorf("200 %q, settled as %v", body, o.Ending)
			}
		case 429:
			if !strings.Contains(body, "evicted") || o.Ending != reason.Evicted {
				t.Errorf("429 %q, settled as %v", body, o.Ending)
			}
		default:
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}
