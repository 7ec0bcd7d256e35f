package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestUnder(t *testing.T) {
	parents := map[int]int{2: 1, 10: 2, 11: 10, 12: 11, 20: 2}
	for pid, want := range map[int]bool{10: true, 11: true, 12: true, 20: false, 2: false, 99: false} {
		if got := under(parents, pid, 10); got != want {
			t.Errorf("process %d under 10: %v, want %v", pid, got, want)
		}
	}
}

func TestMedianLeavesItsInputAlone(t *testing.T) {
	v := []float64{3, 1, 2}
	mid, least, most := median(v)
	if mid != 2 || least != 1 || most != 3 || v[0] != 3 {
		t.Errorf("median %v, least %v, most %v of %v", mid, least, most, v)
	}
}

// The loop hears what a worker says, and tells an answer that breaks off from one that ends.
func TestLoopAgainstAWorker(t *testing.T) {
	w := &workers{delay: time.Millisecond, tokens: 8}
	server := httptest.NewServer(w.mux())
	defer server.Close()
	l, err := newLoop([]int{200}, func(int) int { return 40 })
	if err != nil {
		t.Fatal(err)
	}
	h := l.send(context.Background(), server.URL, 200, 0, 40)
	if h.failed != 0 || len(h.firstByte) != 40 || w.generate.Load() != 40 || h.firstByte[0] < time.Millisecond {
		t.Errorf("%d failed (%v), %d heard, %d taken", h.failed, h.firstFailure, len(h.firstByte), w.generate.Load())
	}
	if err := answers(context.Background(), server.URL); err != nil {
		t.Error(err)
	}
	if h := l.send(context.Background(), server.URL+"/no", 200, 0, 3); h.failed != 3 || !strings.Contains(h.firstFailure.Error(), "404") {
		t.Errorf("%d failed with %v, want 3 with 404", h.failed, h.firstFailure)
	}
	if n := w.other.Load(); n != 3 {
		t.Errorf("%d requests of other kinds were counted, want 3", n)
	}
}

func TestReport(t *testing.T) {
	cells := func(cpu float64) map[int]*cell {
		return map[int]*cell{200: {CPU: []float64{cpu, cpu / 2, cpu * 2}, Rate: []float64{100}, Upstream: []float64{1}}}
	}
	rows := []row{
		{Target: "Fairlead gateway", Workers: 8, Cells: cells(0.2)},
		{Target: "smg cache_aware", Workers: 8, Cells: cells(0.4)},
		{Target: "Fairlead gateway", Workers: 64, Cells: cells(0.3)},
		{Target: "gone", Workers: 8, Missing: "not installed"},
	}
	var b bytes.Buffer
	write(&b, rows, []int{200})
	verdicts(&b, rows, []int{200})
	for _, want := range []string{
		"| Fairlead gateway | 0.200 [0.10–0.40] | 100 |",
		"| gone | missing: not installed |",
		"against smg cache_aware, 200 characters: 0.50x, wanted at most 1.00x: holds",
		"at 64 against 8 model servers, 200 characters: 1.50x, wanted at most 1.30x: does not hold",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}
