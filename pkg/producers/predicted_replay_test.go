package producers_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// A decision by predicted latency is made again from its record alone, to the bit, whatever was learned since.
func TestPredictedDecisionsAreReplayed(t *testing.T) {
	score := scorers.NewLatency()
	score.ExplorationProbability = 0.5
	by := streamed()
	f := &fleet{watch: &watch{}, by: by, factor: map[string]float64{}}
	f.Rig = pluginstest.NewRig(t, []pluginstest.Part{{Name: "score", Plugin: score, Weight: 1}, {Name: "prefix", Plugin: kvindex.NewProducer()},
		{Name: "loads", Plugin: producers.NewLoadModel()}, {Name: "latency", Plugin: by}}, "a", "b", "c")
	for i := range 300 {
		sent := f.SendWith(stream(int64(200+i%7*300)), openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "80"}})
		if i%10 == 0 {
			text, err := json.Marshal(sent.Run)
			if err != nil {
				t.Fatal(err)
			}
			var kept plugins.ProfileRecord
			if err := json.Unmarshal(text, &kept); err != nil {
				t.Fatal(err)
			}
			var r plugins.Request
			r.Prepare(f.Built, nil)
			r.Number, r.Now, r.PoolIndex = sent.Request.Number, sent.Request.Now, 0
			again, err := f.Built.Plans[0].Replay([]plugins.ProfileRecord{kept}, &r, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again[0].Totals, sent.Run.Totals) || !reflect.DeepEqual(again[0].Picked, sent.Run.Picked) {
				t.Fatalf("request %d: totals %v and pick %v, again %v and %v", i, sent.Run.Totals, sent.Run.Picked, again[0].Totals, again[0].Picked)
			}
		}
		sent.Answer(sent.Picked[0])
		sent.EndAs(plugins.Outcome{Served: sent.Request.Served, TTFT: 60e6, Total: 1560e6, Out: 100})
	}
}
