package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

func exampleNames() []string { return []string{"cache-vs-queue"} }

// cacheVsQueue is the profile that the example runs under: two scorers whose weights say that a cached prefix is worth
// more than a short queue.
const cacheVsQueue = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
  - pluginRef: max-score-picker
`

// explainExample plays a small scene with the production code and explains its decisions: a conversation lives on a pod
// that has become the busier one. Its third turn goes there all the same, while a prompt that nobody has cached goes where
// the queue is short.
func explainExample(w io.Writer, entries []plugins.Entry, name string) error {
	if name != exampleNames()[0] {
		return &usageError{fmt.Errorf("no example is named %q; there is: %s", name, strings.Join(exampleNames(), ", "))}
	}
	file, problems := config.Load([]byte(cacheVsQueue), name, entries)
	if file == nil {
		return fmt.Errorf("the example's configuration does not load: %v", problems)
	}
	built, problems := file.Build()
	if built == nil {
		return fmt.Errorf("the example's configuration does not build: %v", problems)
	}
	p := pool.New(built.Plans[0].Pool.Name, reason.Discard{})
	o := exchange.Defaults()
	o.Built, o.Pools, o.Epoch, o.Seed = built, []*pool.Pool{p}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 1
	o.ConfigText, o.ConfigDigest = string(file.Effective()), file.Digest()
	s, err := exchange.New(o)
	if err != nil {
		return err
	}
	busy := pool.Endpoint{Namespace: "default", Name: "pod-1", Addr: netip.MustParseAddrPort("192.0.2.1:8000")}
	idle := pool.Endpoint{Namespace: "default", Name: "pod-2", Addr: netip.MustParseAddrPort("192.0.2.2:8000")}
	now := pool.Instant(time.Second)

	// Two turns while pod-1 is alone put the conversation into its cache.
	p.Update(now, []pool.Endpoint{busy})
	turns := []string{prose("How do tides work?", 4_800), prose("And on a lake?", 4_800)}
	for n := range turns {
		if _, err := ask(s, now, conversation(turns[:n+1])); err != nil {
			return err
		}
		now += pool.Instant(time.Second)
	}

	// Then pod-2 joins, idle, and eight requests wait on pod-1.
	p.Update(now, []pool.Endpoint{busy, idle})
	waiting := map[string]int32{"pod-1": 8, "pod-2": 1}
	for _, id := range p.Snapshot().Members {
		e := p.Snapshot().Slots[id]
		p.Observe(now, e.Ref, pool.Sample{At: now, Waiting: waiting[e.Name], Running: waiting[e.Name], KVUsage: 0.2, Blocks: 9300, BlockTokens: 16})
	}
	now += pool.Instant(100 * time.Millisecond)

	scenes := []struct{ title, body string }{
		{"The third turn of a conversation of about 2,400 tokens that pod-1 has cached, while 8 requests wait on pod-1 and 1 on pod-2:",
			conversation(append(turns, "In one sentence?"))},
		{"A first question that no pod has cached, at the same moment:", conversation([]string{prose("What is a monsoon?", 4_800)})},
	}
	for _, scene := range scenes {
		id, err := ask(s, now, scene.body)
		if err != nil {
			return err
		}
		doc, _ := s.Decision(id)
		fmt.Fprintf(w, "%s\n\n", scene.title)
		if err := explain(w, entries, doc); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

// ask sends one request through an exchange and ends it cleanly.
func ask(s *exchange.Scheduler, now pool.Instant, body string) (id string, err error) {
	x := s.Begin(now, nil)
	defer x.End(now, exchange.Ending{Clean: true})
	h := openai.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: "content-type", Value: "application/json"}}
	x.Headers(now, h, exchange.Via{Adapter: "example", StreamLasts: true}, false)
	a := x.Body(now, []byte(body), true)
	if a.Do != exchange.Forward {
		return "", fmt.Errorf("the example's request was not forwarded: %s", a.Do)
	}
	x.Response(now, openai.Headers{{Name: ":status", Value: "200"}}, a.To[0], false)
	return x.ID, nil
}

// conversation is a chat completion body whose user turns these are, each but the last answered.
func conversation(turns []string) string {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	for i, t := range turns {
		messages = append(messages, message{"user", t})
		if i < len(turns)-1 {
			messages = append(messages, message{"assistant", "Answer " + fmt.Sprint(i+1) + "."})
		}
	}
	body, _ := json.Marshal(map[string]any{"model": "llama-3.1-8b", "messages": messages})
	return string(body)
}

// prose repeats a sentence to n bytes.
func prose(sentence string, n int) string {
	return strings.Repeat(sentence+" ", n/(len(sentence)+1)+1)[:n]
}
