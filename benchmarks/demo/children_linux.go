package demo

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the child when we are killed without a chance to do it.
func endWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
