package server

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// recorder writes what an engine was given and what it did, a line each, so that virtual time can do the same again:
//
//	add NANOSECONDS ENGINE PROMPT OUTPUT ADAPTER HASH,HASH,…
//	abort NANOSECONDS ENGINE SLOT.GENERATION
//	step ENGINE …                                as engine.AppendLog has it, when the step begins
//
// Instants are engine time; hashes are hexadecimal, - for none.
type recorder struct {
	mu  sync.Mutex
	w   io.Writer
	err error // the first; nothing is written behind it
}

func (r *recorder) line(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(line)
	}
}

// added records a request that engine index was given.
func (r *recorder) added(index int, now time.Duration, q engine.Request) {
	if r == nil {
		return
	}
	line := append([]byte(nil), "add "...)
	for _, v := range [...]int64{int64(now), int64(index), int64(q.Prompt), int64(q.Output), int64(q.Adapter)} {
		line = append(strconv.AppendInt(line, v, 10), ' ')
	}
	if len(q.Hashes) == 0 {
		line = append(line, '-')
	}
	for i, h := range q.Hashes {
		if i > 0 {
			line = append(line, ',')
		}
		line = strconv.AppendUint(line, h, 16)
	}
	r.line(append(line, '\n'))
}

func (r *recorder) aborted(index int, now time.Duration, id engine.ID) {
	if r == nil {
		return
	}
	line := append([]byte(nil), "abort "...)
	line = append(strconv.AppendInt(line, int64(now), 10), ' ')
	line = append(strconv.AppendInt(line, int64(index), 10), ' ')
	line = append(strconv.AppendInt(line, int64(id.Slot), 10), '.')
	r.line(append(strconv.AppendUint(line, uint64(id.Generation), 10), '\n'))
}

// stepped records the step that began, if one did.
func (r *recorder) stepped(index int, e *engine.Engine) {
	if r == nil {
		return
	}
	log := e.AppendLog(nil)
	if len(log) == 0 {
		return
	}
	var line strings.Builder
	line.WriteString("step ")
	line.WriteString(strconv.Itoa(index))
	line.WriteByte(' ')
	line.Write(log)
	line.WriteByte('\n')
	r.line([]byte(line.String()))
}
