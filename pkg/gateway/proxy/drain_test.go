package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestDrainEndsAtOnceWhenNothingRuns(t *testing.T) {
	w := newWorld(t, setup{}, newEngine(t, nil).addr)
	w.post(prompt(10))
	w.settled()
	w.s.Drain()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.proxy.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.proxy.Drain(now); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestWhileItDrainsAnswersGoOnAndWhoComesIsRefusedInWords(t *testing.T) {
	began, let := make(chan struct{}), make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "half ")
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-let
		_, _ = io.WriteString(w, "and half")
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	got := make(chan string, 1)
	go func() {
		resp, err := http.Post(w.front.URL+chatPath, "application/json", strings.NewReader(prompt(10)))
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got <- string(b)
	}()
	<-began
	w.s.Drain()
	w.front.Config.SetKeepAlivesEnabled(false)
	drained := make(chan error, 1)
	go func() { drained <- w.proxy.Drain(t.Context()) }()
	for range 3 {
		resp, body := w.post(prompt(10))
		if resp.StatusCode != 503 || !strings.Contains(body, `"code":"shutting_down"`) || !resp.Close {
			t.Errorf("%d, closes %t, %s", resp.StatusCode, resp.Close, body)
		}
	}
	select {
	case err := <-drained:
		t.Errorf("drained with %v, while an answer runs", err)
	default:
	}
	close(let)
	if body := <-got; body != "half and half" {
		t.Errorf("the answer that ran is %q", body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	w.settled()
}

func TestDrainRefusesWhoHolds(t *testing.T) {
	holds := make(chan struct{}, 8)
	queue := &stage{phase: plugins.AtAdmit, reads: plugins.ReadsBody, enter: func(*plugins.Request) plugins.Verdict {
		holds <- struct{}{}
		return plugins.Verdict{Until: pool.Instant(time.Hour), Late: reason.QueueTimeout}
	}}
	w := newWorld(t, setup{extra: []any{queue}}, newEngine(t, nil).addr)
	got := make(chan int, 1)
	go func() {
		resp, _ := w.post(prompt(10))
		got <- resp.StatusCode
	}()
	<-holds
	w.s.Drain()
	if err := w.proxy.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if status := <-got; status != 503 {
		t.Errorf("the one that held got %d", status)
	}
}

func TestDrainSaysHowManyItLeft(t *testing.T) {
	began := make(chan struct{})
	e := newEngine(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	client, leave := context.WithCancel(t.Context())
	go func() {
		r, _ := http.NewRequestWithContext(client, "POST", w.front.URL+chatPath, strings.NewReader(prompt(10)))
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-began
	w.s.Drain()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.proxy.Drain(now); err == nil || !strings.Contains(err.Error(), "1 requests had not ended") {
		t.Errorf("got %v", err)
	}
	leave()
	if o := w.settled(); o.Ending != reason.ClientAborted {
		t.Errorf("ended %v", o.Ending)
	}
}
