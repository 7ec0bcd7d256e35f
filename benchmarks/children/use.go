package children

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Use returns the CPU time that a process has used, its threads' and not its children's, and its resident memory in bytes.
func Use(pid int) (cpu time.Duration, rss uint64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	if rss, err = resident(string(raw), uint64(os.Getpagesize())); err != nil {
		return 0, 0, err
	}
	cpu, err = cpuTime(pid)
	return cpu, rss, err
}

// resident reads rss, field 24 of proc_pid_stat(5). The second field, the command in parentheses, may itself hold blanks and
// parentheses.
func resident(stat string, pageBytes uint64) (uint64, error) {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest) // fields[0] is the third field
	if !ok || len(fields) < 22 {
		return 0, fmt.Errorf("cannot read stat %q: fields are missing", stat)
	}
	pages, err := strconv.ParseUint(fields[24-3], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read stat field 24: %w", err)
	}
	return pages * pageBytes, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
