package extproc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAllocationsAreReadFromAPage(t *testing.T) {
	for _, row := range []struct {
		name, page     string
		objects, bytes float64
		ok             bool
	}{
		{"as client_golang writes it", "# HELP go_memstats_mallocs_total x\n# TYPE go_memstats_mallocs_total counter\n" +
			"go_memstats_mallocs_total 1.234567e+06\ngo_memstats_alloc_bytes_total 9.87654321e+08\n", 1234567, 987654321, true},
		{"with timestamps", "go_memstats_mallocs_total 5 1700000000000\ngo_memstats_alloc_bytes_total  7 1\n", 5, 7, true},
		{"alloc_bytes is not alloc_bytes_total", "go_memstats_mallocs_total 5\ngo_memstats_alloc_bytes 7\n", 0, 0, false},
		{"a page of something else", "up 1\n", 0, 0, false},
		{"a value that is no number", "go_memstats_mallocs_total many\ngo_memstats_alloc_bytes_total 7\n", 0, 0, false},
		{"an empty page", "", 0, 0, false},
	} {
		objects, size, err := parseAllocations(strings.NewReader(row.page))
		if (err == nil) != row.ok || objects != row.objects || size != row.bytes {
			t.Errorf("%s: %g objects, %g bytes, %v; want %g, %g", row.name, objects, size, err, row.objects, row.bytes)
		}
	}
}

func FuzzParseAllocations(f *testing.F) {
	f.Add("go_memstats_mallocs_total 5 1700000000000\ngo_memstats_alloc_bytes_total 7\n")
	f.Fuzz(func(_ *testing.T, page string) { _, _, _ = parseAllocations(strings.NewReader(page)) }) // read or refused, without a panic
}

func TestCostSubtractsTheBackground(t *testing.T) {
	m := &Meter{PID: 1, MetricsURL: "x", background: Background{
		CPUPerSecond: 10 * time.Millisecond, AllocsPerSecond: 100, BytesPerSecond: 1000, ScrapeAllocs: 50, ScrapeBytes: 500,
	}}
	at := time.Unix(0, 0)
	before := reading{at: at, cpu: time.Second, allocs: 1000, bytes: 10_000}
	after := reading{at: at.Add(2 * time.Second), cpu: 2020 * time.Millisecond, rss: 77, allocs: 11_250, bytes: 112_500}
	// 1020 ms - 2 s x 10 ms/s = 1 s over 100; 10250 - 50 - 200 = 10000; 102500 - 500 - 2000 = 100000
	c := m.cost(before, after, 100)
	if *c.CPU != 10*time.Millisecond || *c.Allocs != 100 || *c.Bytes != 1000 || *c.RSS != 77 {
		t.Errorf("CPU %v, %g allocations, %g bytes, RSS %d; want 10ms, 100, 1000, 77", *c.CPU, *c.Allocs, *c.Bytes, *c.RSS)
	}
	if c := m.cost(before, after, 0); c.CPU != nil || c.Allocs != nil || c.Bytes != nil {
		t.Error("no exchange has no cost, not an infinite one")
	}
	if c := (&Meter{}).cost(before, after, 5); c.CPU != nil || c.RSS != nil || c.Allocs != nil {
		t.Error("what was not measured is absent, not zero")
	}
}

func TestMeterReadsThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc on this platform")
	}
	page := httptest.NewServer(runtimeMetrics())
	defer page.Close()
	m := &Meter{PID: os.Getpid(), MetricsURL: page.URL + "/metrics"}
	before, err := m.read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	const objects = 100_000
	kept := make([]*[16]byte, objects)
	for i := range kept {
		kept[i] = new([16]byte)
	}
	after, err := m.read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := after.allocs - before.allocs; got < objects || got > 2*objects {
		t.Errorf("%d objects of %d bytes read as %g", len(kept), len(kept[0]), got)
	}
	if after.rss < 1<<20 || after.cpu < before.cpu {
		t.Errorf("RSS %d, CPU from %v to %v", after.rss, before.cpu, after.cpu)
	}
}

func TestMeterSaysWhichPageFailed(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	m := &Meter{MetricsURL: page.URL}
	if err := m.Calibrate(context.Background(), time.Millisecond); err == nil || !strings.Contains(err.Error(), page.URL) || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v; want the address and the status", err)
	}
}
