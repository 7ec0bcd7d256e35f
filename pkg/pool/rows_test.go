package pool_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Ending twice, moving what has ended and progress after the end take nothing below zero: a count that is negative would
// draw every request to its endpoint.
func TestL14NoCountFallsBelowZero(t *testing.T) {
	p := pool.New("p", nil)
	p.Update(1, []pool.Endpoint{{Namespace: "ns", Name: "a"}})
	at := p.Snapshot().Slots[0].Ref
	var b pool.Booking
	p.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		b = books.Book(at, pool.Load{UncachedPrefill: 9, Decode: 9}, 1000)
	})
	if !p.End(2, b) {
		t.Error("the first end did nothing")
	}
	for range 3 {
		if p.End(3, b) || p.FirstByte(3, b) || p.Progress(3, b, 5) || p.Move(3, b, at, pool.Load{Decode: 5}) {
			t.Error("a booking that has ended changed something")
		}
	}
	p.Expire(2000)
	p.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		if books.Requests[0] != 0 || books.NoFirstByte[0] != 0 || books.AfterSample[0] != 0 || books.PrefillTokens[0] != 0 || books.DecodeTokens[0] != 0 {
			t.Errorf("%d requests, %d without first byte, %d after the sample, %d and %d tokens; want zero", books.Requests[0],
				books.NoFirstByte[0], books.AfterSample[0], books.PrefillTokens[0], books.DecodeTokens[0])
		}
	})
}
