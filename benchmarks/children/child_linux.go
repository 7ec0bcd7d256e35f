package children

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel end the child when this process is killed, so that no server outlives its benchmark.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// cpuTime reads the CPU clock of another process, to the nanosecond: /proc/PID/stat tells it in steps of 10 ms, which is a twentieth
// of what a round of a comparison takes. The clock's number is the complement of the process's with the kind of clock behind it, as
// clock_getcpuclockid(3) makes it.
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2 // the kind of clock: CPUCLOCK_SCHED, what the scheduler counted
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}
