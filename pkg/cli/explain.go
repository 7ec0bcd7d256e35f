package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// maxDocument bounds what explain reads: a record of a thousand candidates has well under a megabyte.
const maxDocument = 64 << 20

func explainCommand(entries []plugins.Entry) *cobra.Command {
	var at, example string
	c := &cobra.Command{
		Use:   "explain ID|FILE",
		Short: "Show why a decision chose what it chose, computed again from its record alone",
		Long: "Explain takes the record of a decision, from a file (- is standard input) or by its ID from the admin port of a\n" +
			"running fairlead, runs its filters, scorers and picker again from the recorded facts, and prints candidates, raw and\n" +
			"weighted scores and the choice. It fails if a number differs from the recorded one in any bit.\n\n" +
			"The ID is the x-fairlead-decision-id of an answer. Facts are listed in the order of the candidates.",
		Example: "  fairlead explain --example cache-vs-queue\n" +
			"  fairlead explain 3df23c0e2105118163ec736260618a18 --at http://127.0.0.1:9090\n" +
			"  curl -s http://127.0.0.1:9090/debug/decisions/3df23c0e2105118163ec736260618a18 | fairlead explain -",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if example != "" {
				return explainExample(c.OutOrStdout(), entries, example)
			}
			if len(args) == 0 {
				return &usageError{errors.New("give a decision's ID or a file with its record, or --example; see fairlead explain --help")}
			}
			doc, err := readDocument(c.Context(), args[0], at)
			if err != nil {
				return err
			}
			return explain(printable{c.OutOrStdout()}, entries, doc)
		},
	}
	c.Flags().StringVar(&at, "at", "http://127.0.0.1:9090", "admin address of the running fairlead that keeps the record")
	c.Flags().StringVar(&example, "example", "", "explain a built-in example instead: "+strings.Join(exampleNames(), ", "))
	return c
}

// readDocument reads a decision from a file where one of this name exists, else by ID from the admin port.
func readDocument(ctx context.Context, what, at string) (exchange.Document, error) {
	var doc exchange.Document
	var in io.Reader
	if what == "-" {
		in = os.Stdin
	} else if f, err := os.Open(what); err == nil {
		defer f.Close()
		in = f
	} else {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		address := strings.TrimSuffix(at, "/") + "/debug/decisions/" + what
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return doc, fmt.Errorf("%q is no file, and %s is no address: %w", what, at, err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return doc, fmt.Errorf("%q is no file, and nobody answers at %s: %w; name the admin port with --at", what, at, plainURLError(err))
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return doc, fmt.Errorf("%s: %s; the record is not kept (any more): raise --record-ring, or look at %s/debug/decisions", address, res.Status, at)
		}
		in = res.Body
	}
	if err := json.NewDecoder(io.LimitReader(in, maxDocument)).Decode(&doc); err != nil {
		return doc, fmt.Errorf("reading the record %q: %w", what, err)
	}
	return doc, nil
}

// plainURLError leaves out of an error of net/http the method and the URL.
func plainURLError(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// explain replays a decision from its document and prints it. The error tells of numbers that came out differently.
func explain(w io.Writer, entries []plugins.Entry, doc exchange.Document) error {
	rec := doc.Record
	printHead(w, &rec)
	if len(rec.Profiles) == 0 {
		if rec.Refused != nil {
			return nil
		}
		return errors.New("the record keeps no columns: this decision was not sampled; run with --record-every 1")
	}
	file, problems := config.Load([]byte(doc.Configuration), "record", entries)
	if file == nil {
		return fmt.Errorf("the record's configuration does not load: %v", problems)
	}
	built, problems := file.Build()
	if built == nil {
		return fmt.Errorf("the record's configuration does not build: %v", problems)
	}
	index := built.PoolIndex(rec.Target.Pool)
	if index < 0 {
		return fmt.Errorf("the record's pool %q is not in its configuration", rec.Target.Pool)
	}
	var r plugins.Request
	r.Prepare(built, nil)
	r.ID, r.Number, r.Target, r.PoolIndex = rec.ID, rec.Number, rec.Target, index
	replayed, err := built.Plans[index].Replay(rec.Profiles, &r, rec.Seed, rec.Want)
	if err != nil {
		return err
	}
	compared, different := sameRuns(w, rec.Profiles, replayed)
	for i := range replayed {
		printProfile(w, &replayed[i])
	}
	fmt.Fprintf(w, "\nreplayed from the record alone: %d numbers compared, %d different\n", compared, different)
	if different > 0 {
		return fmt.Errorf("%d of %d numbers differ from the record", different, compared)
	}
	return nil
}

// sameRuns counts scores, totals and picks of the replay, and prints each that is not equal to the bit.
func sameRuns(w io.Writer, recorded, replayed []plugins.ProfileRecord) (compared, different int) {
	if len(recorded) != len(replayed) {
		fmt.Fprintf(w, "the record has %d profile runs, the replay %d\n", len(recorded), len(replayed))
		return 1, 1
	}
	differs := func(where string, a, b any) {
		different++
		fmt.Fprintf(w, "differs: %s: recorded %v, replayed %v\n", where, a, b)
	}
	floats := func(where string, a, b []float64) {
		if len(a) != len(b) {
			compared++
			differs(where, len(a), len(b))
			return
		}
		for i := range a {
			if compared++; math.Float64bits(a[i]) != math.Float64bits(b[i]) {
				differs(fmt.Sprintf("%s[%d]", where, i), a[i], b[i])
			}
		}
	}
	for i := range recorded {
		a, b := &recorded[i], &replayed[i]
		for _, name := range sorted(a.Raw) {
			floats(a.Profile+" "+name, a.Raw[name], b.Raw[name])
		}
		floats(a.Profile+" total", a.Totals, b.Totals)
		if compared++; !slices.Equal(a.Picked, b.Picked) {
			differs(a.Profile+" picked", a.Picked, b.Picked)
		}
		if compared++; !slices.Equal(a.Left, b.Left) {
			differs(a.Profile+" left by the filters", a.Left, b.Left)
		}
	}
	return compared, different
}

func printHead(w io.Writer, rec *exchange.Record) {
	fmt.Fprintf(w, "decision  %s  at %s\n", rec.ID, rec.At.Format(time.RFC3339Nano))
	fmt.Fprintf(w, "request   %s", rec.API)
	if rec.Target.Model != "" {
		fmt.Fprintf(w, ", model %q", rec.Target.Model)
	}
	if rec.Target.Pool != "" {
		fmt.Fprintf(w, ", pool %q", rec.Target.Pool)
	}
	if rec.PromptTokens != openai.Unknown {
		fmt.Fprintf(w, ", about %d prompt tokens", rec.PromptTokens)
	}
	fmt.Fprintln(w)
	if q := rec.Queue; q != nil {
		flow := ""
		if q.Flow != "" {
			flow = ", flow " + q.Flow
		}
		fmt.Fprintf(w, "waited    %v in band %d%s: %s\n", q.Waited.Round(time.Microsecond), q.Band, flow, q.Why)
	}
	if s := rec.Second; s != nil {
		fmt.Fprintf(w, "held      %v for what other replicas choose", s.Held.Round(time.Microsecond))
		if s.First != nil {
			fmt.Fprintf(w, "; decided anew, the first choice was %s (%s): %s", s.First.Name, s.First.Address, s.Met)
		}
		fmt.Fprintln(w)
	}
	if rec.Refused != nil {
		fmt.Fprintf(w, "refused   %d %s", rec.Refused.Status, rec.Refused.Code)
		if rec.Refused.Detail != "" {
			fmt.Fprintf(w, ": %s", rec.Refused.Detail)
		}
		if id, ok := reason.Parse(rec.Refused.Code); ok {
			fmt.Fprintf(w, "\n          %s; %s", id.Row().Means, id.Row().Remedy)
		}
		fmt.Fprintln(w)
	}
	for _, leg := range rec.Legs {
		for i, e := range leg.Endpoints {
			what := "fallback"
			if i == 0 {
				what = "chosen"
			}
			fmt.Fprintf(w, "%-9s %s (%s)\n", what, e.Name, e.Address)
		}
	}
	if o := rec.Outcome; o != nil {
		fmt.Fprintf(w, "outcome   ")
		if o.EndingCode != "" {
			fmt.Fprintf(w, "%s, ", o.EndingCode)
		}
		fmt.Fprintf(w, "served by %s, %v in all\n", orNobody(o.ServedNamed), o.Total.Round(time.Microsecond))
	}
	if len(rec.Reasons) > 0 {
		fmt.Fprintf(w, "reasons   %s\n", strings.Join(rec.Reasons, ", "))
	}
}

func orNobody(name string) string {
	if name == "" {
		return "nobody known"
	}
	return name
}

// printProfile prints one run as a table: a row per candidate, for each scorer raw × weight = weighted, and the total.
func printProfile(w io.Writer, run *plugins.ProfileRecord) {
	fmt.Fprintf(w, "\nprofile %q, %d candidates\n", run.Profile, len(run.Candidates))
	for _, filter := range sorted(run.Removed) {
		var names []string
		for _, i := range run.Removed[filter] {
			names = append(names, run.Candidates[i].Name)
		}
		fmt.Fprintf(w, "  %s removed %d: %s\n", filter, len(names), strings.Join(names, ", "))
	}
	scorers := sorted(run.Raw)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(scorers) > 0 {
		fmt.Fprintln(w, "  (raw score × weight = weighted score)")
	}
	fmt.Fprint(t, "  endpoint")
	for _, s := range scorers {
		fmt.Fprintf(t, "\t%s", s)
	}
	fmt.Fprint(t, "\ttotal\t\n")
	for row, i := range run.Left {
		fmt.Fprintf(t, "  %s", run.Candidates[i].Name)
		for _, s := range scorers {
			raw, weight := run.Raw[s][row], run.Weights[s]
			fmt.Fprintf(t, "\t%.4f × %g = %.4f", raw, weight, weight*raw)
		}
		mark := ""
		if at := slices.Index(run.Picked, i); at == 0 {
			mark = "◄ picked"
		} else if at > 0 {
			mark = fmt.Sprintf("fallback %d", at)
		}
		fmt.Fprintf(t, "\t%.4f\t%s\n", run.Totals[row], mark)
	}
	t.Flush()
	for _, name := range sorted(run.Explained) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for row, line := range run.Explained[name] {
			if line == "" {
				continue
			}
			fmt.Fprintf(t, "  %s\t%s:\t%s\n", run.Candidates[run.Left[row]].Name, name, line)
		}
		t.Flush()
	}
	for _, name := range sorted(run.Facts) {
		fmt.Fprintf(w, "  fact %s: %s\n", name, clipped(run.Facts[name]))
	}
	for _, name := range sorted(run.RequestFacts) {
		fmt.Fprintf(w, "  fact %s of the request: %s\n", name, clipped(run.RequestFacts[name]))
	}
}

// clipped keeps a line readable: columns of a large pool and hashes of a long prompt are in the record for whom wants all.
func clipped(v plugins.Values) string {
	const limit = 160
	raw, err := v.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	if len(raw) > limit {
		return string(raw[:limit]) + "…"
	}
	return string(raw)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
