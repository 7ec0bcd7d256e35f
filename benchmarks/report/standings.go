package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// Standings writes how a policy stands beside the rules of other routers, for a terminal: what it loses, what it gains, and in
// each scenario the figures of both that tell why.
func Standings(w io.Writer, s *compare.Standings) error {
	own := s.Policies[0]
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "scenario\t%s\tbest rule\t\tgoodput\tp99 TTFT\tmissed TTFT\tmissed ITL\thit rate\timbalance\t\n", own)
	for i := range s.Rows {
		r := &s.Rows[i]
		st, ok := r.Standing(own)
		if !ok {
			continue
		}
		both := func(f func(bench.Number) string, of func(*compare.Score) bench.Number) string {
			return f(of(st.Own)) + " / " + f(of(st.Best))
		}
		ratio := func(n bench.Number) string { return fmt.Sprintf("%.2f", float64(n)) }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Scenario,
			percent(bench.Number(st.Own.MeanGoodput())), percent(bench.Number(st.Best.MeanGoodput())), strings.TrimPrefix(st.Best.Policy, compare.Peer),
			signed(st.Goodput), latency(&st),
			both(percent, func(s *compare.Score) bench.Number { return s.MissedTTFT }), both(percent, func(s *compare.Score) bench.Number { return s.MissedITL }),
			both(percent, func(s *compare.Score) bench.Number { return s.HitRate }), both(ratio, func(s *compare.Score) bench.Number { return s.Imbalance }), lost(&st))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", sentence(s))
	return err
}

func lost(s *compare.Standing) string {
	switch {
	case s.Lost() && s.Certain():
		return "LOST"
	case s.Lost():
		return "LOST, within chance"
	case s.Goodput.Mean >= 0.2:
		return "won by a fifth"
	}
	return ""
}

// signed prints a relative difference with its interval where it has bounds.
func signed(i compare.Interval) string {
	if math.IsNaN(i.Mean) {
		return "-"
	}
	text := fmt.Sprintf("%+.1f %%", 100*i.Mean)
	if !math.IsInf(i.Low, 0) {
		text += fmt.Sprintf(" (%+.1f to %+.1f)", 100*i.Low, 100*i.High)
	}
	return text
}

func latency(s *compare.Standing) string {
	if s.TTFT == nil {
		return "past saturation"
	}
	return fmt.Sprintf("%s / %s", duration(bench.Number(s.Own.MeanTTFT())), duration(bench.Number(s.Best.MeanTTFT())))
}

// sentence sums the standings up.
func sentence(s *compare.Standings) string {
	own := s.Policies[0]
	var lost, chance []string
	n, worst, best := 0, math.Inf(1), math.Inf(-1)
	worstAt, bestAt := "", ""
	for i := range s.Rows {
		st, ok := s.Rows[i].Standing(own)
		if !ok {
			continue
		}
		n++
		if st.Lost() {
			lost = append(lost, s.Rows[i].Scenario)
			if !st.Certain() {
				chance = append(chance, s.Rows[i].Scenario)
			}
		}
		if st.Goodput.Mean < worst {
			worst, worstAt = st.Goodput.Mean, s.Rows[i].Scenario
		}
		if st.Goodput.Mean > best {
			best, bestAt = st.Goodput.Mean, s.Rows[i].Scenario
		}
	}
	if n == 0 {
		return "Nothing to compare: no scenario has both " + own + " and a rule of another router."
	}
	text := fmt.Sprintf("Of %d scenarios, `%s` has more than %.0f %% less goodput than the best rule of another router in %d", n, own, 100*compare.MostLost, len(lost))
	if len(lost) > 0 {
		text += " (" + strings.Join(lost, ", ") + ")"
	}
	if len(chance) > 0 {
		text += fmt.Sprintf(", within chance in %d of them (%s)", len(chance), strings.Join(chance, ", "))
	}
	return text + fmt.Sprintf("; at worst %+.1f %% (%s), at best %+.1f %% (%s).", 100*worst, worstAt, 100*best, bestAt)
}

// StandingsJSON writes all of it, a line for each score.
func StandingsJSON(w io.Writer, s *compare.Standings) error {
	var b bytes.Buffer
	head := *s
	head.Rows = nil
	text, err := json.Marshal(&head)
	if err != nil {
		return err
	}
	b.Write(bytes.TrimSuffix(text, []byte("null}")))
	b.WriteString("[")
	for i := range s.Rows {
		r := s.Rows[i]
		scores := r.Scores
		r.Scores = nil
		if text, err = json.Marshal(&r); err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n")
		b.Write(bytes.TrimSuffix(text, []byte("null}")))
		b.WriteString("[")
		for k := range scores {
			if text, err = json.Marshal(&scores[k]); err != nil {
				return err
			}
			if k > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n ")
			b.Write(text)
		}
		b.WriteString("]}")
	}
	b.WriteString("]}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// ReadStandings reads what StandingsJSON wrote.
func ReadStandings(path string) (*compare.Standings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &compare.Standings{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: no matrix: %w", path, err)
	}
	if len(s.Policies) == 0 || len(s.Rows) == 0 {
		return nil, fmt.Errorf("%s: no matrix: it has %d policies and %d scenarios", path, len(s.Policies), len(s.Rows))
	}
	return s, nil
}

// StandingsMarkdown writes the same as tables: the policy beside the best rule, and the goodput of all. The best of each scenario
// is bold, and what is lost is called so.
func StandingsMarkdown(w io.Writer, s *compare.Standings) error {
	own := s.Policies[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d seeds, %s, commit %s.\n\n", sentence(s), s.Seeds, s.Date, s.Commit)
	fmt.Fprintf(&b, "| scenario | goodput, `%s` | best rule of another router | difference (95 %% interval) | p99 TTFT, both | |\n|---|---|---|---|---|---|\n", own)
	for i := range s.Rows {
		r := &s.Rows[i]
		st, ok := r.Standing(own)
		if !ok {
			continue
		}
		verdict := ""
		switch {
		case st.Lost() && st.Certain():
			verdict = "**lost**"
		case st.Lost():
			verdict = "lost, within chance"
		}
		fmt.Fprintf(&b, "| %s | %s | %s, `%s` | %s | %s | %s |\n", r.Scenario, percent(bench.Number(st.Own.MeanGoodput())),
			percent(bench.Number(st.Best.MeanGoodput())), st.Best.Policy, signed(st.Goodput), latency(&st), verdict)
	}
	fmt.Fprintf(&b, "\nGoodput of all, in percent of what was offered; ° past saturation.\n\n| scenario |")
	for _, p := range s.Policies {
		fmt.Fprintf(&b, " %s |", strings.TrimPrefix(p, compare.Peer))
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(s.Policies)))
	for i := range s.Rows {
		r := &s.Rows[i]
		top := 0.0
		for k := range r.Scores {
			top = max(top, r.Scores[k].MeanGoodput())
		}
		fmt.Fprintf(&b, "| %s |", r.Scenario)
		for _, p := range s.Policies {
			score := r.Score(p)
			if score == nil {
				b.WriteString(" |")
				continue
			}
			text := fmt.Sprintf("%.1f", 100*score.MeanGoodput())
			if score.MeanGoodput() > top-0.0005 {
				text = "**" + text + "**"
			}
			if score.Saturated {
				text += "°"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
