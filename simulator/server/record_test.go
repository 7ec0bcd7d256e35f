package server_test

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// TestVirtualTimeMakesTheSameSteps serves a busy mix in wall-clock time, with clients that give up, and then gives an engine
// in virtual time what was recorded, at the same instants: every step must be the same.
func TestVirtualTimeMakesTheSameSteps(t *testing.T) {
	p := engine.Profiles()[0]
	p.MaxSeqs, p.Blocks, p.MaxBatchedTokens = 8, 20, 64 // so that requests wait, are cut and preempted
	var recorded bytes.Buffer
	f := start(t, server.Options{Profile: p, Speed: 3, Record: &recorded})
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":"%s%d","max_tokens":%d,"stream":true}`, strings.Repeat("four", 20*(i%9)), i%4, 10+7*i%90)
			if i%10 == 5 { // gives up after its first byte, long before its end
				body = fmt.Sprintf(`{"prompt":"%d","max_tokens":280,"stream":true}`, i)
				resp, err := http.Post(url(f, 0, "/v1/completions"), "", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Read(make([]byte, 1))
				resp.Body.Close()
				return
			}
			do(t, "POST", url(f, 0, "/v1/completions"), body)
		})
		if i%20 == 19 {
			wg.Wait()
		}
	}
	wg.Wait()
	until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 0 && g.Waiting == 0 })
	c, _ := f.Counters(0)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	e, err := engine.New(p, engine.Options{MaxWaiting: 16_384})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	note := func() {
		if line := e.AppendLog(nil); len(line) > 0 {
			got = append(got, string(line))
		}
	}
	until := func(at time.Duration) {
		for {
			next, busy := e.Next()
			if !busy || next > at {
				return
			}
			e.Step(next)
			note()
		}
	}
	for line := range strings.Lines(recorded.String()) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "step":
			want = append(want, strings.Join(fields[2:], " "))
		case "add":
			at := time.Duration(integer(t, fields[1]))
			until(at)
			r := engine.Request{Prompt: int32(integer(t, fields[3])), Output: int32(integer(t, fields[4])), Adapter: int32(integer(t, fields[5]))}
			for h := range strings.SplitSeq(fields[6], ",") {
				if h == "-" {
					continue
				}
				hash, err := strconv.ParseUint(h, 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				r.Hashes = append(r.Hashes, hash)
			}
			if _, err := e.Add(at, r); err != nil {
				t.Fatal(err)
			}
			if _, busy := e.Next(); !busy {
				e.Step(at)
				note()
			}
		case "abort":
			until(time.Duration(integer(t, fields[1])))
			slot, generation, _ := strings.Cut(fields[3], ".")
			if !e.Abort(engine.ID{Slot: int32(integer(t, slot)), Generation: uint32(integer(t, generation))}) {
				t.Errorf("%s: nobody was there to abort", line)
			}
		}
	}
	until(math.MaxInt64)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("step %d: virtual %s\nwall-clock %s", i, got[i], want[i])
		}
	}
	if len(got) != len(want) || int64(len(got)) != c.Steps || e.Counters() != c {
		t.Errorf("%d steps in virtual time, %d in wall-clock time; %+v and %+v", len(got), len(want), e.Counters(), c)
	}
	if c.Preemptions == 0 || c.Aborted == 0 || c.PrefixHits == 0 || c.Steps < 100 {
		t.Errorf("%+v: the mix should preempt, abort and hit", c)
	}
}

func integer(t *testing.T, s string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
