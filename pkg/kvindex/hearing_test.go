package kvindex_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
)

// hears has to learn of the prompts that from sends, as a replica does of another one's.
func hears(to, from *pluginstest.Rig) {
	from.Pool.Follow(func(e pool.Event) {
		if e.Kind != pool.Brought {
			return
		}
		s := to.Pool.Snapshot()
		id, _ := s.Lookup(e.To)
		to.Built.Hear(0, from.Now, s.Slots[id].Ref, slices.Clone(e.Chain), int(e.Tokens))
	})
}

func TestAPromptIsCachedWhereAnotherReplicaSentIt(t *testing.T) {
	here, there := newRig(t, nil, "a", "b"), newRig(t, nil, "a", "b")
	hears(here.Rig, there.Rig)
	there.send("b", body("m", text("x", 4)))
	expect(t, here.send("a", body("m", text("x", 4))), "a=0 b=256")
	// What was sent here is known here alone: nobody tells the other one.
	expect(t, there.send("b", body("m", text("x", 4))), "a=0 b=256")
}

// What two replicas are asked for is hot, though neither alone has seen enough.
func TestPrefixesAreHotOverAllReplicas(t *testing.T) {
	for _, row := range []struct {
		name   string
		tell   bool
		copies int
	}{{"silent", false, 0}, {"told", true, 1}} {
		here, there := newHotRig(t, nil), newHotRig(t, nil)
		here.sent = 1e6 // beyond what all share, the prompts of one are not those of the other
		if row.tell {
			hears(here.Rig, there.Rig)
		}
		copies := 0
		for range 500 {
			there.Now = here.Now
			there.ask(1, 0, "x")
			copies += len(copied(here.ask(1, 20*time.Millisecond, "x")))
		}
		if copies != row.copies {
			t.Errorf("%s: %d copies, want %d", row.name, copies, row.copies)
		}
	}
}
