package discovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) Note(id reason.ID, detail string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, id.String()+": "+detail)
}

// file returns an endpoint file with these endpoints.
func file(names ...string) string {
	s := "endpoints:\n"
	for _, n := range names {
		s += fmt.Sprintf("- {name: %s, address: 10.0.0.%d, port: 8000}\n", n, n[0])
	}
	return s
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func memberNames(p *pool.Pool) string {
	s := p.Snapshot()
	var names []string
	for _, id := range s.Members {
		names = append(names, s.Slots[id].Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// watched is a watcher that runs until the test ends.
type watched struct {
	*Watcher
	pool  *pool.Pool
	notes notes
	told  chan Loaded
}

func watching(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{pool: pool.New("default", nil), told: make(chan Loaded, 100)}
	w.Watcher = &Watcher{
		File: path, Pools: []*pool.Pool{w.pool}, Clock: func() pool.Instant { return 1 }, Sink: &w.notes,
		Settle: 20 * time.Millisecond, Recheck: time.Hour, Loaded: func(l Loaded) { w.told <- l },
		Slow: func(err error) { t.Error(err) },
	}
	run(t, w.Watcher)
	return w
}

func run(t *testing.T, w *Watcher) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// expect waits for a reading after which the pool has these members.
func (w *watched) expect(t *testing.T, members string, problem string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case l := <-w.told:
			got := memberNames(w.pool)
			var p string
			if len(l.Problems) > 0 {
				p = l.Problems[0].Message
			}
			if got == members && p == problem {
				return
			}
			t.Logf("read: members %q, problem %q", got, p) // a state on the way: other files may be written half
		case <-deadline:
			t.Fatalf("never had members %q with problem %q; now %q", members, problem, memberNames(w.pool))
		}
	}
}

func TestWatcherSeesWritesInPlaceRenamesAndFilesThatReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, file("a"))
	w := watching(t, path)
	w.expect(t, "a", "")
	ref := w.pool.Snapshot().Slots[0].Ref

	write(t, path, file("a", "b"))
	w.expect(t, "a b", "")
	for _, names := range [][]string{{"a", "c"}, {"a"}, {"d", "a"}} { // each time another inode
		write(t, path+".new", file(names...))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		w.expect(t, strings.Join(names, " "), "")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "a d", "cannot be read: no such file or directory")
	write(t, path, file("a"))
	w.expect(t, "a", "")
	if s := w.pool.Snapshot(); s.Slots[0].Ref != ref {
		t.Errorf("the endpoint that was always listed went from %v to %v", ref, s.Slots[0].Ref)
	}
}

func TestWatcherKeepsTheMembershipWhenTheFileIsBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, file("a", "b"))
	w := watching(t, path)
	w.expect(t, "a b", "")
	for _, row := range []struct{ data, problem string }{
		{"", "the file is empty; write endpoints: [] if there are none"},
		{"endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n- {}\n- {}\n", "name is missing"},
		{"endpoints:\n- {name: a, address: 10.0.0.1, port: 8000, pool: other}\n", `endpoint default/a: there is no pool "other"; known are "default"`},
		{"\x00", "control characters are not allowed"},
	} {
		write(t, path+".new", row.data)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		w.expect(t, "a b", row.problem)
	}
	write(t, path+".new", "endpoints: []")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "", "")
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	if len(w.notes.list) != 4 || w.notes.list[1] != "discovery_refused: "+path+":3:3: name is missing (and 1 more)" {
		t.Errorf("noted %q", w.notes.list)
	}
}

func TestWatcherFollowsAConfigMap(t *testing.T) {
	dir := t.TempDir()
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(name string, endpoints ...string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "endpoints.yaml"), file(endpoints...))
	}
	version("..1", "a")
	link("..1", "..data")
	link("..data/endpoints.yaml", "endpoints.yaml")
	w := watching(t, filepath.Join(dir, "endpoints.yaml"))
	w.expect(t, "a", "")
	for i, members := range []string{"a b", "b", "b c d"} { // as the kubelet does it
		old, next := fmt.Sprintf("..%d", i+1), fmt.Sprintf("..%d", i+2)
		version(next, strings.Fields(members)...)
		link(next, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
		w.expect(t, members, "")
	}
}

func TestWatcherFollowsALinkIntoAnotherDirectory(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real.yaml")
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, real, file("a"))
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	w := watching(t, path)
	w.expect(t, "a", "")
	write(t, real, file("b"))
	w.expect(t, "b", "")
}

func TestWatcherReadsAgainWithoutBeingTold(t *testing.T) {
	// The directory appears later, and nobody watches where it will be: only Recheck can find it.
	dir := filepath.Join(t.TempDir(), "later")
	p, told := pool.New("default", nil), make(chan Loaded, 10)
	slow := make(chan error, 10)
	run(t, &Watcher{
		File: filepath.Join(dir, "endpoints.yaml"), Pools: []*pool.Pool{p}, Clock: func() pool.Instant { return 1 },
		Recheck: 20 * time.Millisecond, Loaded: func(l Loaded) { told <- l }, Slow: func(err error) { slow <- err },
	})
	if l := <-told; len(l.Problems) != 1 {
		t.Fatalf("%+v", l)
	}
	if err := <-slow; !strings.Contains(err.Error(), "changes are seen every 20ms") {
		t.Error(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "endpoints.yaml.new"), file("a"))
	if err := os.Rename(filepath.Join(dir, "endpoints.yaml.new"), filepath.Join(dir, "endpoints.yaml")); err != nil {
		t.Fatal(err)
	}
	select {
	case l := <-told:
		if len(l.Problems) > 0 || memberNames(p) != "a" || l.Endpoints != 1 {
			t.Errorf("%+v, members %q", l, memberNames(p))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("never read")
	}
}

func TestWatcherIsSilentWhenNothingChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, file("a"))
	w := watching(t, path)
	w.expect(t, "a", "")
	version := w.pool.Snapshot().Version
	write(t, filepath.Join(filepath.Dir(path), "other"), "x")
	write(t, path+".new", file("a"))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	write(t, path+".new", "# another text\n"+file("a"))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if l := <-w.told; len(l.Problems) > 0 { // the first thing that is told is of the other text
		t.Errorf("%+v", l)
	}
	if s := w.pool.Snapshot(); s.Version != version {
		t.Errorf("the same membership made snapshot %d out of %d", s.Version, version)
	}
}

func TestLoadTakesWhatWasGivenBesides(t *testing.T) {
	extra, err := FromURL("http://10.0.0.9:8000")
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New("default", nil)
	w := &Watcher{Extra: []Entry{extra}, Pools: []*pool.Pool{p}, Clock: func() pool.Instant { return 1 }}
	if problems := w.Load(); len(problems) > 0 || memberNames(p) != "10.0.0.9:8000" {
		t.Errorf("without a file: %v, members %q", problems, memberNames(p))
	}

	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, "endpoints:\n- {name: a, address: 10.0.0.9, port: 8000}\n")
	w = &Watcher{File: path, Extra: []Entry{extra}, Pools: []*pool.Pool{p}, Clock: w.Clock}
	problems := w.Load()
	if want := path + ":2:3: address 10.0.0.9:8000 of endpoint default/a is that of default/10.0.0.9:8000 at the command line; remove one of the two"; len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	if problems := w.Load(); problems != nil {
		t.Errorf("the same again: %v", problems)
	}
	w = &Watcher{File: filepath.Dir(path), Pools: []*pool.Pool{p}, Clock: w.Clock}
	if problems := w.Load(); len(problems) != 1 || problems[0].Message != "this is a directory; name the file in it" {
		t.Errorf("a directory: %v", problems)
	}
}
