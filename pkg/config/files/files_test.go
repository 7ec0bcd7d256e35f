package files

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows := []struct{ name, path, want string }{
		{"a file", write("a.yaml", []byte("kind: X\n")), ""},
		{"an empty file is for the decoder to judge", write("empty.yaml", nil), ""},
		{"a file at the bound", write("full.yaml", bytes.Repeat([]byte("#"), config.MaxBytes)), ""},
		{"a file one byte beyond the bound", write("big.yaml", bytes.Repeat([]byte("#"), config.MaxBytes+1)), "longer than 1048576 bytes"},
		{"no such file", filepath.Join(dir, "absent.yaml"), "no such file; check the path and the mount"},
		{"a flag eaten as a path", "--grpc-port", "the value of the flag before it is missing"},
		{"an empty path", "", "is empty; name a file"},
		{"a directory", dir, "is a directory; name the file in it"},
		{"a path through a file", filepath.Join(dir, "a.yaml", "b.yaml"), "not a directory"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := Read(row.path)
			switch {
			case err == nil && row.want != "":
				t.Errorf("no error, want %q", row.want)
			case err != nil && (row.want == "" || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), row.path)):
				t.Errorf("got %v, want the path and %q", err, row.want)
			}
		})
	}
}

func TestReadWaitsForNobodyWhoMightWriteAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	if _, err := Read(pipe); err == nil || !strings.Contains(err.Error(), pipe+": is no plain file, and nobody writes to it") {
		t.Errorf("nobody writes: %v", err)
	}
	if data, err := Read("/dev/null"); err == nil {
		t.Errorf("a device: read %q", data)
	}
	// What a shell makes of <(command): the writer has it open, and ends.
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	go func() {
		_, _ = to.WriteString("kind: X\n")
		_ = to.Close()
	}()
	data, err := Read(fmt.Sprintf("/dev/fd/%d", from.Fd()))
	if err != nil || string(data) != "kind: X\n" {
		t.Errorf("of a command: read %q, %v", data, err)
	}
}

func TestWatchOutlivesAPipeInPlaceOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "one")
	calls := watched(t, path, "zero")
	next(t, calls)
	if err := syscall.Mkfifo(path+".pipe", 0o600); err != nil {
		t.Skip("no pipes here:", err)
	}
	for _, step := range []struct{ from, data, fails string }{{path + ".pipe", "", "is no plain file"}, {path + ".two", "two", ""}} {
		if step.data != "" {
			put(t, step.from, step.data)
		}
		if err := os.Rename(step.from, path); err != nil {
			t.Fatal(err)
		}
		c := next(t, calls)
		if c.data != step.data || (step.fails == "") != (c.err == nil) || c.err != nil && !strings.Contains(c.err.Error(), step.fails) {
			t.Errorf("told %+v, want %q, %q", c, step.data, step.fails)
		}
	}
}

// told is one call of a watch.
type told struct {
	data string
	err  error
}

// watched starts a watch and returns its calls; the watch ends with the test.
func watched(t *testing.T, path, last string) <-chan told {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	calls, ended := make(chan told, 16), make(chan struct{})
	go func() {
		defer close(ended)
		slow := func(err error) { t.Errorf("the watch is slow: %v", err) }
		Watch(ctx, path, []byte(last), slow, func(data []byte, err error) { calls <- told{string(data), err} })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return calls
}

func next(t *testing.T, calls <-chan told) told {
	t.Helper()
	select {
	case c := <-calls:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("the watch does not tell")
		return told{}
	}
}

func put(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchTellsOfContentThatChangesInPlaceByRenameAndAfterAbsence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "one")
	calls := watched(t, path, "zero")
	if c := next(t, calls); c.data != "one" {
		t.Errorf("a change before the watch: told %+v", c)
	}
	put(t, path, "two")
	if c := next(t, calls); c.data != "two" {
		t.Errorf("in place: told %+v", c)
	}
	put(t, path+".new", "three")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if c := next(t, calls); c.data != "three" {
		t.Errorf("by rename: told %+v", c)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c := next(t, calls); c.err == nil || !strings.Contains(c.err.Error(), "no such file") {
		t.Errorf("removed: told %+v", c)
	}
	put(t, path, "three") // the same content is news after an error
	if c := next(t, calls); c.data != "three" {
		t.Errorf("back again: told %+v", c)
	}
}

func TestWatchFollowsAConfigMapThatIsSwappedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(name, data string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name, "c.yaml"), data)
	}
	swap := func(to, from string) {
		t.Helper()
		link(to, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "one")
	link("..1", "..data")
	link(filepath.Join("..data", "c.yaml"), "c.yaml")
	calls := watched(t, filepath.Join(dir, "c.yaml"), "one")
	version("..2", "two")
	swap("..2", "..1")
	if c := next(t, calls); c.data != "two" {
		t.Errorf("first swap: told %+v", c)
	}
	version("..3", "three")
	swap("..3", "..2")
	if c := next(t, calls); c.data != "three" {
		t.Errorf("second swap: told %+v", c)
	}
}

func TestWatchFollowsALinkIntoAnotherDirectory(t *testing.T) {
	real, dir := filepath.Join(t.TempDir(), "real.yaml"), t.TempDir()
	put(t, real, "one")
	if err := os.Symlink(real, filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	calls := watched(t, filepath.Join(dir, "c.yaml"), "zero")
	next(t, calls)
	put(t, real, "two")
	if c := next(t, calls); c.data != "two" {
		t.Errorf("told %+v", c)
	}
}

func TestWatchIsSilentAboutWritesThatChangeNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	put(t, path, "one")
	calls := watched(t, path, "one")
	put(t, path, "one")
	put(t, filepath.Join(dir, "other.yaml"), "other")
	put(t, path, "two") // the first thing to be told
	if c := next(t, calls); c.data != "two" {
		t.Errorf("told %+v", c)
	}
}

func TestWatchWithoutNotificationsSaysSoAndTellsOfTheAbsence(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var slow error
	var told error
	Watch(ctx, filepath.Join(t.TempDir(), "absent", "c.yaml"), nil, func(err error) { slow = err }, func(_ []byte, err error) {
		told = err
		cancel()
	})
	if slow == nil || !strings.Contains(slow.Error(), "absent") || !strings.Contains(slow.Error(), "30s") {
		t.Errorf("slow heard %v", slow)
	}
	if told == nil || !strings.Contains(told.Error(), "no such file") {
		t.Errorf("told %v", told)
	}
}
