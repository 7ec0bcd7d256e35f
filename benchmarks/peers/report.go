package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// write prints the rows as a Markdown table, those with the same number of workers beneath each other.
func write(w io.Writer, rows []row, sizes []int) {
	for _, workers := range numbers(rows) {
		var heads, rules []string
		for _, size := range sizes {
			if measured(rows, workers, size) {
				heads = append(heads, fmt.Sprintf("CPU ms %s", short(size)))
				rules = append(rules, "--:")
			}
		}
		fmt.Fprintf(w, "%d model servers:\n\n| target | %s | requests/s | first byte p50 / p99 ms | headers to first byte ms | RSS MiB | upstream requests per request | failed |\n|---|%s|--:|--:|--:|--:|--:|--:|\n",
			workers, strings.Join(heads, " | "), strings.Join(rules, "|"))
		for _, r := range rows {
			if r.Workers == workers {
				writeRow(w, r, sizes)
			}
		}
		fmt.Fprintln(w)
	}
}

func writeRow(w io.Writer, r row, sizes []int) {
	if r.Missing != "" {
		fmt.Fprintf(w, "| %s | missing: %.200s |\n", r.Target, strings.ReplaceAll(r.Missing, "\n", " "))
		return
	}
	var cpu, rate, upstream []string
	first, gap, rss, failed := "", "", 0.0, 0
	for _, size := range sizes {
		c := r.Cells[size]
		if c == nil {
			continue
		}
		mid, least, most := median(c.CPU)
		text := fmt.Sprintf("%.3f [%.2f–%.2f]", mid, least, most)
		var split []string
		for _, name := range []string{"Envoy", "EPP"} {
			if v := c.Parts[name]; v != nil {
				m, _, _ := median(v)
				split = append(split, fmt.Sprintf("%.2f", m))
			}
		}
		if len(split) > 1 {
			text += " = " + strings.Join(split, " + ")
		}
		cpu = append(cpu, text)
		m, _, _ := median(c.Rate)
		rate = append(rate, fmt.Sprintf("%.0f", m))
		m, _, _ = median(c.Upstream)
		upstream = append(upstream, fmt.Sprintf("%.2f", m))
		if first == "" {
			a, _, _ := median(c.FirstP50)
			b, _, _ := median(c.FirstP99)
			g, _, _ := median(c.GapP50)
			first, gap = fmt.Sprintf("%.1f / %.0f", a, b), fmt.Sprintf("%.1f", g)
		}
		rss, failed = max(rss, c.RSS), failed+c.Failed
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.0f | %s | %d |\n", r.Target, strings.Join(cpu, " | "), strings.Join(rate, " / "), first, gap, rss, strings.Join(upstream, " / "), failed)
}

func numbers(rows []row) (list []int) {
	for _, r := range rows {
		list = append(list, r.Workers)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func measured(rows []row, workers, size int) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.Workers == workers && r.Cells[size] != nil })
}

func short(size int) string {
	if size >= 1000 {
		return fmt.Sprintf("%dk", size/1000)
	}
	return fmt.Sprint(size)
}

// verdicts compares the embedded gateway with the cheapest peer that routes by prefix, and its cost at many model servers with
// that at few.
func verdicts(w io.Writer, rows []row, sizes []int) {
	find := func(name string, workers int) *row {
		i := slices.IndexFunc(rows, func(r row) bool { return r.Target == name && r.Workers == workers && r.Missing == "" })
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	cost := func(r *row, size int) float64 {
		if r == nil || r.Cells[size] == nil {
			return 0
		}
		m, _, _ := median(r.Cells[size].CPU)
		return m
	}
	say := func(what string, got, base, limit float64) {
		if got == 0 || base == 0 {
			fmt.Fprintf(w, "- %s: not measured\n", what)
			return
		}
		verdict := "holds"
		if got/base > limit {
			verdict = "does not hold"
		}
		fmt.Fprintf(w, "- %s: %.2fx, wanted at most %.2fx: %s\n", what, got/base, limit, verdict)
	}
	all := numbers(rows)
	few, many := all[0], all[len(all)-1]
	for _, size := range sizes {
		say(fmt.Sprintf("CPU of the gateway against smg cache_aware, %s characters", short(size)), cost(find("Fairlead gateway", few), size), cost(find("smg cache_aware", few), size), 1)
	}
	if many > few {
		for _, size := range sizes {
			if cost(find("Fairlead gateway", many), size) > 0 {
				say(fmt.Sprintf("CPU of the gateway at %d against %d model servers, %s characters", many, few, short(size)), cost(find("Fairlead gateway", many), size), cost(find("Fairlead gateway", few), size), 1.3)
			}
		}
	}
	for _, size := range sizes {
		r := find("Envoy + Fairlead EPP", few)
		if n := find("Envoy + no-op picker", few); r != nil && n != nil && r.Cells[size] != nil && n.Cells[size] != nil {
			a, _, _ := median(r.Cells[size].Parts["EPP"])
			b, _, _ := median(n.Cells[size].Parts["EPP"])
			say(fmt.Sprintf("CPU of the picker behind Envoy against the no-op picker, %s characters", short(size)), a, b, 1.5)
		}
	}
}
