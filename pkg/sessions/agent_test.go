package sessions_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/pkg/sessions"
)

func TestAnAgentsSessionIsAFlow(t *testing.T) {
	for _, r := range []struct {
		name    string
		headers openai.Headers
		given   string // by the header that names a flow
		want    string
		ignored bool
	}{
		{"the first of the known headers", openai.Headers{{Name: "session_id", Value: "two"}, {Name: "x-claude-code-session-id", Value: "one"}}, "", "one", false},
		{"a header of the configuration's own", openai.Headers{{Name: "x-agent", Value: "three"}}, "", "three", false},
		{"a flow that was named stays", openai.Headers{{Name: "session-id", Value: "one"}}, "team", "team", false},
		{"no session", openai.Headers{{Name: "user-agent", Value: "curl"}}, "", "", false},
		{"as long as a flow's name may be", openai.Headers{{Name: "session-id", Value: strings.Repeat("a", 253)}}, "", strings.Repeat("a", 253), false},
		{"longer", openai.Headers{{Name: "session-id", Value: strings.Repeat("a", 254)}}, "", "", true},
	} {
		t.Run(r.name, func(t *testing.T) {
			a := sessions.NewAgent()
			a.AdditionalSessionHeaders = []string{"X-Agent"}
			built, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "agent", Type: "agent-identity", Construct: func() (any, error) { return a, nil }}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var q plugins.Request
			q.Prepare(built, nil)
			q.Headers, q.FairnessID = r.headers, r.given
			if v := built.Enter(reason.Discard{}, plugins.AtHeaders, 0, &q); !v.Passes() {
				t.Fatalf("got %+v", v)
			}
			if q.FairnessID != r.want {
				t.Errorf("flow %q, want %q", q.FairnessID, r.want)
			}
			notes := q.TakeNotes()
			if ignored := len(notes) == 1 && notes[0].ID == reason.IdentityIgnored; ignored != r.ignored {
				t.Errorf("noted %v", notes)
			}
		})
	}
}
