//go:build unix

package discovery

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeHoldsNobodyUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, file("a"))
	w := watching(t, path)
	w.expect(t, "a", "")

	pipe := path + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, path); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "a", "the file is empty; write endpoints: [] if there are none")

	silent, err := os.OpenFile(path, os.O_RDWR, 0) // a writer that writes nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	write(t, path+".other", "") // an event in the directory
	w.expect(t, "a", "cannot be read: i/o timeout")
}
