package plugins_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// builtin returns a configuration of plugins of the catalogue, each of these types with this weight, in one profile.
func builtin(types []string, weights []float64) plugins.Spec {
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "default"}},
		Pools:    []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "single-profile-handler"}},
	}
	add := func(typ string) {
		for _, e := range catalog.Builtin() {
			if e.Type == typ {
				spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: typ, Type: typ, Construct: func() (any, error) { return e.New(), nil }})
			}
		}
	}
	add("single-profile-handler")
	for i, typ := range types {
		add(typ)
		spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: typ, Weight: weights[i]})
	}
	return spec
}

// Any decision over any world can be made again, in a process that never saw the pool, from its record's JSON alone.
func TestADecisionIsReplayedFromItsRecordToTheBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Float64Range(0, 10)
		types := []string{"label-selector-filter", "queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "queue-headroom-scorer",
			rapid.SampledFrom([]string{"max-score-picker", "random-picker"}).Draw(t, "picker")}
		spec := builtin(types, []float64{0, weight.Draw(t, "w1"), weight.Draw(t, "w2"), weight.Draw(t, "w3"), weight.Draw(t, "w4"), 0})
		built, err := plugins.Build(spec, catalog.Builtin())
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 70).Draw(t, "endpoints")
		w := &world{built: built, notes: notes{}, now: pool.Instant(rapid.Int64Range(1, 1e12).Draw(t, "now")), seed: rapid.Uint64().Draw(t, "seed")}
		w.pool = pool.New("default", w.notes)
		ms := members(n)
		for i := range ms {
			ms[i].Draining = rapid.IntRange(0, 9).Draw(t, "draining") == 0
			ms[i].Labels = map[string]string{"zone": rapid.StringN(0, 3, -1).Draw(t, "zone")}
		}
		w.pool.Update(w.now, ms)
		w.cycle = built.Plans[0].NewCycle(w.notes)
		w.cycle.Want, w.cycle.Record = rapid.IntRange(1, 4).Draw(t, "want"), true
		for _, id := range w.pool.Snapshot().Members {
			if rapid.Bool().Draw(t, "scraped") {
				w.pool.Observe(w.now, w.pool.Snapshot().Slots[id].Ref, pool.Sample{
					At: w.now, Waiting: rapid.Int32Range(-1, 300).Draw(t, "waiting"), Running: 1, Blocks: -1, BlockTokens: -1, ProcessStart: -1,
					KVUsage: rapid.Float64Range(0, 1).Draw(t, "usage"),
				})
			}
		}
		prompt := strings.Repeat("prompt. ", rapid.IntRange(0, 300).Draw(t, "prompt"))
		for number := range uint64(rapid.IntRange(1, 5).Draw(t, "decisions")) {
			body := openai.NewSummary()
			body.AddChunk([]byte(prompt))
			body.Prompt = []openai.Segment{{Span: openai.Span{End: int64(len(prompt))}}}
			body.PromptBytes = int64(len(prompt))
			w.request.Number, w.request.Body = number, body
			legs, no := w.decide()
			if no != nil {
				if no.ID != reason.NoEndpoint {
					t.Fatal(no)
				}
				return
			}
			built.Plans[0].Commit(w.notes, &w.request, legs, &plugins.Outgoing{})
			replay(t, spec, w)
		}
	})
}

// replay runs the world's last decision again from its record and compares.
func replay(t *rapid.T, spec plugins.Spec, w *world) {
	text, err := json.Marshal(w.cycle.Trace)
	if err != nil {
		t.Fatal(err)
	}
	var runs []plugins.ProfileRecord
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	other, err := plugins.Build(spec, catalog.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	var r plugins.Request
	r.Prepare(other, nil)
	r.Number, r.Now = w.request.Number, w.now
	again, err := other.Plans[0].Replay(runs, &r, w.seed, w.cycle.Want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(text) {
		t.Fatalf("replayed %s\nrecorded %s", got, text)
	}
	for i := range again { // JSON hides nothing: the numbers are the same bits
		if !reflect.DeepEqual(again[i].Totals, w.cycle.Trace[i].Totals) || !reflect.DeepEqual(again[i].Raw, w.cycle.Trace[i].Raw) {
			t.Fatalf("run %d: totals or raw scores differ in their bits", i)
		}
	}
}

func TestReplayRefusesARecordThatDoesNotFit(t *testing.T) {
	b := configure(named{"picker", first{}}, named{"s", &needy{}}, named{"p", &provider{}}).mustBuild(t)
	candidates := []plugins.Candidate{{Name: "default/a"}, {Name: "default/b"}}
	values := func(text string) plugins.Values {
		var v plugins.Values
		if err := v.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, r := range []struct {
		name string
		runs []plugins.ProfileRecord
		want string
	}{
		{"no runs", nil, "the record keeps no profile runs"},
		{"a column that is too short", []plugins.ProfileRecord{{Profile: "default", Candidates: candidates, Facts: map[string]plugins.Values{"cached-tokens": values("[1]")}}},
			`record, profile "default", fact "cached-tokens": got 1 values, want 2, one per candidate`},
		{"a column of another type", []plugins.ProfileRecord{{Profile: "default", Candidates: candidates, Facts: map[string]plugins.Values{"cached-tokens": values(`["x","y"]`)}}},
			`record, profile "default", fact "cached-tokens": json:`},
	} {
		t.Run(r.name, func(t *testing.T) {
			var q plugins.Request
			q.Prepare(b, nil)
			_, err := b.Plans[0].Replay(r.runs, &q, 0, 1)
			if err == nil || !strings.HasPrefix(err.Error(), r.want) {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}

func TestARecordSaysWhatHappened(t *testing.T) {
	c := configure(named{"not-one", without(1)}, named{"s", scores(0.25, 1, 0.75)}, named{"picker", first{}})
	w := newWorld(t, c.mustBuild(t), 3)
	w.cycle.Record, w.cycle.Want = true, 2
	w.mustDecide(t)
	text, err := json.Marshal(w.cycle.Trace)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"profile":"default","candidates":[` +
		`{"name":"default/e0","address":"10.0.0.0:8000"},{"name":"default/e1","address":"10.0.0.1:8000"},{"name":"default/e2","address":"10.0.0.2:8000"}],` +
		`"removed":{"not-one":[1]},"left":[0,2],"raw":{"s":[0.25,0.75]},"weights":{"s":1},"totals":[0.25,0.75],"picked":[2,0]}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// worded says of each score what it is.
type worded struct{ numbers }

func (w worded) Explain(_ *plugins.Cycle, i int) string { return fmt.Sprint(w.numbers[i]) }

type numbers []float64

func (n numbers) Score(_ *plugins.Cycle, out []float64) { copy(out, n) }

// In a large pool the candidates with the greatest totals are put into words, by all scorers, and of equal ones the first.
func TestARecordExplainsTheForemost(t *testing.T) {
	var up, down numbers // the first four have the same sum, the least
	for i := range 20 {
		up = append(up, float64(i)/100)
		down = append(down, float64(max(19-i, 16))/100)
	}
	c := configure(named{"s", worded{up}}, named{"other", worded{down}}, named{"picker", first{}})
	w := newWorld(t, c.mustBuild(t), 20)
	w.cycle.Record = true
	w.mustDecide(t)
	run := w.cycle.Trace[0]
	for by, scores := range map[string]numbers{"s": up, "other": down} {
		for i, line := range run.Explained[by] {
			want := fmt.Sprint(scores[i])
			if i < 4 {
				want = ""
			}
			if line != want {
				t.Errorf("%s of candidate %d, whose total is %v: %q, want %q", by, i, run.Totals[i], line, want)
			}
		}
	}
	c = configure(named{"s", worded{make(numbers, 20)}}, named{"picker", first{}})
	w = newWorld(t, c.mustBuild(t), 20)
	w.cycle.Record = true
	w.mustDecide(t)
	if lines := w.cycle.Trace[0].Explained["s"]; lines[15] != "0" || lines[16] != "" {
		t.Errorf("of equal ones %q are explained", lines)
	}
}

func TestARecordOfAnEmptyPool(t *testing.T) {
	c := configure(named{"reads", &needy{}}, named{"p", &provider{}}, named{"picker", first{}})
	w := newWorld(t, c.mustBuild(t), 0)
	w.cycle.Record = true
	if _, no := w.decide(); no == nil || no.ID != reason.NoEndpoint {
		t.Errorf("got %v, want no_endpoint", no)
	}
	text, err := json.Marshal(w.cycle.Trace)
	if want := `[{"profile":"default","candidates":[],"facts":{"cached-tokens":[]},"left":[],"picked":[]}]`; err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}

func TestARecordIsKeptWhenTheCycleRunsOn(t *testing.T) {
	c := configure(named{"s", scores(0.25, 1, 0.75)}, named{"picker", first{}})
	w := newWorld(t, c.mustBuild(t), 3)
	w.cycle.Record = true
	w.mustDecide(t)
	kept := w.cycle.Trace
	before := fmt.Sprintf("%+v", kept)
	w.pool.Update(w.now, members(2))
	w.mustDecide(t)
	if after := fmt.Sprintf("%+v", kept); after != before {
		t.Errorf("it was %s\nand is %s", before, after)
	}
}
