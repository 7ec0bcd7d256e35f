package files

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long a file must rest before it is read: editors and tools write in several steps.
	quiet = 100 * time.Millisecond
	// patience bounds the wait for quiet, so that a file that is written all the time is read all the same.
	patience = 2 * time.Second
	// every is how often the file is looked at without any event: some network file systems tell of none.
	every = 30 * time.Second
)

// Watch calls changed with the new content each time that the content of the file at path becomes another than last, and
// with an error when it cannot be read any more, once until it can. It follows what Kubernetes does with a mounted
// ConfigMap: the path is a symbolic link into a directory that is itself a link, swapped as a whole. Calls come one after
// the other, on the goroutine of Watch. It returns when ctx ends. Where the system tells of no changes, slow hears why, once,
// and the file is looked at every 30 s; slow may be nil.
func Watch(ctx context.Context, path string, last []byte, slow func(error), changed func(data []byte, err error)) {
	f := &followed{path: path, dir: filepath.Dir(path), last: last, changed: changed}
	events, faults, err := f.notice()
	if err != nil && slow != nil {
		slow(fmt.Errorf("%s is looked at every %v, since the system does not tell of changes: %w", path, every, err))
	}
	defer f.close()
	f.follow()

	poll := time.NewTicker(every)
	defer poll.Stop()
	rest := time.NewTimer(quiet) // for a change between the caller's reading and the watch
	var since time.Time          // of the first event not yet looked at; zero: none
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			rest.Reset(min(quiet, max(patience-time.Since(since), 0)))
		case _, open := <-faults:
			if !open {
				faults = nil
				continue
			}
			rest.Reset(quiet) // events were lost
		case <-rest.C:
			since = time.Time{}
			f.follow()
			f.look()
		case <-poll.C:
			f.follow()
			f.look()
		}
	}
}

// followed is a file under watch.
type followed struct {
	path, dir string
	real      string            // the directory that the path leads to in the end, if it is another than dir
	watcher   *fsnotify.Watcher // nil: the system tells of no changes
	last      []byte
	failed    string // the error last told
	changed   func([]byte, error)
}

// notice has the system tell of changes in the directory of the file.
func (f *followed) notice() (<-chan fsnotify.Event, <-chan error, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, err
	}
	if err := w.Add(f.dir); err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	f.watcher = w
	return w.Events, w.Errors, nil
}

func (f *followed) close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
}

// follow watches the directory where the content really lies too: a file behind a link is changed there. A directory that
// is gone has lost its watch by itself.
func (f *followed) follow() {
	target, err := filepath.EvalSymlinks(f.path)
	if err != nil || f.watcher == nil {
		return // look reports it
	}
	real := filepath.Dir(target)
	if real == f.real || real == f.dir {
		return
	}
	if f.real != "" {
		_ = f.watcher.Remove(f.real)
	}
	if f.watcher.Add(real) == nil {
		f.real = real
	}
}

// look reads the file and tells of a difference.
func (f *followed) look() {
	data, err := Read(f.path)
	if err != nil {
		if f.failed != err.Error() {
			f.failed = err.Error()
			f.changed(nil, err)
		}
		return
	}
	if f.failed == "" && bytes.Equal(data, f.last) {
		return
	}
	f.failed, f.last = "", data
	f.changed(data, nil)
}
