package calibration

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/fairlead/fairlead/simulator/engine"
)

// plays is how often each stage is played, with different arrivals; the mean counts.
const plays = 3

// Compared is one stage against the model. Errors are relative: 0.05 is 5 % too much.
type Compared struct {
	Stage
	Saturated bool

	// Formula is the formula's error in the time between two tokens. Engine is that of the engine that plays the stage: in
	// the time between two tokens, above saturation in the requests served per second. NaN where nothing could be played.
	Formula, Engine float64
}

// Compare holds p against each stage. Those of scraped pages are held against the formula alone, since a page does not tell
// how requests came.
func Compare(p engine.Profile, stages []Stage) ([]Compared, error) {
	over := markSaturated(stages)
	list := make([]Compared, len(stages))
	for i, s := range stages {
		c := Compared{Stage: s, Saturated: over[i], Formula: Formula(p, s)/s.ITL - 1, Engine: math.NaN()}
		if s.Offered > 0 {
			var itl, served float64
			for seed := range uint64(plays) {
				a, b, err := Play(p, s, seed)
				if err != nil {
					return nil, err
				}
				itl, served = itl+a/plays, served+b/plays
			}
			c.Engine = itl/s.ITL - 1
			if c.Saturated {
				c.Engine = served/s.Served - 1
			}
		}
		list[i] = c
	}
	return list, nil
}

// Report writes a table of stages and the mean and worst errors below and above saturation.
func Report(w io.Writer, list []Compared) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STAGE\tOFFERED/S\tSERVED/S\tTTFT MS\tITL MS\tFORMULA\tENGINE\tOF")
	for _, c := range list {
		what := "ITL"
		if c.Saturated {
			what = "capacity"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.2f\t%s\t%s\t%s\n", c.Name, c.Offered, c.Served, c.TTFT, c.ITL, percent(c.Formula), percent(c.Engine), what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, above := range []bool{false, true} {
		var n int
		var formula, worstFormula, played, worstPlayed float64
		for _, c := range list {
			if c.Saturated != above {
				continue
			}
			n++
			formula += math.Abs(c.Formula)
			worstFormula = max(worstFormula, math.Abs(c.Formula))
			played += math.Abs(c.Engine)
			worstPlayed = max(worstPlayed, math.Abs(c.Engine))
		}
		if n == 0 {
			continue
		}
		name, what := "below saturation", "ITL"
		if above {
			name, what = "above saturation", "capacity"
		}
		line := fmt.Sprintf("%s, %d stages: formula %.1f %% off on average, %.1f %% at worst", name, n, formula/float64(n)*100, worstFormula*100)
		if !math.IsNaN(played) {
			line += fmt.Sprintf("; engine's %s %.1f %% and %.1f %%", what, played/float64(n)*100, worstPlayed*100)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func percent(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", x*100)
}
