// Package decision measures a whole decision without any transport: headers, body, choice, first byte and end through the
// production exchange under the default configuration.
package decision

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// members are n scraped endpoints.
func members(n int) *pool.Pool {
	p := pool.New("default", reason.Discard{})
	var members []pool.Endpoint
	for i := range n {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i / 250), byte(1 + i%250)}), 8000)
		members = append(members, pool.Endpoint{Namespace: "default", Name: fmt.Sprint("pod-", i), Addr: addr})
	}
	now := pool.Instant(time.Second)
	p.Update(now, members)
	s := p.Snapshot()
	for _, id := range s.Members {
		p.Observe(now, s.Slots[id].Ref, pool.Sample{At: now, Waiting: int32(id) % 7, Running: int32(id) % 20, KVUsage: float64(id%10) / 10, Blocks: 29205, BlockTokens: 16})
	}
	return p
}

// world is the default configuration over n scraped endpoints.
func world(tb testing.TB, n, recordEvery int) *exchange.Scheduler {
	file, problems := config.Default(catalog.Builtin())
	if file == nil {
		tb.Fatal(problems)
	}
	built, problems := file.Build()
	if built == nil {
		tb.Fatal(problems)
	}
	p := members(n)
	o := exchange.Defaults()
	o.Built, o.Pools, o.Seed, o.RecordEvery = built, []*pool.Pool{p}, 1, recordEvery
	sched, err := exchange.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return sched
}

var headers = openai.Headers{
	{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: ":authority", Value: "llm.example"},
	{Name: ":scheme", Value: "http"}, {Name: "content-type", Value: "application/json"}, {Name: "user-agent", Value: "OpenAI/Python"},
	{Name: "accept", Value: "application/json"}, {Name: "x-request-id", Value: "0b5e6f0c-5d0e-4f52-9a8f-6f7a3c1d2e4b"},
	{Name: "authorization", Value: "Bearer sk-none"}, {Name: "x-forwarded-proto", Value: "http"},
}

func decide(s *exchange.Scheduler, now pool.Instant, body []byte) exchange.Action {
	x := s.Begin(now, nil)
	x.Headers(now, headers, exchange.Via{Adapter: "ext_proc", Fallbacks: true, Sees: plugins.FirstByte, StreamLasts: true}, false)
	a := x.Body(now, body, true)
	if a.Do == exchange.Forward {
		x.Response(now, nil, a.To[0], false)
	}
	x.End(now, exchange.Ending{})
	return a
}

// chat is a chat completion whose prompt has this many characters in eight messages.
func chat(chars int, salt string) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-8b","stream":true,"messages":[`)
	for i := range 8 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s%s"}`, salt, strings.Repeat("lorem ipsum dolor ", chars/8/18+1)[:max(chars/8-len(salt), 1)])
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkDecision(b *testing.B) {
	for _, endpoints := range []int{8, 100} {
		for _, chars := range []int{200, 8_000, 100_000} {
			for _, every := range []int{0, 1} {
				b.Run(fmt.Sprintf("endpoints=%d/chars=%d/record=%d", endpoints, chars, every), func(b *testing.B) {
					s := world(b, endpoints, every)
					body := chat(chars, "")
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for i := range b.N {
						if a := decide(s, pool.Instant(2*time.Second)+pool.Instant(i), body); a.Do != exchange.Forward {
							b.Fatal(a.Do)
						}
					}
				})
			}
		}
	}
}
