package workload

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/fairlead/fairlead/benchmarks/traces"
)

// Trace replays a recorded trace.
type Trace struct {
	// Format is mooncake, bailian, azure, burstgpt or fairlead; File its path, or a name that traces.Find finds.
	Format string `yaml:"format"`
	File   string `yaml:"file"`

	// Speed is how many times faster it is replayed; 0 is 1.
	Speed float64 `yaml:"speed"`

	// Spread is the tick to which the trace's times were rounded: arrivals of one tick are spread within it, uniformly. Mooncake
	// is rounded to 3 s. 0: none.
	Spread time.Duration `yaml:"spread"`

	// MaxPrompt leaves out requests with longer prompts; 0 is no bound.
	MaxPrompt int32 `yaml:"maxPrompt"`

	// Output is the answer's length where the trace does not tell; 0 is 256.
	Output int32 `yaml:"output"`
}

func (t *Trace) check(where string, blockTokens int32) error {
	format, err := traces.FormatNamed(t.Format)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if t.Speed == 0 {
		t.Speed = 1
	}
	if t.Output == 0 {
		t.Output = 256
	}
	b := format.BlockTokens
	switch {
	case t.File == "":
		return fmt.Errorf("%s: trace without a file", where)
	case !(t.Speed > 0) || t.Spread < 0 || t.MaxPrompt < 0 || t.Output < 1:
		return fmt.Errorf("%s: trace with speed %v, spread %v, maxPrompt %d, output %d; speed above 0, output at least 1, the others not negative", where, t.Speed, t.Spread, t.MaxPrompt, t.Output)
	case b > 0 && b%blockTokens != 0 && blockTokens%b != 0:
		return fmt.Errorf("%s: blockTokens is %d, and the trace has blocks of %d; one must divide the other", where, blockTokens, b)
	}
	return nil
}

// replay yields the rows of a trace, those of one tick spread and put in order. It holds one tick.
type replay struct {
	spec   *Trace
	format traces.Format
	file   io.Closer
	rows   traces.Reader
	random *rand.Rand

	ahead  *traces.Row // read, and of a later tick
	tick   []row
	at     int
	failed error
	size   int32
}

type row struct {
	at             float64
	prompt, output int32
	hashes         []uint64
	session        string
}

// maxTick bounds the rows of one tick.
const maxTick = 1 << 20

func openReplay(t *Trace, blockTokens int32, random *rand.Rand) (*replay, error) {
	format, err := traces.FormatNamed(t.Format)
	if err != nil {
		return nil, err
	}
	path, err := traces.Find(t.File)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &replay{spec: t, format: format, file: f, rows: format.New(f), random: random, size: blockTokens}, nil
}

// next returns the next row, or false at the end; then failed says whether it was one.
func (p *replay) next() (*row, bool) {
	if p.at == len(p.tick) && !p.fill() {
		return nil, false
	}
	p.at++
	return &p.tick[p.at-1], true
}

// fill reads the rows of the next tick.
func (p *replay) fill() bool {
	p.tick, p.at = p.tick[:0], 0
	var begin time.Duration
	for len(p.tick) < maxTick {
		r := p.ahead
		p.ahead = nil
		if r == nil {
			var err error
			if r, err = p.rows.Read(); err != nil {
				if !errors.Is(err, io.EOF) {
					p.failed = err
				}
				break
			}
		}
		if r.Prompt < 1 || p.spec.MaxPrompt > 0 && r.Prompt > p.spec.MaxPrompt {
			continue
		}
		if len(p.tick) == 0 {
			begin = r.At
		} else if r.At > begin {
			p.ahead = r
			break
		}
		output := r.Output
		if output < 1 {
			output = p.spec.Output
		}
		at := r.At.Seconds() + p.random.Float64()*p.spec.Spread.Seconds()
		p.tick = append(p.tick, row{at / p.spec.Speed, r.Prompt, output, p.hashes(r), r.Session})
	}
	slices.SortStableFunc(p.tick, func(a, b row) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	if len(p.tick) == 0 {
		p.close()
	}
	return len(p.tick) > 0
}

func (p *replay) close() {
	if p.file != nil {
		if err := p.file.Close(); err != nil && p.failed == nil {
			p.failed = err
		}
		p.file = nil
	}
}

// hashes names the full blocks of a row's prompt. The trace's blocks are cut into smaller ones, or several make one.
func (p *replay) hashes(r *traces.Row) []uint64 {
	theirs := p.format.BlockTokens
	if theirs == 0 && len(r.Blocks) > 0 {
		theirs = guessBlock(r.Prompt, len(r.Blocks))
	}
	full := int(r.Prompt / p.size)
	if theirs == 0 || len(r.Blocks) == 0 || full == 0 {
		return nil
	}
	out := make([]uint64, 0, full)
	if theirs >= p.size {
		each := int(theirs / p.size)
		for k := 0; k < full && k/each < len(r.Blocks); k++ {
			out = append(out, mix(r.Blocks[k/each]*0x9e3779b97f4a7c15+uint64(k%each)))
		}
		return out
	}
	each := int(p.size / theirs)
	for k := 0; k < full && (k+1)*each <= len(r.Blocks); k++ {
		out = append(out, mix(r.Blocks[(k+1)*each-1]))
	}
	return out
}

// guessBlock returns the power of two that is the size of a prompt's blocks, of which there are n full ones.
func guessBlock(prompt int32, n int) int32 {
	size := int32(1)
	for int64(size)*2*int64(n) <= int64(prompt) {
		size *= 2
	}
	return size
}
