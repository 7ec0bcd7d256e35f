package children

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHz is the unit of times in /proc/PID/stat: 100 per second on every Linux architecture that Go knows (proc_pid_stat(5),
// sysconf(_SC_CLK_TCK)).
const userHz = 100

// Use returns the CPU time that a process has used, in steps of 10 ms, and its resident memory in bytes.
func Use(pid int) (cpu time.Duration, rss uint64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(string(raw), uint64(os.Getpagesize()))
}

// parseStat reads utime, stime (fields 14, 15) and rss (24) of proc_pid_stat(5). The second field, the command in
// parentheses, may itself hold blanks and parentheses.
func parseStat(stat string, pageBytes uint64) (cpu time.Duration, rss uint64, err error) {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest) // fields[0] is the third field
	if !ok || len(fields) < 22 {
		return 0, 0, fmt.Errorf("cannot read stat %q: fields are missing", stat)
	}
	var values [3]uint64
	for i, field := range []int{14, 15, 24} {
		if values[i], err = strconv.ParseUint(fields[field-3], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("cannot read stat field %d: %w", field, err)
		}
	}
	return time.Duration(values[0]+values[1]) * (time.Second / userHz), values[2] * pageBytes, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
