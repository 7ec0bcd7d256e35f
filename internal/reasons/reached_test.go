package reasons

import (
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/discovery"
	"github.com/fairlead/fairlead/pkg/pool/engines"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// reached drives a world to the reason and returns it. What its sink then heard is looked at by the test.
type reached func(t *testing.T) *heard

// refused is a reason with which one request is refused.
func refused(id reason.ID, text string, set func(*exchange.Options), method, path, body string, fields ...string) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, text, set)
		_, a := w.send(seesHeaders, method, path, body, fields...)
		w.refuses(id, a)
		return w.heard
	}
}

// named is a reason of a request that goes on, though what this header names is of no use.
func named(text, header, value string) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, text, nil)
		w.forwarded(w.ask(seesHeaders, hello, header, value))
		return w.heard
	}
}

// batch has an objective whose requests may be dropped, and one that is urgent.
const batch = "objectives:\n- {name: batch, priority: -1}\n- {name: chat, priority: 1}\n"

// crowded has a request that may be dropped run at each endpoint, and then an urgent one wait; then is what happens to the former
// before.
func crowded(via exchange.Via, then func(*world, *exchange.Exchange)) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, byChance+`- {type: concurrency-detector, parameters: {maxConcurrency: 1}}
- {type: flow-control, parameters: {saturationDetectorRef: concurrency-detector, enableEviction: true}}
`+batch, nil)
		var last *exchange.Exchange
		for range 2 {
			last, _ = w.forwarded(w.ask(via, hello, "x-llm-d-inference-objective", "batch"))
			if then != nil {
				then(w, last)
			}
		}
		urgent, a := w.ask(seesHeaders, hello, "x-llm-d-inference-objective", "chat")
		if a.Do != exchange.Hold {
			t.Fatalf("the urgent one does not wait: %v", a.Do)
		}
		if a = last.Resume(w.now); then != nil {
			return w.heard
		}
		w.refuses(reason.Evicted, a)
		w.forwarded(urgent, urgent.Resume(w.now))
		return w.heard
	}
}

// streamed is a reason of an event stream whose usage a hook wants.
func streamed(events string) reached {
	return noted(with("test-usage-hook"), seesAll, hello, func(w *world, x *exchange.Exchange, a exchange.Action) {
		x.Response(w.now, ok(openai.Header{Name: "content-type", Value: "text/event-stream"}), a.To[0], false)
		x.Chunk(w.now, []byte(events), true)
	})
}

func zipped(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// late is a reason with which a request is refused that a stage held beyond its bound.
func late(id reason.ID, do string) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, byChance, nil)
		x, a := w.ask(seesHeaders, hello, "do", do)
		if a.Do != exchange.Hold {
			t.Fatalf("it does not hold: %v", a.Do)
		}
		w.now += pool.Instant(2 * time.Second)
		w.s.Tick(w.now)
		w.refuses(id, x.Resume(w.now))
		return w.heard
	}
}

// virtual brings requests as the simulated fleet does.
func virtual(text string, said ...exchange.Said) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, text, nil)
		for _, by := range said {
			body := openai.NewSummary()
			body.Complete = true
			w.s.Begin(w.now, nil).Described(w.now, body, by)
		}
		return w.heard
	}
}

// noted is a reason of a request that goes on; ending is what happens to it then.
func noted(text string, via exchange.Via, body string, ending func(w *world, x *exchange.Exchange, a exchange.Action)) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, text, nil)
		x, a := w.forwarded(w.ask(via, body))
		if ending != nil {
			ending(w, x, a)
		}
		return w.heard
	}
}

func ok(more ...openai.Header) openai.Headers {
	return append(openai.Headers{{Name: ":status", Value: "200"}}, more...)
}

// ways is how each reason is reached.
func ways() map[reason.ID]reached {
	const chat = "/v1/chat/completions"
	return map[reason.ID]reached{
		reason.MalformedJSON: refused(reason.MalformedJSON, byChance, nil, "POST", chat, `{"model"}`),
		reason.InvalidModel:  refused(reason.InvalidModel, byChance, nil, "POST", chat, `{"model":7}`),
		reason.MalformedBody: func(t *testing.T) *heard { // gRPC alone has such a body, and its errors have none
			w := newWorld(t, byChance, nil)
			_, a := w.send(seesHeaders, "POST", "/vllm.grpc.engine.VllmEngine/Generate", "\x02\x00\x00\x00\x00", "content-type", "application/grpc")
			row := reason.MalformedBody.Row()
			if h := a.Reply.Headers; h.Get("grpc-status") != "3" || !strings.HasPrefix(h.Get("grpc-message"), row.Code+": "+row.Means) {
				t.Errorf("answered with %+v", h)
			}
			return w.heard
		},
		reason.AmbiguousPath:     refused(reason.AmbiguousPath, byChance, nil, "POST", "/v1/models/.."+chat, hello),
		reason.BodySealed:        refused(reason.BodySealed, twoPools, nil, "POST", chat, zipped(`{"model":"alias"}`), "content-encoding", "gzip"),
		reason.ModelRequired:     refused(reason.ModelRequired, twoPools, nil, "POST", chat, `{}`),
		reason.BodyTooLarge:      refused(reason.BodyTooLarge, byChance, func(o *exchange.Options) { o.MaxBodyBytes = 10 }, "POST", chat, hello),
		reason.ModelNotFound:     refused(reason.ModelNotFound, twoPools, nil, "POST", chat, `{"model":"other"}`),
		reason.ForbiddenHeader:   refused(reason.ForbiddenHeader, byChance, nil, "POST", chat, hello, "do", "forbid"),
		reason.UnsupportedMethod: refused(reason.UnsupportedMethod, byChance, nil, "CONNECT", "models:443", ""),
		reason.AllFiltered:       refused(reason.AllFiltered, byChance+"- {type: endpoint-attribute-filter, parameters: {attribute: gpu, onMissing: Fail, algorithm: {type: threshold, threshold: {operator: LessThan, value: 1}}}}\n", nil, "POST", chat, hello),
		reason.ProfileNotFound: refused(reason.ProfileNotFound, head+`- {type: header-profile-handler, parameters: {defaultProfile: fast}}
- type: random-picker
schedulingProfiles:
- {name: fast, plugins: [{pluginRef: random-picker}]}
- {name: slow, plugins: [{pluginRef: random-picker}]}
`, nil, "POST", chat, hello, "epp-profile", "other"),
		reason.QueueFull: refused(reason.QueueFull, byChance, nil, "POST", chat, hello, "do", "fill"),
		reason.Shed:      virtual(byChance+"- type: priority-shedding\n", exchange.Said{Priority: -1}),
		reason.GaveWay: virtual(byChance+"- {type: concurrency-detector, parameters: {maxConcurrency: 1}}\n"+
			"- {type: flow-control, parameters: {maxRequests: 1, saturationDetectorRef: concurrency-detector}}\n",
			exchange.Said{}, exchange.Said{}, exchange.Said{}, exchange.Said{Priority: 1}),
		reason.MemoryDoubted: func(t *testing.T) *heard {
			w := newWorld(t, byChance+"- {type: load-detector, parameters: {maxBacklog: 0s, maxPending: 0, atHand: 0}}\n- {type: flow-control, parameters: {saturationDetectorRef: load-detector}}\n", nil)
			for range 21 { // each reading is full, nobody waits there, and answers begin
				for _, e := range w.pools[0].Snapshot().Slots {
					s := pool.NoSample()
					s.At, s.KVUsage, s.Waiting = w.now, 1, 0
					w.pools[0].Observe(w.now, e.Ref, s)
					var h pool.Booking
					w.pools[0].Decide(func(_ *pool.Snapshot, b *pool.Books) { h = b.Book(e.Ref, pool.Load{}, w.now+pool.Instant(time.Hour)) })
					w.pools[0].FirstByte(w.now, h)
				}
				w.now += pool.Instant(time.Second)
			}
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.FlowsShared: virtual(byChance+"- {type: concurrency-detector, parameters: {maxConcurrency: 1}}\n"+
			"- {type: flow-control, parameters: {maxFlowsPerBand: 2, saturationDetectorRef: concurrency-detector}}\n",
			exchange.Said{}, exchange.Said{}, exchange.Said{FairnessID: "a"}, exchange.Said{FairnessID: "b"}, exchange.Said{FairnessID: "c"}),
		reason.QueueTimeout:  late(reason.QueueTimeout, "queue"),
		reason.LookupTimeout: late(reason.LookupTimeout, "look up"),
		reason.PluginPanic:   refused(reason.PluginPanic, byChance, nil, "POST", chat, hello, "do", "panic"),
		reason.NoEndpoint: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			w.pools[0].Update(w.now, nil)
			_, a := w.ask(seesHeaders, hello)
			w.refuses(reason.NoEndpoint, a)
			return w.heard
		},
		reason.ShuttingDown: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			w.s.Drain()
			_, a := w.ask(seesHeaders, hello)
			w.refuses(reason.ShuttingDown, a)
			return w.heard
		},
		reason.UpstreamUnreachable: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil, dead(t), dead(t))
			status, body := w.proxied()
			w.answers(reason.UpstreamUnreachable, status, body)
			return w.heard
		},
		reason.UpstreamBroken: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil, engine(t, func(w http.ResponseWriter, _ *http.Request) {
				if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
					_ = c.Close()
				}
			}))
			status, body := w.proxied()
			w.answers(reason.UpstreamBroken, status, body)
			return w.heard
		},
		reason.Internal: refused(reason.Internal, with("test-lost-stage"), nil, "POST", chat, hello, "do", "get lost"),

		reason.NeverScraped: noted(byQueue, seesHeaders, hello, nil),
		reason.StaleSample: func(t *testing.T) *heard {
			w := newWorld(t, byQueue, nil)
			for _, e := range w.pools[0].Snapshot().Slots {
				w.pools[0].Observe(w.now, e.Ref, pool.Sample{At: w.now, Waiting: 1, Running: 1, KVUsage: 0.1, Blocks: 100, BlockTokens: 16})
			}
			w.now += pool.Instant(time.Minute)
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.ScrapeFailed:       scraped("", reason.ScrapeFailed),
		reason.ScrapeRejected:     scraped("vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 17\n", reason.ScrapeRejected),
		reason.SeriesMissing:      scraped("vllm:num_requests_waiting 1\n", reason.SeriesMissing),
		reason.PageReadWhole:      scraped(`{"vllm:num_requests_waiting"} 1`+"\n", reason.PageReadWhole),
		reason.EngineUnknown:      scraped("vllm:num_requests_waiting 1\n", reason.EngineUnknown),
		reason.MetricsPortDiffers: scraped("vllm:num_requests_waiting 1\n", reason.MetricsPortDiffers),
		reason.PrefixUnconfirmed: func(t *testing.T) *heard {
			w := newWorld(t, head+"- type: prefix-cache-scorer\n- type: max-score-picker\n", nil)
			long := strings.Replace(hello, "hello", strings.Repeat("hello ", 100), 1)
			x, a := w.forwarded(w.ask(seesHeaders, long))
			x.Response(w.now, ok(), a.To[0], true)
			w.forwarded(w.ask(seesHeaders, strings.Replace(long, "hello", "other", 1)))
			w.now += pool.Instant(time.Minute)
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.SignalsOld: func(t *testing.T) *heard {
			w := newWorld(t, head+"- type: two-choice-filter\n- type: random-picker\n", nil, dead(t), dead(t), dead(t), dead(t))
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.FallbackServed: func(t *testing.T) *heard {
			w := newWorld(t, head+"- type: test-in-order\n", nil, dead(t), engine(t, func(http.ResponseWriter, *http.Request) {}))
			if status, body := w.proxied(); status != 200 {
				t.Errorf("%d %s", status, body)
			}
			return w.heard
		},
		reason.PickNotServed: noted(byChance, seesHeaders, hello, func(w *world, x *exchange.Exchange, _ exchange.Action) {
			x.Response(w.now, ok(), netip.MustParseAddrPort("192.0.2.77:8000"), true)
		}),
		reason.ServedUnknown: noted(byChance, seesHeaders, hello, func(w *world, x *exchange.Exchange, _ exchange.Action) {
			x.Response(w.now, ok(), netip.AddrPort{}, true)
		}),
		reason.UsageMissing: noted(with("test-usage-hook"), seesAll, hello, func(w *world, x *exchange.Exchange, a exchange.Action) {
			x.Response(w.now, ok(openai.Header{Name: "content-type", Value: "application/json"}), a.To[0], false)
			x.Chunk(w.now, []byte(`{"choices":[]}`), true)
		}),
		reason.UsageRejected:    streamed("data: {\"usage\":{\"prompt_tokens\":-4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"),
		reason.EventSkipped:     streamed("data: " + strings.Repeat("x", 5<<20) + "\n\ndata: {\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"),
		reason.IdentityIgnored:  named(byChance, "x-llm-d-inference-fairness-id", strings.Repeat("x", 254)),
		reason.ObjectiveUnknown: named(byChance+"objectives:\n- {name: chat, priority: 5}\n", "x-llm-d-inference-objective", "chatt"),
		reason.NoTerminator:     streamed("data: {\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\n"),
		reason.UsagePartial: noted(byChance, seesHeaders, hello, func(w *world, x *exchange.Exchange, _ exchange.Action) {
			w.s.Ended(w.now, x.ID, exchange.Ending{Clean: true, Usage: &openai.Usage{Prompt: 7}, UsagePartial: true})
		}),
		reason.BookingExpired: noted(byChance, seesHeaders, hello, func(w *world, _ *exchange.Exchange, _ exchange.Action) {
			w.now += pool.Instant(exchange.Defaults().BookingDeadline) + 1
			w.s.Tick(w.now)
			if n := w.pools[0].Open(); n != 0 {
				w.t.Errorf("%d bookings are open", n)
			}
		}),
		reason.ModeBlind: noted(byChance, exchange.Via{Adapter: "test"}, hello, func(w *world, x *exchange.Exchange, _ exchange.Action) {
			x.End(w.now, exchange.Ending{From: exchange.FromStream})
		}),
		reason.SecondEndOfStream: noted(byChance, seesHeaders, hello, func(w *world, x *exchange.Exchange, _ exchange.Action) {
			x.Body(w.now, nil, true)
		}),
		reason.SubsetIgnored:  noted(byChance, exchange.Via{Adapter: "test", Subset: []string{"the big one, 192.0.2.1"}, HasSubset: true}, hello, nil),
		reason.ScoreNotFinite: noted(with("test-bad-scorer"), seesHeaders, hello, nil),
		reason.ClientAborted: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			x, _ := w.ask(seesHeaders, hello, "do", "queue")
			x.End(w.now, exchange.Ending{From: exchange.FromStream})
			return w.heard
		},
		reason.UnknownLogEntry: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			w.s.Ended(w.now, "5ad00c0ffee", exchange.Ending{Clean: true})
			return w.heard
		},
		reason.DiscoveryRefused: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			file := filepath.Join(t.TempDir(), "endpoints.yaml")
			if err := os.WriteFile(file, []byte("endpoints:\n- {name: a, address: nowhere, port: 80}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			watcher := discovery.Watcher{File: file, Pools: w.pools, Clock: func() pool.Instant { return w.now }, Sink: w}
			if problems := watcher.Load(); len(problems) == 0 || len(w.pools[0].Snapshot().Members) != 2 {
				t.Errorf("problems %v, members %v", problems, w.pools[0].Snapshot().Members)
			}
			return w.heard
		},
		reason.DroppedEarly: func(t *testing.T) *heard {
			w := newWorld(t, byChance+"- type: probabilistic-admitter\n"+batch, nil)
			for range 10 {
				w.forwarded(w.ask(seesHeaders, hello))
			}
			_, a := w.ask(seesHeaders, hello, "x-llm-d-inference-objective", "batch")
			w.refuses(reason.DroppedEarly, a)
			return w.heard
		},
		reason.TargetOutOfReach: func(t *testing.T) *heard {
			w := newWorld(t, byChance+"- type: latency-slo-admitter\n"+batch, nil)
			_, a := w.ask(seesHeaders, hello, "x-llm-d-inference-objective", "batch", "x-llm-d-slo-ttft-ms", "1")
			w.refuses(reason.TargetOutOfReach, a)
			return w.heard
		},
		reason.Evicted:         crowded(seesHeaders, nil),
		reason.NotRevocable:    crowded(exchange.Via{Adapter: "test"}, func(w *world, x *exchange.Exchange) { x.End(w.now, exchange.Ending{From: exchange.FromStream}) }),
		reason.HookPanic:       noted(with("test-bad-hook"), seesHeaders, hello, nil),
		reason.HeadersTooLarge: refused(reason.HeadersTooLarge, byChance, func(o *exchange.Options) { o.MaxHeaderCount = 3 }, "POST", chat, hello, "x-one", "1", "x-two", "2"),
		reason.HeldBytesFull:   refused(reason.HeldBytesFull, byChance, func(o *exchange.Options) { o.MaxHeldBytes = 10 }, "POST", chat, hello),
		reason.TooManyRequests: func(t *testing.T) *heard {
			w := newWorld(t, byChance, func(o *exchange.Options) { o.MaxRequests = 1 })
			w.forwarded(w.ask(seesHeaders, hello))
			_, a := w.ask(seesHeaders, hello)
			w.refuses(reason.TooManyRequests, a)
			return w.heard
		},
		reason.ScanBounded: func(t *testing.T) *heard {
			w := newWorld(t, byChance, func(o *exchange.Options) { o.MaxScanBytes = 20 })
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.TooManyConnections: func(t *testing.T) *heard {
			h := newHeard()
			at := listening(t, func(l net.Listener) net.Listener { return &ports.Bounded{Listener: l, Sink: h, Max: 1} })
			talk(t, at, "")
			talk(t, at, "")
			h.wait(t, reason.TooManyConnections)
			return h
		},
		reason.MalformedRequest: func(t *testing.T) *heard {
			h := newHeard()
			talk(t, listening(t, func(l net.Listener) net.Listener { return ports.PlainWords(l, h) }), "GET / HTTP/9.0\r\n\r\n")
			h.wait(t, reason.MalformedRequest)
			return h
		},
		reason.AcceptFailed: func(t *testing.T) *heard {
			h := newHeard()
			_, _ = (&ports.Bounded{Listener: noFiles{}, Sink: h}).Accept()
			return h
		},
		reason.EndpointUnreachable: watched("", func(w *world) {
			x, a := w.ask(plainProxy, hello)
			x.Failed(w.now, a.To[0], reason.UpstreamUnreachable)
		}),
		reason.EndpointFailing:  watched("", failing),
		reason.EjectionWithheld: watched("maxEjectedShare: 0", failing),
		reason.EndpointSlow: watched("window: 10m", func(w *world) {
			first := w.pools[0].Snapshot().Slots[0].Addr
			for range 100 {
				x, a := w.ask(plainProxy, hello)
				w.now += pool.Instant(time.Second)
				if a.To[0] == first {
					w.now += pool.Instant(19 * time.Second)
				}
				x.Response(w.now, ok(), a.To[0], true)
			}
		}),
		reason.EndpointHung: watched("minRequests: 1000", func(w *world) {
			first := w.pools[0].Snapshot().Slots[0].Addr
			for range 60 {
				x, a := w.ask(plainProxy, hello)
				w.now += pool.Instant(time.Second)
				if a.To[0] != first {
					x.Response(w.now, ok(), a.To[0], true)
				}
			}
		}),
		reason.EndpointSilent: watched("", func(w *world) {
			for range 10 {
				w.now += pool.Instant(time.Second)
				w.pools[0].Observe(w.now, w.pools[0].Snapshot().Slots[0].Ref, pool.Sample{At: w.now})
			}
		}),
		reason.HealthIgnored: watched("", func(w *world) {
			x, a := w.ask(plainProxy, hello)
			for _, at := range a.To {
				x.Failed(w.now, at, reason.UpstreamUnreachable)
			}
		}),
		reason.CapacityUnknown: func(t *testing.T) *heard {
			w := newWorld(t, with("test-classes"), nil)
			members := slices.Clone(w.pools[0].Snapshot().Slots)
			members[0].Labels = map[string]string{"nvidia.com/gpu.product": "a GPU that nobody knows"}
			w.pools[0].Update(w.now, members)
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.HeadersFirst: func(t *testing.T) *heard {
			w := newWorld(t, head+"- type: cost-scorer\n- type: max-score-picker\n", nil)
			for i := range 40 {
				prompt := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat(strconv.Itoa(i)+" words ", 4000) + `"}]}`
				x, _ := w.forwarded(w.ask(seesHeaders, prompt))
				w.now += pool.Instant(time.Millisecond)
				x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, netip.AddrPort{}, false)
				w.now += pool.Instant(time.Second)
				x.End(w.now, exchange.Ending{Clean: true})
			}
			return w.heard
		},
		reason.FactMissing: func(t *testing.T) *heard {
			w := newWorld(t, with("cost-scorer\n- type: test-silent-prophet"), nil)
			w.forwarded(w.ask(seesHeaders, hello))
			return w.heard
		},
		reason.FullUnread: func(t *testing.T) *heard {
			w := newWorld(t, byChance+"- type: utilization-detector\n- {type: flow-control, parameters: {saturationDetectorRef: utilization-detector}}\n", nil)
			if _, a := w.ask(seesHeaders, hello); a.Do != exchange.Hold {
				t.Fatalf("it does not wait: %v", a.Do)
			}
			return w.heard
		},
		reason.LatencyUnlearned:   noted(byLatency, seesHeaders, hello, nil),
		reason.LatencyUnpredicted: noted(head+"- type: latency-scorer\n- type: max-score-picker\n- {type: predicted-latency-producer, parameters: {predictInProduce: false}}\n", seesHeaders, hello, nil),
		reason.TargetIgnored: func(t *testing.T) *heard {
			w := newWorld(t, byLatency, nil)
			w.forwarded(w.ask(seesHeaders, hello, "x-llm-d-slo-ttft-ms", "soon"))
			return w.heard
		},
		reason.OutputLengthsUnseen: func(t *testing.T) *heard {
			w := newWorld(t, with("output-length-producer"), nil)
			for range 21 {
				x, a := w.forwarded(w.ask(seesHeaders, hello))
				x.Response(w.now, ok(), a.To[0], true)
			}
			return w.heard
		},
		reason.BodyUnread: func(t *testing.T) *heard {
			w := newWorld(t, byChance, nil)
			w.forwarded(w.ask(seesHeaders, "say hello", "content-type", "text/plain"))
			return w.heard
		},
	}
}

// watched is a world that somebody watches over, with what befalls it; a last request has it looked at.
func watched(parameters string, befalls func(*world)) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, head+"- type: health-filter\n  parameters: {"+parameters+"}\n- type: random-picker\n", nil)
		w.forwarded(w.ask(plainProxy, hello))
		befalls(w)
		w.now += pool.Instant(time.Second)
		w.forwarded(w.ask(plainProxy, hello))
		return w.heard
	}
}

// failing has all endpoints answer with errors.
func failing(w *world) {
	for range 20 {
		x, a := w.ask(plainProxy, hello)
		x.Response(w.now, openai.Headers{{Name: ":status", Value: "500"}}, a.To[0], true)
	}
}

// noFiles is a listener that has no file left.
type noFiles struct{ net.Listener }

func (noFiles) Accept() (net.Conn, error) { return nil, syscall.EMFILE }

// listening serves HTTP on a listener, and returns its address.
func listening(t *testing.T, around func(net.Listener) net.Listener) string {
	t.Helper()
	l, err := ports.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(around(l)) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// talk opens a connection, which stays open, and says something on it.
func talk(t *testing.T, at, what string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, what)
}

// scraped asks an engine for its page, which is this one, or an error where it is empty.
func scraped(page string, want reason.ID) reached {
	return func(t *testing.T) *heard {
		w := newWorld(t, byQueue, nil, engine(t, func(w http.ResponseWriter, _ *http.Request) {
			if page == "" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(page))
		}))
		members := slices.Clone(w.pools[0].Snapshot().Slots)
		members[0].Labels = map[string]string{engines.LabelKey: "an engine that nobody knows"}
		members[0].Metrics, members[0].Addr = members[0].Addr, netip.MustParseAddrPort("192.0.2.1:8000")
		w.pools[0].Update(w.now, members)
		p, err := telemetry.New(telemetry.Options{Pools: w.pools, Sink: w, Clock: func() pool.Instant { return w.now }, Port: 9090})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx)
		}()
		w.wait(t, want)
		cancel()
		<-done
		return w.heard
	}
}

// TestEveryReasonIsReached drives each.
func TestEveryReasonIsReached(t *testing.T) {
	all := ways()
	maps.Copy(all, byReplicas)
	for _, id := range reason.All() {
		t.Run(id.String(), func(t *testing.T) {
			way := all[id]
			if way == nil {
				t.Fatal("nobody knows how it is reached: drive it here, or take it out of the table")
			}
			if way(t).times(id) == 0 {
				t.Error("it was not heard of")
			}
		})
	}
	if len(all) != len(reason.All()) {
		t.Errorf("%d ways for %d reasons", len(all), len(reason.All()))
	}
}
