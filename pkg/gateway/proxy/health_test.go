package proxy

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/health"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/server"
)

// An engine that goes wrong costs a few clients their answer at most, and then gets nothing.
func TestEnginesThatGoWrongAreLeftOut(t *testing.T) {
	for _, r := range []struct {
		name   string
		faults server.Faults
		errors int // at most
		why    reason.ID
	}{
		{"errors", server.Faults{Status: 500}, 3, reason.EndpointFailing},
		{"resets", server.Faults{ResetBeforeFirstByte: true}, 3, reason.EndpointFailing},
		{"connections that are refused", server.Faults{Refuse: true}, 3, 0}, // closed when they were accepted: what was sent may have been read
		{"answers that come slowly", server.Faults{Slow: 30_000}, 0, reason.EndpointSlow},
	} {
		t.Run(r.name, func(t *testing.T) {
			f, addrs := fleet(t, 3)
			watches := health.NewFilter()
			watches.EjectBase, watches.UnreachableBase, watches.EjectMax = time.Hour, time.Hour, time.Hour
			watches.Window = 10 * time.Minute // however slow the machine
			w := newWorld(t, setup{reads: plugins.ReadsBody, picker: pickers.NewRandom(), filters: []any{watches}}, addrs...)
			send := func(n int) (errors, sick int) {
				for range n {
					resp, _, broken := w.ask(llama(false, 1, "it"))
					if resp.StatusCode != 200 || broken != nil {
						errors++
					}
					if w.settled().ServedNamed == "ns/e000" {
						sick++
					}
				}
				return errors, sick
			}
			if errors, _ := send(20); errors > 0 {
				t.Fatalf("%d of 20 requests failed before anything happened", errors)
			}
			if err := f.SetFaults(0, r.faults); err != nil {
				t.Fatal(err)
			}
			if errors, _ := send(60); errors > r.errors {
				t.Errorf("%d of 60 requests failed, want at most %d", errors, r.errors)
			}
			if errors, sick := send(30); errors > 0 || sick > 0 {
				t.Errorf("of the 30 requests that followed %d failed and %d went to the engine", errors, sick)
			}
			if r.why != 0 && w.noted.count(r.why) == 0 {
				t.Errorf("%v was not noted", r.why)
			}
		})
	}
}
