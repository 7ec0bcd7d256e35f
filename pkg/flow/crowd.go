package flow

// measure is by what places are counted.
type measure uint8

const (
	byRequests measure = iota
	byBytes            // of their bodies
	measures
)

// of returns what a request takes.
func (m measure) of(it *item) int64 {
	if m == byBytes {
		return it.bytes
	}
	return 1
}

// crowd are the flows of a band that hold places, as a heap with the one on top that holds most by one measure. The zero value has
// none.
type crowd []*Flow

// most returns the flow that holds most; nil if none holds a place.
func (c crowd) most() *Flow {
	if len(c) == 0 {
		return nil
	}
	return c[0]
}

// moved brings a flow to its place after what it holds has changed, O(log n).
func (c *crowd) moved(f *Flow, by measure) {
	i := f.rank[by] - 1
	switch {
	case f.holds[byRequests] > 0 && i < 0:
		*c = append(*c, f)
		i = len(*c) - 1
		f.rank[by] = i + 1
	case f.holds[byRequests] == 0 && i >= 0:
		last := len(*c) - 1
		c.swap(i, last, by)
		(*c)[last] = nil
		*c = (*c)[:last]
		f.rank[by] = 0
		if i == last {
			return
		}
	case i < 0:
		return
	}
	c.down(c.up(i, by), by)
}

func (c crowd) swap(i, j int, by measure) {
	c[i], c[j] = c[j], c[i]
	c[i].rank[by], c[j].rank[by] = i+1, j+1
}

func (c crowd) up(i int, by measure) int {
	for i > 0 {
		parent := (i - 1) / 2
		if c[i].holds[by] <= c[parent].holds[by] {
			break
		}
		c.swap(i, parent, by)
		i = parent
	}
	return i
}

func (c crowd) down(i int, by measure) {
	for {
		most := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c); child++ {
			if c[child].holds[by] > c[most].holds[by] {
				most = child
			}
		}
		if most == i {
			return
		}
		c.swap(i, most, by)
		i = most
	}
}

// came gives a request its place at the end of those of its flow.
func (f *Flow) came(it *item) {
	it.older, it.younger = f.last, nil
	if f.last != nil {
		f.last.younger = it
	}
	f.last = it
	if f.fresh == nil {
		f.fresh = it
	}
}

// left takes one out.
func (f *Flow) left(it *item) {
	if f.fresh == it {
		f.fresh = it.younger
	}
	if f.last == it {
		f.last = it.older
	}
	if it.older != nil {
		it.older.younger = it.younger
	}
	if it.younger != nil {
		it.younger.older = it.older
	}
	it.older, it.younger = nil, nil
}

// gives returns who gives up its place if its flow must give one: of those that yield, else of all, the one that came last, which has
// waited least. It is nil where all are being decided.
func (f *Flow) gives() *item {
	late := f.last
	if f.fresh != nil {
		late = f.fresh.older
	}
	for _, from := range [...]*item{late, f.last} {
		for it := from; it != nil; it = it.older { // few are decided at a time
			if it.state == stateWaits {
				return it
			}
		}
	}
	return nil
}
