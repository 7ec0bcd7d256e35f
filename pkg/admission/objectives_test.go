package admission

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

var (
	onePool  = []plugins.PoolSpec{{Name: "one"}}
	twoPools = []plugins.PoolSpec{{Name: "one"}, {Name: "two"}}
)

func TestObjectives(t *testing.T) {
	listed := []plugins.Objective{{Name: "chat", Priority: 5}, {Name: "batch", Priority: -1}, {Name: "batch", Priority: -7, Pool: "two"}, {Name: "local", Priority: 3, Pool: "one"}}
	for _, row := range []struct {
		name    string
		pools   []plugins.PoolSpec
		pool    string // resolved before
		trusted bool
		flow    string
		named   string
		want    string // priority, flow and objective, and what is noted
	}{
		{"names none", onePool, "", true, "", "", `0 "" "" []`},
		{"named", onePool, "", true, "tenant", "chat", `5 "tenant" "chat" []`},
		{"below zero", onePool, "", true, "", "batch", `-1 "" "batch" []`},
		{"unknown is 0, and is told", onePool, "", true, "", "chatt", `0 "" "chatt" [objective_unknown]`},
		{"a name is compared as it is written", onePool, "", true, "", "Chat", `0 "" "Chat" [objective_unknown]`},
		{"of the only pool, which nobody resolved", onePool, "", true, "", "local", `3 "" "local" []`},
		{"of the request's pool", twoPools, "one", true, "", "local", `3 "" "local" []`},
		{"of another pool", twoPools, "two", true, "", "local", `0 "" "local" [objective_unknown]`},
		{"a pool's own meaning comes before that for all", twoPools, "two", true, "", "batch", `-7 "" "batch" []`},
		{"and does not touch other pools", twoPools, "one", true, "", "batch", `-1 "" "batch" []`},
		{"not trusted", onePool, "", false, "tenant", "chat", `0 "" "" [identity_ignored]`},
		{"nothing to trust", onePool, "", false, "", "", `0 "" "" []`},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := NewObjectives()
			o.TrustHeaders = row.trusted
			if err := o.Provision(&plugins.Builder{Pools: row.pools, Objectives: listed}); err != nil {
				t.Fatal(err)
			}
			r := plugins.Request{FairnessID: row.flow, Objective: row.named}
			r.Target.Pool = row.pool
			if v := o.Enter(&r); !v.Passes() {
				t.Fatalf("it does not pass: %+v", v)
			}
			noted := []reason.ID{}
			for _, n := range r.TakeNotes() {
				noted = append(noted, n.ID)
			}
			if got := fmt.Sprintf("%d %q %q %v", r.Target.Priority, r.FairnessID, r.Objective, noted); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestObjectivesAreReplaced(t *testing.T) {
	o := NewObjectives()
	if err := o.Provision(&plugins.Builder{Pools: onePool}); err != nil {
		t.Fatal(err)
	}
	ask := func() int32 {
		r := plugins.Request{Objective: "chat"}
		o.Enter(&r)
		return r.Target.Priority
	}
	if got := ask(); got != 0 {
		t.Errorf("priority %d before there is a table, want 0", got)
	}
	o.Replace([]plugins.Objective{{Name: "chat", Priority: 7}})
	if got := ask(); got != 7 {
		t.Errorf("priority %d after it was replaced, want 7", got)
	}
}

func TestObjectivesDoNotAllocate(t *testing.T) {
	o := NewObjectives()
	if err := o.Provision(&plugins.Builder{Pools: onePool, Objectives: []plugins.Objective{{Name: "chat", Priority: 7}}}); err != nil {
		t.Fatal(err)
	}
	r := plugins.Request{FairnessID: "tenant", Objective: "chat"}
	if n := testing.AllocsPerRun(100, func() { o.Enter(&r) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
