package policy

import (
	"maps"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// moving tells the membership anew at an instant, with other labels of one endpoint.
type moving struct {
	*Production
	at      pool.Instant
	name    string
	labels  map[string]string // nil: nobody says
	members []pool.Endpoint
	moved   bool
}

func (m *moving) Members(now pool.Instant, all []pool.Endpoint) {
	m.members = all
	m.Production.Members(now, all)
}

func (m *moving) Observe(now pool.Instant, member int32, s pool.Sample) {
	if !m.moved && now >= m.at && m.labels != nil {
		m.moved = true
		for i := range m.members {
			if e := &m.members[i]; e.Name == m.name {
				e.Labels = maps.Clone(m.labels)
			}
		}
		m.Production.Members(now, m.members)
	}
	m.Production.Observe(now, member, s)
}

// A pod of four whole GPUs comes to stand on a slice of 0.45 of the compute and half of the bandwidth, whether its labels say so or
// not. A minute later what is believed of it is what it is, and its share is the slice's.
func TestAPodThatMovesToASlice(t *testing.T) {
	whole, err := engine.HardwareFor("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	slice, err := engine.HardwareFor("h100-mig-3g.40gb")
	if err != nil {
		t.Fatal(err)
	}
	profile, err := engine.ProfileFor(whole.Name, "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	const moves, factor = 60 * time.Second, 2.1
	for _, r := range []struct {
		name, class   string
		before, after map[string]string
	}{
		{"labelled", "h100-mig-3g.40gb", whole.Labels(), slice.Labels()},
		{"unlabelled", "unknown", nil, nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			last, d := listening(t)
			m := &moving{Production: d, at: pool.Instant(moves), name: "pod-2", labels: r.after}
			o := fleet.Options{Seed: 1, Decider: m, Source: requests(t, "blockTokens: 64\nduration: 180s\narrivals: {type: poisson, rate: 40}\nindependent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: {type: lognormal, mean: 150, stdDev: 80, min: 10, max: 800}}\n"),
				Signals: fleet.Signals{Every: pool.Instant(time.Second), Age: pool.Instant(50 * time.Millisecond)},
				Events:  []fleet.Event{{At: pool.Instant(moves), Kind: fleet.Slow, Pod: 2, Factor: factor}},
				Until:   pool.Instant(moves + time.Minute)}
			for range 4 {
				o.Pods = append(o.Pods, fleet.Pod{Profile: profile, Labels: r.before})
			}
			f, err := fleet.New(o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Run()
			if err != nil {
				t.Fatal(err)
			}
			l := last.loads[2]
			prefill, step := factor*profile.Step.PerPrefillToken.Seconds()*1000, factor*profile.Step.Base.Seconds()*1000
			class := last.classes[2].Class
			t.Logf("a minute after its move: class %s, prefill %.4f ms a token, is %.4f; step %.2f ms, is %.2f", class, l.PrefillMSPerToken, prefill, l.StepMS, step)
			if class != r.class {
				t.Errorf("its class is %s, want %s", class, r.class)
			}
			if off(l.PrefillMSPerToken, prefill) > 0.2 || off(l.StepMS, step) > 0.2 {
				t.Error("what is believed of it is off by more than a fifth")
			}
			all, its := 0, 0
			for i := range got.Outcomes {
				if out := &got.Outcomes[i]; out.Sent >= pool.Instant(moves+30*time.Second) {
					all++
					if out.Pod == 2 {
						its++
					}
				}
			}
			share := float64(its) / float64(all) * 4
			t.Logf("it gets %.2f of an equal share", share)
			if share > 0.7 || share < 0.05 {
				t.Error("want less than what a whole GPU gets, and some")
			}
		})
	}
}
