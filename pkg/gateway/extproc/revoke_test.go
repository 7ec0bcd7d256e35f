package extproc

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/reason"
)

// A request is taken back while no message is outstanding; Envoy takes the answer all the same (reference: internal/e2e).
func TestRevoke(t *testing.T) {
	for _, row := range []struct {
		request, response bodyMode
		tokens            []string
	}{
		{duplex, none, nil}, {duplex, duplex, nil}, {buffered, none, nil}, {streamed, none, []string{TokenOverride}},
	} {
		t.Run(fmt.Sprintf("%v %v %v", row.request, row.response, row.tokens), func(t *testing.T) {
			q := pluginstest.NewEvictor()
			g := newRig(t, rigOptions{queue: q})
			gw := g.open(row.tokens...)
			gw.headers(row.request, row.response)
			if row.request == buffered {
				gw.recv()
			}
			gw.body(chat, true)
			if row.request == buffered {
				gw.recv()
			} else {
				gw.answerTo()
			}
			if !q.TakeBack(func() { g.scheduler.Tick(1) }) {
				t.Fatal("it was not taken back")
			}
			m := gw.recv().GetImmediateResponse()
			if m == nil || m.GetStatus().GetCode() != 429 || m.GetDetails() != "evicted" {
				t.Fatalf("got %v, want 429 evicted", m)
			}
			if _, err := gw.io.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v, want OK", err)
			}
			if o := g.outcome(); o.Ending != reason.Evicted {
				t.Errorf("it settled as %v", o.Ending)
			}
			g.zero()
		})
	}
	t.Run("an answer that crosses the refusal", func(t *testing.T) {
		q := pluginstest.NewEvictor()
		g := newRig(t, rigOptions{queue: q})
		gw := g.open()
		gw.headers(duplex, none)
		gw.body(chat, true)
		gw.answerTo()
		gw.responseHeaders("10.0.0.1:8000", false)
		gw.recv()
		if q.TakeBack(func() { g.scheduler.Tick(1) }) {
			t.Error("it was taken back though its answer had begun")
		}
	})
}
