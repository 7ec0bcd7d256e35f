package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fairlead/fairlead/benchmarks/extproc"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/kvindex/blockhash"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// members are n endpoints, each with a fresh sample.
func members(n int) *pool.Pool {
	p := pool.New("default", reason.Discard{})
	all := make([]pool.Endpoint, n)
	for i := range all {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i / 250), byte(1 + i%250)}), 8000)
		all[i] = pool.Endpoint{Namespace: "default", Name: fmt.Sprint("pod-", i), Addr: addr}
	}
	now := pool.Instant(time.Second)
	p.Update(now, all)
	s := p.Snapshot()
	for _, id := range s.Members {
		p.Observe(now, s.Slots[id].Ref, pool.Sample{At: now, Waiting: int32(id) % 7, KVUsage: float64(id%10) / 10, Blocks: 29205, BlockTokens: 16})
	}
	return p
}

// cycleLimit is what a cycle over 100 endpoints may cost, in hashes of 100 kB. The design's 10 us are 1.4 of them; the rest is for
// machines on which the two are not slowed alike.
const cycleLimit = 2

// cycleLines measure one decision of the default profile: producers, facts, scorers and picker.
func cycleLines() []extproc.Line {
	file, _ := config.Default(catalog.Builtin())
	built, problems := file.Build()
	if built == nil {
		panic(fmt.Sprint("the default configuration does not build: ", problems))
	}
	sum := summary(chat(8_000))
	reference := make([]byte, 100_000)
	fixed := nanos(func() { xxhash.Sum64(reference) })
	var lines []extproc.Line
	for _, n := range []int{8, 64, 100, 256, 1024} {
		decide := cycle(built, n, sum)
		name := fmt.Sprintf("scheduling cycle, default profile, %d endpoints", n)
		ns := nanos(decide)
		lines = append(lines, atMost(name+": allocations", fmt.Sprint(allocations(decide)), allocations(decide), 10, ""))
		figure := fmt.Sprintf("%s (%.2fx xxhash64 of 100 kB)", micros(ns), ns/fixed)
		if n == 100 {
			lines = append(lines, atMost(name+": time", figure+", design 10 us", ns/fixed, cycleLimit, "x xxhash64 of 100 kB"))
		} else {
			lines = append(lines, reported(name+": time", figure, "-", ns))
		}
	}
	return lines
}

// cycle returns one decision over n endpoints.
func cycle(built *plugins.Built, n int, sum *openai.Summary) func() {
	p := members(n)
	c := built.Plans[0].NewCycle(reason.Discard{})
	c.Want = 3
	r := new(plugins.Request)
	r.Prepare(built, nil)
	r.Now, r.API, r.Body, r.PoolIndex = pool.Instant(time.Second), openai.ChatCompletions, sum, 0
	_ = built.Plans[0].Describe(reason.Discard{}, r) // refuses only where a describer panics
	return func() {
		r.Number++
		if c.Prepare(r, p.Snapshot(), p.StaleAfter(), 1, nil) != nil {
			panic("the cycle was refused")
		}
		p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
			if _, no := c.Decide(b); no != nil {
				panic(no.Error())
			}
		})
	}
}

// predictedCycle has predicted latencies alone decide.
const predictedCycle = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: predicted-latency-producer, parameters: {streamingMode: true}}
- type: latency-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: latency-scorer
  - pluginRef: max-score-picker
`

// predictionLines measure a decision by predicted latencies, of which the predictions for 100 endpoints are 3 us.
func predictionLines() []extproc.Line {
	file, problems := config.Load([]byte(predictedCycle), "budgets", catalog.Builtin())
	if file == nil {
		panic(fmt.Sprint("the configuration with predicted latencies is refused: ", problems))
	}
	built, problems := file.Build()
	if built == nil {
		panic(fmt.Sprint("the configuration with predicted latencies does not build: ", problems))
	}
	reference := make([]byte, 100_000)
	decide := cycle(built, 100, summary(chat(8_000)))
	ns, fixed := nanos(decide), nanos(func() { xxhash.Sum64(reference) })
	const name = "scheduling cycle, predicted latencies, 100 endpoints"
	return []extproc.Line{
		atMost(name+": allocations", fmt.Sprint(allocations(decide)), allocations(decide), 10, ""),
		atMost(name+": time", fmt.Sprintf("%s (%.2fx xxhash64 of 100 kB)", micros(ns), ns/fixed), ns/fixed, cycleLimit, "x xxhash64 of 100 kB"),
	}
}

// chat is a chat completion whose messages have this many characters.
func chat(chars int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-8b","stream":true,"messages":[`)
	for i := range 4 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s"}`, strings.Repeat(fmt.Sprint("line ", i, " of it all. "), chars)[:chars/4])
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func summary(body []byte) *openai.Summary {
	s := openai.NewScanner(openai.ChatCompletions)
	if err := s.Feed(body); err != nil {
		panic(err)
	}
	sum, err := s.Finish()
	if err != nil {
		panic(err)
	}
	return sum
}

// bodyLines measure the scanner against encoding/json on the same bytes, and a chunk of a stream.
func bodyLines() []extproc.Line {
	var lines []extproc.Line
	s := openai.NewScanner(openai.ChatCompletions)
	for _, chars := range []int{200, 8_000, 100_000} {
		body := chat(chars)
		scan := func() {
			s.Reset(openai.ChatCompletions)
			if s.Feed(body) != nil {
				panic("the body is refused")
			}
			if _, err := s.Finish(); err != nil {
				panic(err)
			}
		}
		ns, floor := nanos(scan), nanos(func() { json.Valid(body) })
		name := fmt.Sprintf("body scanner, %d characters", chars)
		figure := fmt.Sprintf("%.0f MB/s (json.Valid %.0f MB/s)", float64(len(body))/ns*1000, float64(len(body))/floor*1000)
		if chars == 200 {
			lines = append(lines, reported(name+": speed", figure, "-", ns))
		} else {
			lines = append(lines, atMost(name+": time", figure, ns/floor, 0.25, "x json.Valid"))
		}
		lines = append(lines, atMost(name+": allocations", fmt.Sprint(allocations(scan)), allocations(scan), 8, ""))
	}
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1796022979,"model":"llama-3.1-8b","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	u := openai.NewUsageReader(openai.ChatCompletions, "text/event-stream", "")
	feed := func() { u.Feed(event) }
	return append(lines,
		reported("stream chunk, usage reader: time", fmt.Sprintf("%.0f ns (%d bytes)", nanos(feed), len(event)), "-", nanos(feed)),
		atMost("stream chunk, usage reader: allocations", fmt.Sprint(allocations(feed)), allocations(feed), 0, ""))
}

// prefixLines measure the hash chain and the approximate index.
func prefixLines() []extproc.Line {
	sum := summary(chat(100_000))
	dst := make([]uint64, 0, 512)
	hash := func() { dst = blockhash.Append(dst[:0], sum, 1, 64, 0) }
	reference := make([]byte, 100_000)
	ns, fixed := nanos(hash), nanos(func() { xxhash.Sum64(reference) })
	lines := []extproc.Line{
		atMost("prefix hash, 100,000 characters: time", fmt.Sprintf("%.1f GB/s (xxhash64 %.1f GB/s)", 1e5/ns, 1e5/fixed), ns/fixed, 2, "x xxhash64"),
		atMost("prefix hash, 100,000 characters: allocations", fmt.Sprint(allocations(hash)), allocations(hash), 0, ""),
	}
	p := members(100)
	s := p.Snapshot()
	chain := make([]uint64, 1000)
	for i := range chain {
		chain[i] = xxhash.Sum64String(fmt.Sprint("block ", i))
	}
	var x kvindex.Approximate
	blocks := make([]int32, len(s.Slots))
	x.Match(s, s.Members, chain, blocks)
	for i, id := range s.Members {
		x.Credit(s.Slots[id].Ref, chain[:10*(i+1)], 64, 1<<22)
	}
	match := func() { x.Match(s, s.Members, chain, blocks) }
	ns = nanos(match)
	lines = append(lines,
		reported("prefix index, match of 1,000 blocks on 100 endpoints: time", micros(ns), "<= 50 us typical", ns),
		atMost("prefix index, match: allocations", fmt.Sprint(allocations(match)), allocations(match), 0, ""),
		indexBytes(s))
	return lines
}

// indexBytes fills one endpoint's table with a million blocks and weighs it.
func indexBytes(s *pool.Snapshot) extproc.Line {
	const blocks = 1 << 20
	chain := make([]uint64, blocks)
	for i := range chain {
		chain[i] = uint64(i)*0x9e3779b97f4a7c15 + 1
	}
	var x kvindex.Approximate
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x.Match(s, s.Members[:1], chain, make([]int32, len(s.Slots)))
	start := time.Now()
	x.Credit(s.Slots[s.Members[0]].Ref, chain, 64, blocks*64)
	perBlock := time.Since(start) / blocks
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := x.Blocks(s.Slots[s.Members[0]].Ref)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / float64(max(held, 1))
	runtime.KeepAlive(chain)
	return atMost("prefix index, memory per block", fmt.Sprintf("%.1f bytes of %d blocks (added in %v each)", bytes, held, perBlock), bytes, 30, " bytes")
}
