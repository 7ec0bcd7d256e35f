package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The defaults of a Watcher.
const (
	DefaultSettle  = 100 * time.Millisecond
	DefaultRecheck = 10 * time.Second
)

// Watcher keeps the membership of pools as an endpoint file says. The fields are set before the first call; Load and Run
// are called from one goroutine at a time.
type Watcher struct {
	File  string       // empty: Extra alone
	Extra []Entry      // members besides those of the file, as from FromURL
	Pools []*pool.Pool // all pools of the configuration
	Clock func() pool.Instant
	Sink  reason.Sink // nil discards

	// Settle is for how long the file must be left alone before it is read, so that a half-written one is not. A file that
	// is never left alone is read every ten times that. 0 is DefaultSettle.
	Settle time.Duration

	// Recheck is how often the file is read in any case: network file systems do not tell of changes. 0 is DefaultRecheck.
	Recheck time.Duration

	// Slow hears once that changes are seen by Recheck alone, and why; nil for nobody. An exhausted
	// fs.inotify.max_user_instances is such a cause.
	Slow func(error)

	// Loaded hears of each reading that differs from the one before, from within Load and Run; nil for nobody.
	Loaded func(Loaded)

	last     seen
	toldSlow bool
}

// Loaded is what came of a reading.
type Loaded struct {
	Endpoints int       // members of all pools; with problems those of before
	Problems  []Problem // why the membership was left as it was; nil if it was not
}

// seen is what a reading found, so that the same is not judged twice.
type seen struct {
	any    bool
	digest [sha256.Size]byte
	err    string
}

// Load reads the file and applies it. With problems, the membership stays as it is and DiscoveryRefused is noted. If
// nothing has changed since the last call, it does nothing and returns nil.
func (w *Watcher) Load() []Problem {
	data, err := w.read()
	now := seen{any: true, digest: sha256.Sum256(data)}
	if err != nil {
		now.err = err.Error()
	}
	if now == w.last {
		return nil
	}
	w.last = now
	var entries []Entry
	var problems []Problem
	switch {
	case err != nil:
		problems = []Problem{{File: w.File, Message: err.Error()}}
	case w.File != "":
		entries, problems = Parse(data, w.File)
	}
	if len(problems) == 0 {
		problems = Apply(w.Clock(), slices.Concat(w.Extra, entries), w.Pools)
	}
	if len(problems) > 0 && w.Sink != nil {
		detail := problems[0].Error()
		if n := len(problems) - 1; n > 0 {
			detail = fmt.Sprintf("%s (and %d more)", detail, n)
		}
		w.Sink.Note(reason.DiscoveryRefused, detail)
	}
	if w.Loaded != nil {
		l := Loaded{Problems: problems}
		for _, p := range w.Pools {
			l.Endpoints += len(p.Snapshot().Members)
		}
		w.Loaded(l)
	}
	return problems
}

// pipeTimeout is how long a file may take that is a pipe.
const pipeTimeout = time.Second

// read returns the file, one byte more than Parse accepts at most. It does not wait for who might write a pipe, since Run
// would then miss its end.
func (w *Watcher) read() ([]byte, error) {
	if w.File == "" {
		return nil, nil
	}
	f, err := os.OpenFile(w.File, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("this is a directory; name the file in it")
	}
	_ = f.SetReadDeadline(time.Now().Add(pipeTimeout)) // plain files know none, and need none
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, plain(err)
	}
	return data, nil
}

// plain leaves out of an error the path, which a Problem shows anyway.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// Run loads the file, and again whenever it changes, until ctx is done. It follows files that are replaced by renaming and
// mounted ConfigMaps, whose directory is swapped as a whole.
func (w *Watcher) Run(ctx context.Context) {
	if w.File == "" {
		w.Load()
		<-ctx.Done()
		return
	}
	var events chan fsnotify.Event
	var faults chan error
	follow := func() {}
	if notify, err := fsnotify.NewWatcher(); err == nil {
		defer notify.Close()
		events, faults = notify.Events, notify.Errors
		follow = func() {
			if err := watch(notify, w.File); err != nil {
				w.slow(err)
			}
		}
	} else {
		w.slow(err)
	}
	follow() // before the first reading, so that nothing is missed between
	w.Load()

	recheck := time.NewTicker(w.recheck())
	defer recheck.Stop()
	settled := time.NewTimer(0)
	settled.Stop()
	var restless time.Time // since when there have been events; zero: all is quiet
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			switch {
			case restless.IsZero():
				restless = time.Now()
				settled.Reset(w.settle())
			case time.Since(restless) < 9*w.settle():
				settled.Reset(w.settle())
			}
		case _, open := <-faults: // events were lost: look again
			if !open {
				faults = nil
				continue
			}
			settled.Reset(w.settle())
		case <-settled.C:
			restless = time.Time{}
			follow()
			w.Load()
		case <-recheck.C:
			follow()
			w.Load()
		}
	}
}

func (w *Watcher) slow(why error) {
	if w.Slow != nil && !w.toldSlow {
		w.toldSlow = true
		w.Slow(fmt.Errorf("%s: changes are seen every %v, not at once: %w", w.File, w.recheck(), why))
	}
}

func (w *Watcher) settle() time.Duration {
	if w.Settle > 0 {
		return w.Settle
	}
	return DefaultSettle
}

func (w *Watcher) recheck() time.Duration {
	if w.Recheck > 0 {
		return w.Recheck
	}
	return DefaultRecheck
}

// watch has notify tell of the directory of file, and of every directory that links lead to. Directories and not files,
// since a file that is replaced is another one.
func watch(notify *fsnotify.Watcher, file string) error {
	wanted := []string{}
	for range 40 { // as many links as Linux follows
		path, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir { // a link such as ..data
			wanted = append(wanted, filepath.Dir(dir), real)
		} else {
			wanted = append(wanted, dir)
		}
		target, err := os.Readlink(path)
		if err != nil {
			break // no link
		}
		if file = target; !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
	}
	for _, old := range notify.WatchList() {
		if !slices.Contains(wanted, old) {
			notify.Remove(old) // fails for what is gone, which is as good
		}
	}
	var first error
	for _, dir := range wanted {
		if err := notify.Add(dir); err != nil && first == nil {
			first = fmt.Errorf("watching %s: %w", dir, err)
		}
	}
	return first
}
