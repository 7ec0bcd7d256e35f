//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// comparedMin is the least number of bodies that a whole run compares.
const comparedMin = 10_000

// tally counts the bodies of which both ends are known.
type tally struct{ compared, different atomic.Int64 }

var (
	bodies tally
	// binaries that the run uses.
	fairlead, envoy, python, sdks string
)

func TestMain(m *testing.M) {
	if err := findBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	n, different := bodies.compared.Load(), bodies.different.Load()
	fmt.Printf("%d compared, %d different\n", n, different)
	if whole := code == 0 && !filtered(); whole && (n < comparedMin || different > 0) {
		fmt.Printf("want at least %d compared, 0 different\n", comparedMin)
		code = 1
	}
	os.Exit(code)
}

// filtered reports whether only some of the tests ran.
func filtered() bool {
	run, skip := flag.Lookup("test.run"), flag.Lookup("test.skip")
	return run.Value.String() != "" || skip.Value.String() != ""
}

// findBinaries finds what the run needs, and builds or installs what is missing.
func findBinaries() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	lines := func(command string) ([]string, error) {
		cmd := exec.Command(filepath.Join(root, command))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
	}
	got, err := lines("scripts/install-envoy.sh")
	if err != nil {
		return err
	}
	envoy = got[0]
	if got, err = lines("scripts/install-sdks.sh"); err != nil {
		return err
	}
	python, sdks = got[0], got[1]
	if fairlead = os.Getenv("FAIRLEAD_BINARY"); fairlead != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "fairlead-e2e")
	if err != nil {
		return err
	}
	fairlead = filepath.Join(dir, "fairlead")
	build := exec.Command("go", "build", "-o", fairlead, "./cmd/fairlead")
	build.Dir, build.Stderr, build.Env = root, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the binary: %w", err)
	}
	return nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// same compares the hashes of one body at its two ends.
func (c *tally) same(t *testing.T, what, sent, arrived string) bool {
	t.Helper()
	c.compared.Add(1)
	if sent != arrived {
		c.different.Add(1)
		t.Errorf("%s: sent %.12s, arrived %.12s", what, sent, arrived)
		return false
	}
	return true
}

// sameBytes compares a body at its two ends, and says where they part.
func (c *tally) sameBytes(t *testing.T, what string, sent, arrived []byte) bool {
	t.Helper()
	c.compared.Add(1)
	if bytes.Equal(sent, arrived) {
		return true
	}
	c.different.Add(1)
	at := 0
	for at < min(len(sent), len(arrived)) && sent[at] == arrived[at] {
		at++
	}
	t.Errorf("%s: sent %d bytes, arrived %d; they part at %d", what, len(sent), len(arrived), at)
	return false
}
