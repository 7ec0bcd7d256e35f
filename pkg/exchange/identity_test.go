package exchange_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// subscriber finds a subscription.
type subscriber string

func (subscriber) Phase() plugins.Phase { return plugins.AtResolve }

func (s subscriber) Enter(r *plugins.Request) plugins.Verdict {
	r.Target.Subscription = string(s)
	return plugins.Verdict{}
}

// Control headers say who a request is before they are taken out.
func TestIdentity(t *testing.T) {
	const (
		flow, oldFlow   = "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"
		named, oldNamed = "x-llm-d-inference-objective", "x-gateway-inference-objective"
	)
	long := strings.Repeat("x", 254)
	for _, row := range []struct {
		name    string
		headers []string
		proved  subscriber
		want    string // fairness id and objective
		ignored int
	}{
		{"nothing is said", nil, "", `"" ""`, 0},
		{"both are", []string{flow, "tenant", named, "chat"}, "", `"tenant" "chat"`, 0},
		{"by the older names", []string{oldFlow, "tenant", oldNamed, "chat"}, "", `"tenant" "chat"`, 0},
		{"the newer name counts, before", []string{flow, "new", oldFlow, "old", named, "n", oldNamed, "o"}, "", `"new" "n"`, 0},
		{"the newer name counts, behind", []string{oldFlow, "old", flow, "new", oldNamed, "o", named, "n"}, "", `"new" "n"`, 0},
		{"of copies the first", []string{flow, "one", flow, "two"}, "", `"one" ""`, 0},
		{"an empty one says nothing", []string{flow, " ", oldFlow, "old"}, "", `"old" ""`, 0},
		{"at the bound", []string{flow, long[:253]}, "", fmt.Sprintf(`%q ""`, long[:253]), 0},
		{"too long", []string{flow, long, named, long}, "", `"" ""`, 2},
		{"a subscription comes before what is claimed", []string{flow, "tenant"}, "gold", `"gold" ""`, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, nil, nil, instance("subscriber", row.proved))
			var more openai.Headers
			for i := 0; i < len(row.headers); i += 2 {
				more = append(more, openai.Header{Name: row.headers[i], Value: row.headers[i+1]})
			}
			x := w.begin()
			x.Headers(w.now, post("/v1/chat/completions", more...), proxied, false)
			a := x.Body(w.now, []byte(chat), true)
			if a.Do != exchange.Forward {
				t.Fatalf("got %v, want forward", a.Do)
			}
			doc, _ := w.s.Decision(x.ID)
			if got := fmt.Sprintf("%q %q", doc.Record.FairnessID, doc.Record.Objective); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			w.wantNoted(reason.IdentityIgnored, row.ignored)
			for i := 0; i < len(row.headers); i += 2 {
				if !strings.Contains(strings.Join(a.Out.Remove, " "), row.headers[i]) {
					t.Errorf("%s goes on to the engine", row.headers[i])
				}
			}
		})
	}
}
