//go:build !linux

package children

import (
	"errors"
	"os/exec"
	"time"
)

// dieWithParent does nothing here: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

func cpuTime(int) (time.Duration, error) {
	return 0, errors.New("CPU of other processes can be read on Linux only")
}
