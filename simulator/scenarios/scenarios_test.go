package scenarios_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/scenarios"
)

const good = `name: s
fleet: [{pods: 2, hardware: h100-sxm, model: llama-3.1-8b}]
workload: {requests: 1}
`

// Every scenario that ships is read, by its name and, where it has one, by its number.
func TestAllAreRead(t *testing.T) {
	for _, name := range scenarios.Names() {
		s, err := scenarios.Get(name)
		if err != nil || s.Name != name || s.Title == "" || s.Shows == "" {
			t.Errorf("%s: %v; its name is %q, its title %q, it shows %q", name, err, s.Name, s.Title, s.Shows)
		}
	}
	if s, err := scenarios.Get("S15"); err != nil || s.Name != "s15-failures" {
		t.Errorf("S15: %v, %v", s, err)
	}
}

func TestSignals(t *testing.T) {
	s, err := scenarios.Parse([]byte(good + "signals: {age: 50ms, eventDelay: 20ms, eventJitter: 10ms, eventLoss: 0.5, tokenError: 0.1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := scenarios.Signals{
		Every: time.Second, Age: 50 * time.Millisecond, EventDelay: 20 * time.Millisecond, EventJitter: 10 * time.Millisecond, EventLoss: 0.5, TokenError: 0.1,
	}
	if s.Signals != want {
		t.Errorf("%+v, want %+v", s.Signals, want)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no name", strings.Replace(good, "name: s", "title: t", 1), "no name"},
		{"no fleet", "name: s\nworkload: {requests: 1}\n", "at least one group"},
		{"no workload", "name: s\nfleet: [{pods: 1}]\n", "no workload"},
		{"no pods", strings.Replace(good, "pods: 2", "pods: 0", 1), "at least 1"},
		{"an unknown member, with its line", good + "sinals: {}\n", "line 4"},
		{"a negative period", good + "signals: {every: -1s}\n", "negative"},
		{"a negative delay of cache events", good + "signals: {eventDelay: -1s}\n", "neither eventDelay nor eventJitter"},
		{"a negative jitter of cache events", good + "signals: {eventJitter: -1s}\n", "neither eventDelay nor eventJitter"},
		{"more lost than there is", good + "signals: {eventLoss: 1.5}\n", "eventLoss is 1.5"},
		{"no role", strings.Replace(good, "pods: 2", "pods: 2, role: both", 1), "prefill, decode or none"},
		{"a negative factor", strings.Replace(good, "pods: 2", "pods: 2, stepFactor: -1", 1), "stepFactor"},
		{"a negative transfer", good + "transfer: {setup: -1s}\n", "transfer"},
	} {
		if _, err := scenarios.Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	if _, err := scenarios.Get("s99"); err == nil || !strings.Contains(err.Error(), "s15-failures") {
		t.Errorf("%v; want the names that there are", err)
	}
}
