package sessions_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/pkg/sessions"
)

var prompt = openai.NewSummary()

func token(name string) string {
	return base64.StdEncoding.EncodeToString([]byte("default/" + name))
}

func header(name, value string) openai.Headers { return openai.Headers{{Name: name, Value: value}} }

func rig(t *testing.T, plugin any, more ...pluginstest.Part) *pluginstest.Rig {
	return pluginstest.NewRig(t, append([]pluginstest.Part{{Name: "session", Plugin: plugin, Weight: 1}}, more...), "a", "b", "c")
}

func byID(set func(*sessions.Scorer)) *sessions.Scorer {
	s := sessions.NewScorer()
	s.Strategy = "session_id"
	if set != nil {
		set(s)
	}
	return s
}

func TestTokens(t *testing.T) {
	for _, r := range []struct {
		name, token string
		scores      []float64
		left        int // of three, by the filter
	}{
		{"of an endpoint", token("b"), []float64{0, 1, 0}, 1},
		{"without one", "", []float64{0, 0, 0}, 3},
		{"of an endpoint that is gone", token("gone"), []float64{0, 0, 0}, 3},
		{"of another namespace", base64.StdEncoding.EncodeToString([]byte("other/b")), []float64{0, 0, 0}, 3},
		{"that is no base64", "!!!", []float64{0, 0, 0}, 3},
		{"that names no endpoint", base64.StdEncoding.EncodeToString([]byte("b")), []float64{0, 0, 0}, 3},
		{"that is an address", "169.254.169.254:80", []float64{0, 0, 0}, 3},
		{"that is longer than any name", strings.Repeat("QUFB", 200), []float64{0, 0, 0}, 3},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := rig(t, sessions.NewScorer()).SendWith(prompt, header("x-session-token", r.token))
			if got := s.Run.Raw["session"]; !slices.Equal(got, r.scores) {
				t.Errorf("scores: got %v, want %v", got, r.scores)
			}
			f := rig(t, sessions.NewFilter()).SendWith(prompt, header("x-session-token", r.token))
			if len(f.Run.Left) != r.left || r.left == 1 && f.Picked[0] != "b" {
				t.Errorf("filter: left %v, picked %v", f.Run.Left, f.Picked)
			}
		})
	}
}

func TestTheAnswerHasATokenOfWhoServes(t *testing.T) {
	for _, plugin := range []any{sessions.NewScorer(), sessions.NewFilter()} {
		g := rig(t, plugin)
		if got := g.SendWith(prompt, nil).Answer("a").Get("x-session-token"); got != token("a") {
			t.Errorf("%T: got %q, want that of a", plugin, got)
		}
		if got := g.SendWith(prompt, header("x-session-token", token("gone"))).Answer("c").Get("x-session-token"); got != token("c") {
			t.Errorf("%T: a fallback served: got %q, want that of c", plugin, got)
		}
	}
	s := sessions.NewScorer()
	s.EncodedEndpointHeaderConfig.Header = "X-Sticky"
	g := rig(t, s)
	if got := g.SendWith(prompt, header("x-sticky", token("c"))); got.Picked[0] != "c" || got.Answer("c").Get("x-sticky") != token("c") {
		t.Errorf("another header: picked %v", got.Picked)
	}
	s = sessions.NewScorer()
	s.ProfileName = "prefill"
	if got := rig(t, s).SendWith(prompt, nil).Answer("a"); len(got) != 0 {
		t.Errorf("no leg of the profile that counts: got %v", got)
	}
}

func TestSessionIDs(t *testing.T) {
	id := header("x-session-id", "one")
	bound := func(t *testing.T, g *pluginstest.Rig, id openai.Headers) string {
		t.Helper()
		s := g.SendWith(prompt, id)
		at := slices.Index(s.Run.Raw["session"], 1)
		name := ""
		if at >= 0 {
			_, name, _ = strings.Cut(s.Run.Candidates[s.Run.Left[at]].Name, "/")
		}
		return name
	}
	t.Run("a session stays where it was sent", func(t *testing.T) {
		g := rig(t, byID(nil))
		if got := bound(t, g, id); got != "" {
			t.Errorf("a new session prefers %s", got)
		}
		if got := bound(t, g, id); got != "a" {
			t.Errorf("got %q, want a", got)
		}
		if got := bound(t, g, header("x-session-id", "two")); got != "" {
			t.Errorf("another session prefers %s", got)
		}
		if got := bound(t, g, nil); got != "" {
			t.Errorf("no session prefers %s", got)
		}
	})
	t.Run("and moves to who served", func(t *testing.T) {
		g := rig(t, byID(nil))
		if set := g.SendWith(prompt, id).Answer("c"); len(set) != 0 {
			t.Errorf("the answer has %v", set)
		}
		if got := bound(t, g, id); got != "c" {
			t.Errorf("got %q, want c", got)
		}
	})
	t.Run("it is let go when nobody answered", func(t *testing.T) {
		g := rig(t, byID(nil))
		g.SendWith(prompt, id).End(reason.UpstreamUnreachable)
		if got := bound(t, g, id); got != "" {
			t.Errorf("got %q, want none", got)
		}
	})
	t.Run("but not when the client went away", func(t *testing.T) {
		g := rig(t, byID(nil))
		g.SendWith(prompt, id).End(reason.ClientAborted)
		if got := bound(t, g, id); got != "a" {
			t.Errorf("got %q, want a", got)
		}
	})
	t.Run("an endpoint that left and came back is another", func(t *testing.T) {
		g := rig(t, byID(nil))
		g.SendWith(prompt, id)
		g.Members("b", "c")
		if got := bound(t, g, header("x-session-id", "one")); got != "" {
			t.Errorf("while it is gone: got %q", got)
		}
		g.Members("a", "b", "c")
		if got := bound(t, g, id); got != "b" {
			t.Errorf("got %q, want b, which served meanwhile", got)
		}
	})
	t.Run("it is forgotten after its time", func(t *testing.T) {
		s := byID(nil)
		g := rig(t, s)
		g.SendWith(prompt, id)
		g.Now += pool.Instant(300 * time.Second)
		if got := bound(t, g, id); got != "a" {
			t.Errorf("at its time: got %q, want a", got)
		}
		g.Now += pool.Instant(300*time.Second + 1)
		if got := bound(t, g, id); got != "" {
			t.Errorf("after its time: got %q, want none", got)
		}
		if next := s.Tick(g.Now); next != g.Now+pool.Instant(10*time.Second) {
			t.Errorf("the next sweep is at %v", next)
		}
	})
	t.Run("beyond the bound the oldest is forgotten", func(t *testing.T) {
		g := rig(t, byID(func(s *sessions.Scorer) { s.SessionIDConfig.MaxSessions = 1 }))
		g.SendWith(prompt, id)
		g.SendWith(prompt, header("x-session-id", "two"))
		if got := bound(t, g, id); got != "" {
			t.Errorf("got %q, want none", got)
		}
	})
	t.Run("the filter insists", func(t *testing.T) {
		f := sessions.NewFilter()
		f.Strategy = "session_id"
		g := rig(t, f)
		g.SendWith(prompt, id).Answer("b")
		if s := g.SendWith(prompt, id); len(s.Run.Left) != 1 || s.Picked[0] != "b" {
			t.Errorf("left %v, picked %v", s.Run.Left, s.Picked)
		}
	})
}

func TestSources(t *testing.T) {
	cookies := &sessions.IDProducer{CookieName: "sid"}
	headers := &sessions.IDProducer{HeaderName: "X-Conversation"}
	for _, r := range []struct {
		name     string
		sources  []sessions.IDSource
		producer any
		first    openai.Headers
		second   openai.Headers
		sticks   bool
	}{
		{"another header", []sessions.IDSource{{Header: "X-Chat"}}, nil, header("x-chat", "1"), header("x-chat", "1"), true},
		{"the first source that has one", []sessions.IDSource{{Header: "x-none"}, {Header: "x-chat"}}, nil, header("x-chat", "1"), header("x-chat", "1"), true},
		{"a cookie", []sessions.IDSource{{Attribute: "SessionID"}}, cookies, header("cookie", "a=b; sid=77; c=d"), header("cookie", `sid="77"`), true},
		{"a cookie in its own header field", []sessions.IDSource{{Attribute: "SessionID"}}, cookies, header("cookie", "sid=77"), openai.Headers{{Name: "cookie", Value: "a=b"}, {Name: "cookie", Value: "sid=77"}}, true},
		{"another cookie", []sessions.IDSource{{Attribute: "SessionID"}}, cookies, header("cookie", "sid=77"), header("cookie", "sid=78"), false},
		{"a cookie whose name ends like it", []sessions.IDSource{{Attribute: "SessionID"}}, cookies, header("cookie", "sid=77"), header("cookie", "xsid=77"), false},
		{"a header by the producer", []sessions.IDSource{{Attribute: "session-id", Producer: "producer"}}, headers, header("x-conversation", "1"), header("x-conversation", "1"), true},
		{"an agent", []sessions.IDSource{{Header: "x-session-id"}, {Attribute: "agent-identity"}}, sessions.NewAgent(), header("x-claude-code-session-id", "1"), header("session_id", "1"), true},
		{"an agent's own header", []sessions.IDSource{{Attribute: "agent-identity"}}, &sessions.Agent{AdditionalSessionHeaders: []string{"X-Agent"}}, header("x-agent", "1"), header("x-agent", "1"), true},
		{"nobody says", []sessions.IDSource{{Attribute: "SessionID"}}, cookies, nil, nil, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			var more []pluginstest.Part
			if r.producer != nil {
				more = append(more, pluginstest.Part{Name: "producer", Plugin: r.producer})
			}
			g := rig(t, byID(func(s *sessions.Scorer) { s.SessionIDConfig.Sources = r.sources }), more...)
			g.SendWith(prompt, r.first)
			got := slices.Contains(g.SendWith(prompt, r.second).Run.Raw["session"], 1)
			if got != r.sticks {
				t.Errorf("it sticks: %v, want %v", got, r.sticks)
			}
		})
	}
}

func TestSessionsRefuse(t *testing.T) {
	sources := func(s ...sessions.IDSource) any {
		return byID(func(p *sessions.Scorer) { p.SessionIDConfig.Sources = s })
	}
	token := sessions.NewScorer()
	token.EncodedEndpointHeaderConfig.Header = "a b"
	for _, r := range []struct {
		name   string
		plugin any
		want   string
	}{
		{"a source of neither", sources(sessions.IDSource{}), "sessionIdConfig.sources[0] must have either header or attribute"},
		{"a source of both", sources(sessions.IDSource{Header: "a", Attribute: "SessionID"}), "must have either header or attribute"},
		{"the producer of a header", sources(sessions.IDSource{Header: "a", Producer: "p"}), `sessionIdConfig.sources[0].producer is "p"`},
		{"an attribute that nobody makes", sources(sessions.IDSource{Attribute: "SessionID"}), `needs the fact "session-id"`},
		{"no header's name", token, `encodedEndpointHeaderConfig.header is "a b"`},
		{"an id of neither", sessions.NewIDProducer(), "exactly one of headerName and cookieName"},
		{"an id of both", &sessions.IDProducer{HeaderName: "a", CookieName: "b"}, "exactly one of headerName and cookieName"},
		{"no cookie's name", &sessions.IDProducer{CookieName: "a=b"}, `cookieName is "a=b"`},
		{"an agent's bad header", &sessions.Agent{AdditionalSessionHeaders: []string{"ok", ""}}, "additionalSessionHeaders[1] is empty"},
	} {
		_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "it", Type: "it", Construct: func() (any, error) { return r.plugin, nil }}}}, nil)
		if err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: got %v\nwant %s", r.name, err, r.want)
		}
	}
}

// A producer of session ids alone does not make a request's body awaited.
func TestIDsNeedTheHeadersAlone(t *testing.T) {
	g := rig(t, byID(func(s *sessions.Scorer) { s.SessionIDConfig.Sources = []sessions.IDSource{{Attribute: "SessionID"}} }),
		pluginstest.Part{Name: "producer", Plugin: &sessions.IDProducer{CookieName: "sid"}})
	if g.Built.Reads != plugins.ReadsHeaders {
		t.Errorf("%v of a request is awaited", g.Built.Reads)
	}
}

func TestSessionsOutliveAConfigurationWithTheSameParameters(t *testing.T) {
	part := func(set func(*sessions.Scorer)) []pluginstest.Part {
		return []pluginstest.Part{{Name: "session", Plugin: byID(set), Weight: 1}}
	}
	g := pluginstest.NewRig(t, part(nil), "a", "b", "c")
	id := header("x-session-id", "one")
	g.SendWith(prompt, id).Answer("b")
	g.Replace(part(nil))
	if s := g.SendWith(prompt, id); s.Picked[0] != "b" {
		t.Errorf("after the replacement it went to %s", s.Picked[0])
	}
	g.Replace(part(func(s *sessions.Scorer) { s.SessionIDConfig.MaxSessions = 7 }))
	if s := g.SendWith(prompt, id); s.Picked[0] != "a" {
		t.Errorf("with another bound it went to %s", s.Picked[0])
	}
}
