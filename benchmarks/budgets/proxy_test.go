package main

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Tables of the same target are one, and merging them once more, as when a measurement is repeated, counts none of them twice.
func TestTablesAreMerged(t *testing.T) {
	var rows []peerRow
	if err := json.Unmarshal([]byte(`[
		{"target": "a", "workers": 8, "cells": {"200": {"cpu_ms_per_request": [1, 2], "failed": 1}, "100000": {"cpu_ms_per_request": [9]}}},
		{"target": "a", "workers": 64, "cells": {"200": {"cpu_ms_per_request": [5]}}},
		{"target": "a", "workers": 8, "cells": {"200": {"cpu_ms_per_request": [3], "failed": 1}}},
		{"target": "b", "workers": 8, "missing": "not here"}]`), &rows); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sum := merged(rows)
		got := fmt.Sprint(len(sum), sum[0].Cells[200].CPU, sum[0].Cells[200].Failed, sum[0].Cells[100_000].CPU, sum[1].Cells[200].CPU, sum[2].Missing)
		if want := "3 [1 2 3] 2 [9] [5]not here"; got != want {
			t.Errorf("merged to %s, want %s", got, want)
		}
	}
}
