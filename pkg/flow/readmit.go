package flow

import (
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

var _ plugins.Readmitter = (*Queue)(nil)

// Readmit leaves a request that was admitted and is decided anew the endpoints with room. It was charged, and is not again.
func (q *Queue) Readmit(c *plugins.Cycle, books *pool.Books) bool { return q.Control.Readmit(c, books) }

// Readmit narrows the candidates of a request that went already to endpoints with room, inside the pool's lock. It reports whether any
// is left.
func (c *Control) Readmit(cy *plugins.Cycle, books *pool.Books) bool {
	l, o := c.mine[cy.Request.PoolIndex], c.rules()
	if !c.look(l, cy.Now, cy.Snapshot, books) {
		return false
	}
	if o.rooms == nil {
		return true
	}
	l.spare.look(o.rooms, &l.seen, cy.Snapshot)
	return len(l.spare.full) == 0 || cy.Restrict(l.spare.has) > 0
}
