package admin

import (
	"encoding/json"
	"testing"
)

func TestPredictedLatenciesAreCounted(t *testing.T) {
	w := touched(t, false)
	all := gathered(t, w)
	for name, want := range map[string]float64{
		"fairlead_predicted_latency_error_ratio": 0.11, "fairlead_predicted_latency_answers": 300, "fairlead_predicted_latency_in_use": 1,
	} {
		f := all[name]
		if f == nil || f.GetMetric()[0].GetGauge().GetValue() != want {
			t.Errorf("%s: %v, want %g", name, f, want)
		}
	}
	for name, want := range map[string]float64{"llm_d_epp_request_predicted_ttft_seconds": 0.08, "llm_d_epp_request_predicted_tpot_seconds": 0.09} {
		if h := all[name].GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != want {
			t.Errorf("%s: %d of %g s, want one of %g s", name, h.GetSampleCount(), h.GetSampleSum(), want)
		}
	}
	// The stream took 100 ms to its first token, where 50 was the target, and 100 ms a token, where 200 was.
	missed := map[string]float64{}
	for _, s := range all["llm_d_epp_request_slo_violation_total"].GetMetric() {
		for _, l := range s.GetLabel() {
			if l.GetName() == "type" {
				missed[l.GetValue()] = s.GetCounter().GetValue()
			}
		}
	}
	if missed["ttft"] != 1 || missed["tpot"] != 0 {
		t.Errorf("missed targets: %v", missed)
	}
}

func TestDebugLatency(t *testing.T) {
	var got []Accuracy
	if err := json.Unmarshal([]byte(page(t, touched(t, false), "/debug/latency")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Class != "h100-sxm" || got[0].Error != 0.11 {
		t.Errorf("%+v", got)
	}
}

// page returns what a path serves.
func page(t *testing.T, w *world, path string) string {
	t.Helper()
	status, _, body := w.get(path)
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return body
}
