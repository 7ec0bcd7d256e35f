package adapters

import (
	"errors"
	"io"
	"sync"
)

// pieces is a body that somebody else fills.
type pieces struct {
	mu    sync.Mutex
	more  sync.Cond
	kept  []byte
	ended error
}

func newPieces() *pieces {
	p := &pieces{}
	p.more.L = &p.mu
	return p
}

func (p *pieces) add(b []byte, end bool) {
	p.mu.Lock()
	p.kept = append(p.kept, b...)
	if end {
		p.ended = io.EOF
	}
	p.mu.Unlock()
	p.more.Broadcast()
}

// fail ends what has not ended.
func (p *pieces) fail(err error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	p.mu.Unlock()
	p.more.Broadcast()
}

// wait waits for the end.
func (p *pieces) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.ended == nil {
		p.more.Wait()
	}
}

func (p *pieces) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) == 0 && p.ended == nil {
		p.more.Wait()
	}
	n := copy(b, p.kept)
	p.kept = p.kept[n:]
	if n == 0 {
		return 0, p.ended
	}
	return n, nil
}

func (p *pieces) Close() error {
	p.fail(errClosed)
	return nil
}

var errClosed = errors.New("nobody reads on")
