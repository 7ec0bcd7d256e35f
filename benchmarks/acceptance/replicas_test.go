//go:build acceptance

package acceptance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
)

// Four schedulers that tell each other what they book, which takes a millisecond to arrive (over a connection half of it arrives within
// 0.2 ms and 99 % within 1.4 ms), and that know of the engines what was true five seconds ago, do nearly as well as one that decides
// alone and sees the engines as they are. What they do where they cannot hear each other is told beside it.
func TestReplicas(t *testing.T) {
	worst := 0.0
	var figures []string
	for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s8", "s9", "h1", "h2"} {
		seeds := 8
		if name == "s9" {
			seeds = 32 // its tail differs severalfold from seed to seed
		}
		s := acceptance.Scenario(t, name)
		tail := func(age time.Duration, policy string) float64 {
			p := acceptance.Play(t, s.WithSignals(time.Second, age), 401, seeds, acceptance.Policies(t, policy)...)[0]
			return acceptance.Mean(acceptance.Of(p.Figures(), acceptance.TailTTFT))
		}
		alone := tail(0, "default")
		told, silent := tail(5*time.Second, "replicas=4@1ms:default"), tail(5*time.Second, "replicas=4:default")
		worst = max(worst, told/alone)
		short, _, _ := strings.Cut(s.Name, "-")
		figures = append(figures, fmt.Sprintf("%s %.2fx (%.3f s, alone %.3f s; silent %.1fx)", short, told/alone, told, alone, silent/alone))
	}
	acceptance.Say(t, acceptance.Is(worst <= 1.2), "p99 TTFT: %s", strings.Join(figures, ", "))
}
