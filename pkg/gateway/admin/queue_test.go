package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// ask brings a chat completion of a flow at a priority.
func (w *world) ask(flow string, priority int32) exchange.Action {
	x := w.s.Begin(w.now, nil)
	return x.Described(w.now, &openai.Summary{Model: "m", MaxTokens: 10}, exchange.Said{FairnessID: flow, Priority: priority})
}

// queued are a queue and what says that each endpoint runs two requests.
func queued() []part {
	detector, queue := flow.NewConcurrencyDetector(), flow.NewQueue()
	detector.MaxConcurrency = 2
	queue.SaturationDetectorRef, queue.EnableEviction, queue.MaxRequests = "detector", true, 100
	return []part{{"detector", detector}, {"queue", queue}}
}

// crowd has four requests run and others wait. One that ran may be dropped, and is for the first of priority 0.
func (w *world) crowd() {
	w.s.Queues()[0].(*flow.Queue).Watch(w.m)
	for _, priority := range []int32{0, 0, 0, -1} {
		w.ask("runs", priority)
	}
	for range 3 {
		w.ask("a", 0)
	}
	w.ask("", -1)
	w.ask("b", 10)
	w.now += pool.Instant(2 * time.Second)
}

func TestQueuePage(t *testing.T) {
	w := newWorld(t, nil, queued()...)
	w.crowd()
	status, _, body := w.get("/debug/queue")
	var q Queue
	if err := json.Unmarshal([]byte(body), &q); err != nil || status != 200 {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	if q.Requests != 4 || q.MaxRequests != 100 || len(q.Pools) != 1 {
		t.Fatalf("got %+v", q)
	}
	p := q.Pools[0]
	var got []string
	for _, b := range p.Bands {
		got = append(got, fmt.Sprintf("%d:%d %v %.0fs %v", b.Priority, b.Requests, b.Shut, b.OldestSeconds, b.Flows))
	}
	if want := "10:1 true 2s [{b 1 0}]; 0:2 true 2s [{a 2 0}]; -1:1 false 2s [{default-flow 1 0}]"; strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if got := fmt.Sprint(p.Pool, " ", p.Saturation, p.Evictions); got != "default 1 [{-1 0 1 1}]" {
		t.Errorf("got %s", got)
	}
}

// While requests of the configuration before run, its queue, which is the same one, is not counted twice.
func TestQueuePageAfterAReload(t *testing.T) {
	w := newWorld(t, nil, queued()...)
	w.crowd()
	next := build(t, queued()...)
	next.Inherit(w.built)
	if _, err := w.s.Replace(w.now, next, w.pools, "", ""); err != nil {
		t.Fatal(err)
	}
	if n := len(w.s.Queues()); n != 2 {
		t.Fatalf("%d queues, want that of who runs and that in force", n)
	}
	w.ask("c", 0)
	_, _, body := w.get("/debug/queue")
	var q Queue
	if err := json.Unmarshal([]byte(body), &q); err != nil {
		t.Fatal(err)
	}
	if q.Requests != 5 || len(q.Pools) != 1 || q.Pools[0].Bands[1].Requests != 3 {
		t.Errorf("got %+v, want four that waited and one that came", q)
	}
}

func TestQueueMetrics(t *testing.T) {
	w := newWorld(t, nil, queued()...)
	w.crowd()
	_, _, page := w.get("/metrics")
	for _, line := range []string{
		`fairlead_queue_requests{pool="default",priority="0"} 2`,
		`fairlead_queue_oldest_seconds{pool="default",priority="-1"} 2`,
		`fairlead_queue_saturation_ratio{pool="default"} 1`,
		`fairlead_queue_evictions_total{pool="default",priority="-1",result="taken"} 1`,
		`fairlead_queue_requests_total{outcome="dispatched",pool="default",priority="0"} 4`,
		`fairlead_queue_requests_total{outcome="dispatched",pool="default",priority="-1"} 1`,
		`llm_d_epp_flow_control_queue_size{fairness_id="a",inference_pool="default",model_name="",priority="0",target_model_name=""} 2`,
		`llm_d_epp_flow_control_queue_size{fairness_id="b",inference_pool="default",model_name="",priority="10",target_model_name=""} 1`,
		`llm_d_epp_flow_control_pool_saturation{inference_pool="default",stage="effective"} 1`,
		`llm_d_epp_flow_control_global_capacity_utilization_requests{inference_pool="default"} 0.04`,
		`llm_d_epp_flow_control_requests_total{inference_pool="default",outcome="Dispatched",priority="0"} 4`,
		`llm_d_epp_flow_control_revocations_total{inference_pool="default",outcome="confirmed"} 1`,
		`llm_d_epp_flow_control_request_queue_duration_seconds_count{fairness_id="runs",inference_pool="default",model_name="m",outcome="Dispatched",priority="0",target_model_name="m"} 3`,
		`fairlead_reasons_total{reason="evicted"} 1`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	w.now += pool.Instant(time.Minute)
	w.s.Tick(w.now)
	_, _, page = w.get("/metrics")
	for _, line := range []string{
		`fairlead_queue_requests{pool="default",priority="0"} 0`,
		`fairlead_queue_requests_total{outcome="queue_timeout",pool="default",priority="0"} 2`,
		`llm_d_epp_flow_control_requests_total{inference_pool="default",outcome="EvictedTTL",priority="0"} 2`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// Tenants that clients make up fill neither page nor memory.
func TestQueueFlowsAreBounded(t *testing.T) {
	w := newWorld(t, nil, queued()...)
	for range 4 {
		w.ask("runs", 0)
	}
	for i := range 90 {
		w.ask(fmt.Sprintf("tenant-%d", i), 0)
	}
	w.ask("tenant-7", 0)
	flows := readQueue(w.now, w.s).Pools[0].Bands[0].Flows
	if len(flows) != flowsShown+1 || flows[0] != (QueueFlow{ID: "tenant-7", Requests: 2}) || flows[flowsShown] != (QueueFlow{ID: "other", Requests: 40}) {
		t.Errorf("%d flows, first %+v, last %+v", len(flows), flows[0], flows[len(flows)-1])
	}
}
