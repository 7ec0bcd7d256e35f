package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// use returns what a process and all processes under it have used. A process that ends between two readings takes its part
// with it; the targets' processes live as long as the comparison.
func use(root int) (cpu time.Duration, rss uint64, err error) {
	parents, err := parentsOf()
	if err != nil {
		return 0, 0, err
	}
	for pid := range parents {
		if !under(parents, pid, root) {
			continue
		}
		c, r, err := children.Use(pid)
		if err != nil {
			if pid == root {
				return 0, 0, err
			}
			continue // it ended meanwhile
		}
		cpu, rss = cpu+c, rss+r
	}
	return cpu, rss, nil
}

func under(parents map[int]int, pid, root int) bool {
	for ; pid > 1; pid = parents[pid] {
		if pid == root {
			return true
		}
	}
	return false
}

// parentsOf reads the parent of every process: field 4 of /proc/PID/stat, proc_pid_stat(5).
func parentsOf() (map[int]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("CPU of other processes cannot be read here: %w", err)
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 {
			if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
				return nil, err
			}
		}
	}
	return parents, nil
}
