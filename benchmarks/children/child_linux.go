package children

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when this process is killed, so that no server outlives its benchmark.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
