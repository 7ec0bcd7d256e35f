package fleet

import (
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

// Transfer says how long keys and values take from one member to another: Setup, and their bytes at BytesPerSecond; 0 takes
// the network of the receiving hardware. Transfers do not slow each other down.
type Transfer struct {
	Setup          time.Duration
	BytesPerSecond float64
}

// split is a request of which one member computes the prompt and another generates.
type split struct {
	prefill, decode *pod
	prefillID       engine.ID
	decodeID        engine.ID
	prefilled       bool // its part is done, and it holds the blocks
}

// prefill sends a request to the member that computes its prompt. As in vLLM's P/D, it is asked for one token there, and its
// blocks are held until they were fetched.
func (f *Fleet) prefill(p, decode *pod, number uint64) {
	r := f.requests[number]
	o := &f.result.Outcomes[number]
	o.Pod, o.Sent = decode.number, f.now
	s := &split{prefill: p, decode: decode}
	f.splits[int64(number)] = s
	id, ok := f.add(p, number, engine.Request{Prompt: r.Prompt, Output: 1, Hashes: r.Hashes, Adapter: r.Adapter, HoldKV: true})
	if !ok {
		delete(f.splits, int64(number))
		return
	}
	s.prefillID = id
}

// prefills reports whether a request of a pod is the first part of a split one.
func (f *Fleet) prefills(p *pod, id engine.ID) bool {
	if len(f.splits) == 0 {
		return false
	}
	s := f.splits[p.live[id.Slot]]
	return s != nil && s.prefill == p && !s.prefilled
}

// prefilled passes a split request, whose prompt is computed, on to the member that generates.
func (f *Fleet) prefilled(p *pod, s *split, done *engine.Finished, number int64) {
	s.prefilled, s.prefillID = true, done.ID
	o := &f.result.Outcomes[number]
	o.Cached, o.Admitted = done.Cached, pool.Instant(done.Admitted)
	if !s.decode.up {
		p.engine.Release(s.prefillID)
		delete(f.splits, number)
		f.end(uint64(number), Failed, "decode_unreachable")
		f.decider.Finish(f.now, uint64(number), openai.NoUsage, false)
		return
	}
	r := f.requests[number]
	id, ok := f.add(s.decode, uint64(number), engine.Request{Prompt: r.Prompt, Output: r.Output, Hashes: r.Hashes, Adapter: r.Adapter, RemoteKV: true})
	if !ok {
		p.engine.Release(s.prefillID)
		delete(f.splits, number)
		return
	}
	s.decodeID = id
}

// fetch begins the transfer for a request that was given blocks.
func (f *Fleet) fetch(p *pod, l engine.Loading) {
	profile := &p.spec.Profile
	rate := f.transfer.BytesPerSecond
	if rate == 0 {
		rate = profile.NetworkBytesPerSecond
	}
	took := f.transfer.Setup
	if rate > 0 {
		took += time.Duration(float64(l.Tokens) * float64(profile.KVBytesPerToken) / rate * 1e9)
	}
	f.transfers.Push(timed{f.now + pool.Instant(took), p.live[l.ID.Slot]})
}

// loaded ends a transfer: the one engine lets go of the blocks, the other generates.
func (f *Fleet) loaded(r timed) {
	s := f.splits[r.number]
	if s == nil || !s.prefilled { // it was broken off meanwhile
		return
	}
	f.release(s)
	p := s.decode
	f.bring(p)
	if p.up && p.engine.Loaded(s.decodeID) {
		if _, busy := p.engine.Next(); !busy && !p.hung {
			f.step(p, f.asElapsed(f.now))
		}
		f.plan(p)
	}
}

// release has the prefilling engine let go of a request's blocks, and begin with what waited for them.
func (f *Fleet) release(s *split) {
	p := s.prefill
	f.bring(p)
	if !p.up || !p.engine.Release(s.prefillID) {
		return
	}
	if _, busy := p.engine.Next(); !busy && !p.hung {
		f.step(p, f.asElapsed(f.now))
	}
	f.plan(p)
}

// abandonOther ends the other part of a request that was broken off in pod p.
func (f *Fleet) abandonOther(p *pod, number int64) {
	s := f.splits[number]
	if s == nil {
		return
	}
	delete(f.splits, number)
	if s.prefilled && s.prefill != p {
		f.release(s)
	}
}
