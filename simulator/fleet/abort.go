package fleet

import (
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/simulator/engine"
)

// giveUp has the client of a request go away, if the request has not ended.
func (f *Fleet) giveUp(number uint64) {
	if f.requests[number] == nil {
		return
	}
	if f.result.Outcomes[number].Pod == nobody {
		f.holding--
	} else {
		f.withdraw(number)
	}
	f.end(number, Aborted, "client_gave_up")
	f.decider.Finish(f.now, number, openai.NoUsage, false)
}

// takeBack ends a request that the decider takes back from its engine.
func (f *Fleet) takeBack(a Answer) {
	if f.requests[a.Number] == nil { // it ended at this very instant
		return
	}
	f.withdraw(a.Number)
	f.end(a.Number, Refused, a.Refused)
}

// withdraw takes a request out of the engines that have a part in it.
func (f *Fleet) withdraw(number uint64) {
	s := f.splits[int64(number)]
	switch {
	case s == nil:
		f.abort(f.pods[f.result.Outcomes[number].Pod], f.ids[number])
	case !s.prefilled:
		delete(f.splits, int64(number))
		f.abort(s.prefill, s.prefillID)
	default:
		f.release(s)
		delete(f.splits, int64(number))
		f.abort(s.decode, s.decodeID)
	}
}

// abort has an engine end a request.
func (f *Fleet) abort(p *pod, id engine.ID) {
	f.bring(p)
	if !p.up || !p.engine.Abort(id) {
		return
	}
	p.live[id.Slot] = nobody
	p.running--
	if _, busy := p.engine.Next(); !busy && !p.hung {
		f.step(p, f.asElapsed(f.now)) // begin with what waited for its blocks
	}
	f.plan(p)
	if p.draining {
		f.leaveIfIdle(p)
	}
}
