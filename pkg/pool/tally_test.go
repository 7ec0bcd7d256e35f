package pool

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	const ms = Instant(time.Millisecond)
	// One token costs a millisecond. Each row is a story over one endpoint; want is its tally after it.
	tests := []struct {
		name  string
		story func(p *Pool, e Ref)
		want  Tally
	}{
		{"nothing booked", func(*Pool, Ref) {}, Tally{}},
		{"a first byte tells how long the prompt took", func(p *Pool, e Ref) {
			h := book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms)
			p.FirstByte(170*ms, h)
		}, Tally{Booked: 1, BookedWork: 50, BookedAhead: 50, Prompts: 50, Answered: 1, Begun: 1, Waited: 70e6, Ahead: 50, BegunWork: 50}},
		{"behind another one that is half done", func(p *Pool, e Ref) {
			book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms)
			p.FirstByte(200*ms, book(p, 125*ms, e, Load{UncachedPrefill: 30}, 9000*ms))
		}, Tally{Booked: 2, BookedWork: 80, BookedAhead: 105, Prompts: 80, Answered: 1, Begun: 1, Waited: 75e6, Ahead: 55, BegunWork: 30}},
		{"behind another one that should be done, and is not", func(p *Pool, e Ref) {
			book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms)
			p.FirstByte(300*ms, book(p, 250*ms, e, Load{UncachedPrefill: 30}, 9000*ms))
		}, Tally{Booked: 2, BookedWork: 80, BookedAhead: 105, Prompts: 80, Answered: 1, Begun: 1, Waited: 50e6, Ahead: 55, BegunWork: 30}},
		{"behind a long one that should be done: of one step", func(p *Pool, e Ref) {
			book(p, 100*ms, e, Load{UncachedPrefill: 5000}, 90000*ms)
			p.FirstByte(7000*ms, book(p, 6000*ms, e, Load{UncachedPrefill: 30}, 90000*ms))
		}, Tally{Booked: 2, BookedWork: 5030, BookedAhead: 7078, Prompts: 5030, Answered: 1, Begun: 1, Waited: 1000e6, Ahead: 2078, BegunWork: 30}},
		{"prompts that end in one step wait for each other", func(p *Pool, e Ref) {
			first, second := book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms), book(p, 110*ms, e, Load{UncachedPrefill: 30}, 9000*ms)
			p.FirstByte(200*ms, first)
			p.FirstByte(201*ms, second)
		}, Tally{Booked: 2, BookedWork: 80, BookedAhead: 120, Prompts: 80, Answered: 2, Begun: 2, Waited: 191e6, Ahead: 150, BegunWork: 80, BegunBeside: 1, BegunKTokens: 0.05}},
		{"not those of the next", func(p *Pool, e Ref) {
			first, second := book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms), book(p, 110*ms, e, Load{UncachedPrefill: 30}, 9000*ms)
			p.FirstByte(200*ms, first)
			p.FirstByte(206*ms, second)
		}, Tally{Booked: 2, BookedWork: 80, BookedAhead: 120, Prompts: 80, Answered: 2, Begun: 2, Waited: 196e6, Ahead: 120, BegunWork: 80, BegunBeside: 1, BegunKTokens: 0.05}},
		{"attention makes long prompts longer", func(p *Pool, e Ref) {
			p.Decide(func(_ *Snapshot, b *Books) { b.AttentionTokens = 1000 })
			p.FirstByte(200*ms, book(p, 100*ms, e, Load{UncachedPrefill: 1000, Cached: 500}, 9000*ms))
		}, Tally{Booked: 1, BookedWork: 2000, BookedAhead: 2000, Prompts: 1500, Cached: 500, Answered: 1, Begun: 1, Waited: 100e6, Ahead: 2000, BegunWork: 2000}},
		{"an answer that comes at once tells nothing of its prompt, but of its steps", func(p *Pool, e Ref) {
			h := book(p, 100*ms, e, Load{UncachedPrefill: 500, Silent: true}, 9000*ms)
			p.FirstByte(900*ms, h)
			p.Progress(900*ms, h, 11)
			p.End(900*ms, h)
		}, Tally{Booked: 1, BookedWork: 500, BookedAhead: 500, Prompts: 500, Answered: 1, Ended: 1, Steps: 10, Decoding: 300e6, Sequences: 10, KTokens: 5}},
		{"headers that come first tell when they came, and leave the backlog", func(p *Pool, e Ref) {
			p.Decide(func(_ *Snapshot, b *Books) { b.HeadersFirst = true })
			p.FirstByte(101*ms, book(p, 100*ms, e, Load{UncachedPrefill: 50}, 9000*ms))
		}, Tally{Booked: 1, BookedWork: 50, BookedAhead: 50, Prompts: 50, Answered: 1, Begun: 1, Waited: 1e6, Ahead: 50, BegunWork: 50, BegunBeside: 1, BegunKTokens: 0.05}},
		{"an answer's length and what decoded beside it", func(p *Pool, e Ref) {
			h := book(p, 0, e, Load{UncachedPrefill: 1000}, 9000*ms)
			p.FirstByte(1000*ms, h)
			other := book(p, 1000*ms, e, Load{UncachedPrefill: 500}, 9000*ms)
			p.FirstByte(1500*ms, other) // half of the time two decode
			p.Progress(2000*ms, h, 11)
			p.End(2000*ms, h)
		}, Tally{Booked: 2, BookedWork: 1500, BookedAhead: 1500, Prompts: 1500, Answered: 2, Begun: 2, Waited: 1500e6, Ahead: 1500, BegunWork: 1500, BegunBeside: 1, BegunKTokens: 1,
			Ended: 1, Steps: 10, Decoding: 1000e6, Sequences: 15, KTokens: 12.5, Work: 500}},
		{"an end of unknown length tells nothing", func(p *Pool, e Ref) {
			h := book(p, 0, e, Load{UncachedPrefill: 100, Decode: 10}, 9000*ms)
			p.FirstByte(100*ms, h)
			p.End(2000*ms, h)
		}, Tally{Booked: 1, BookedWork: 100, BookedAhead: 100, Prompts: 100, Answered: 1, Begun: 1, Waited: 100e6, Ahead: 100, BegunWork: 100}},
		{"what was moved while it decoded tells nothing", func(p *Pool, e Ref) {
			h := book(p, 0, p.Snapshot().Slots[1].Ref, Load{UncachedPrefill: 100, Decode: 10}, 9000*ms)
			p.FirstByte(100*ms, h)
			p.Move(100*ms, h, e, Load{Decode: 10})
			p.Progress(200*ms, h, 5)
			p.End(200*ms, h)
		}, Tally{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, refs := of(2, Options{PrefillPerToken: time.Millisecond})
			tt.story(p, refs[0])
			p.Decide(func(_ *Snapshot, b *Books) {
				if b.Tallies[0] != tt.want {
					t.Errorf("%+v, want %+v", b.Tallies[0], tt.want)
				}
			})
		})
	}
}

// Where first bytes tell nothing, the clock alone ends the backlog.
func TestBacklogOfAnswersThatTellNothing(t *testing.T) {
	tests := []struct {
		name  string
		story func(p *Pool, e Ref)
		want  Instant
	}{
		{"headers leave it", func(p *Pool, e Ref) {
			p.FirstByte(101, book(p, 100, e, Load{UncachedPrefill: 50, Silent: true}, 1000))
		}, 150},
		{"an end before the prompt is done takes it off", func(p *Pool, e Ref) {
			book(p, 100, e, Load{UncachedPrefill: 30, Silent: true}, 1000)
			p.End(110, book(p, 100, e, Load{UncachedPrefill: 50, Silent: true}, 1000))
		}, 130},
		{"an end after it changes nothing", func(p *Pool, e Ref) {
			h := book(p, 100, e, Load{UncachedPrefill: 50, Silent: true}, 1000)
			book(p, 140, e, Load{UncachedPrefill: 50, Silent: true}, 1000)
			p.End(160, h)
		}, 200},
		{"a telling first byte leaves what was booked after it", func(p *Pool, e Ref) {
			book(p, 100, e, Load{UncachedPrefill: 50, Silent: true}, 1000)
			h := book(p, 100, e, Load{UncachedPrefill: 50}, 1000)
			book(p, 100, e, Load{UncachedPrefill: 30, Silent: true}, 1000)
			p.FirstByte(140, h)
		}, 170},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, refs := of(1, Options{PrefillPerToken: 1})
			tt.story(p, refs[0])
			if got := row(p).Ends; got != tt.want {
				t.Errorf("ends at %d, want %d", got, tt.want)
			}
		})
	}
}
