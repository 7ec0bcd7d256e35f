package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// TestBuffersFitTheirBody: what a body takes before much of it has come is little, unless its length asks for more.
func TestBuffersFitTheirBody(t *testing.T) {
	for _, row := range []struct {
		length, comes int
		small, large  int
	}{
		{length: 100, comes: 100, small: 1},
		{length: 8000, comes: 8000, large: 1},
		{length: -1, comes: 100, small: 1},
		{length: -1, comes: 8000, small: 1, large: 1},
		{length: -1, comes: 100_000, small: 1, large: 2},
	} {
		t.Run(fmt.Sprintf("%d of %d", row.comes, row.length), func(t *testing.T) {
			in := inbound{source: strings.NewReader(strings.Repeat("x", row.comes)), length: int64(row.length)}
			for !in.ended {
				if _, err := in.next(); err != nil {
					t.Fatal(err)
				}
			}
			if len(in.small) != row.small || len(in.large) != row.large {
				t.Errorf("%d small and %d large buffers, want %d and %d", len(in.small), len(in.large), row.small, row.large)
			}
			in.release()
		})
	}
}

// TestNoDecisionForWhoLeft: a request whose client went away while its body came is not decided, as after a reset of its stream.
func TestNoDecisionForWhoLeft(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "POST", chatPath, strings.NewReader(prompt(10)))
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("panicked with %v", p)
		}
		if e.count.Load() != 0 || w.pool.Open() != 0 || w.noted.count(reason.Internal) != 0 {
			t.Error("it was decided")
		}
	}()
	w.proxy.ServeHTTP(httptest.NewRecorder(), r)
}
