package scenario

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// expect compares what is with what a line says.
func (r *run) expect(command string, args []string) error {
	if command == "listed" {
		if len(r.last) == 0 {
			return fmt.Errorf("nothing was sent")
		}
		if got := r.last[len(r.last)-1].to; !slices.Equal(got, args) {
			return fmt.Errorf("got %s, want %s", strings.Join(got, " "), strings.Join(args, " "))
		}
		return nil
	}
	var got map[string]float64
	var err error
	switch command {
	case "picked":
		got, err = r.spread()
	case "refused":
		got = r.refusals()
	case "books":
		got = r.books()
		if len(args) == 1 && args[0] == "zero" {
			args = nil
		}
	case "cached":
		got, err = r.cached(args)
	case "totals":
		got, err = r.totals()
	case "noted":
		got, err = r.notes(args)
	default:
		return fmt.Errorf("there is no such command")
	}
	if err != nil {
		return err
	}
	want, err := counts(args, 1)
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("got %s, want %s", text(got), text(want))
	}
	return nil
}

// spread counts the primaries of the last burst.
func (r *run) spread() (map[string]float64, error) {
	if refused := r.refusals(); len(refused) > 0 {
		return nil, fmt.Errorf("requests were refused: %s", text(refused))
	}
	out := map[string]float64{}
	for _, s := range r.last {
		out[s.picked]++
	}
	return out, nil
}

func (r *run) refusals() map[string]float64 {
	out := map[string]float64{}
	for _, s := range r.last {
		if s.refused != "" {
			out[s.refused]++
		}
	}
	return out
}

// books counts the open bookings of each endpoint that has any.
func (r *run) books() map[string]float64 {
	out := map[string]float64{}
	r.pool.Decide(func(s *pool.Snapshot, b *pool.Books) {
		for _, id := range s.Members {
			if n := b.Requests[id]; n != 0 {
				out[s.Slots[id].Name] = float64(n)
			}
		}
	})
	if open := r.pool.Open(); len(out) == 0 && open != 0 {
		out["bookings of nobody"] = float64(open)
	}
	return out
}

// cached returns the tokens believed cached of those that the line names.
func (r *run) cached(args []string) (map[string]float64, error) {
	rec, err := r.decision()
	if err != nil {
		return nil, err
	}
	run := rec.Profiles[0]
	tokens, err := values(run.Facts[plugins.CachedTokens.Name])
	if err != nil || len(tokens) != len(run.Candidates) {
		return nil, fmt.Errorf("the profile does not read what is cached")
	}
	named, err := counts(args, 0)
	out := map[string]float64{}
	for i, c := range run.Candidates {
		if _, asked := named[path.Base(c.Name)]; asked {
			out[path.Base(c.Name)] = tokens[i]
		}
	}
	return out, err
}

func (r *run) totals() (map[string]float64, error) {
	rec, err := r.decision()
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i, at := range rec.Profiles[0].Left {
		out[path.Base(rec.Profiles[0].Candidates[at].Name)] = rec.Profiles[0].Totals[i]
	}
	return out, nil
}

// notes counts the reasons that the line names.
func (r *run) notes(args []string) (map[string]float64, error) {
	named, err := counts(args, 1)
	out := map[string]float64{}
	for code := range named {
		id, ok := reason.Parse(code)
		if !ok {
			return nil, fmt.Errorf("no reason has the code %q", code)
		}
		out[code] = float64(r.noted[id])
	}
	return out, err
}
