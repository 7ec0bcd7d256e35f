//go:build acceptance

package acceptance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
)

// Four schedulers that know of their own requests alone, and of the engines what was true five seconds ago, do nearly as well as one
// that knows of all and sees the engines as they are.
func TestReplicas(t *testing.T) {
	const seeds = 8
	worst := 0.0
	var figures []string
	for _, name := range []string{"s1", "s3", "s5", "s6"} {
		s := acceptance.Scenario(t, name)
		fresh := acceptance.Play(t, s.WithSignals(time.Second, 0), 401, seeds, acceptance.Policies(t, "default")...)[0]
		old := acceptance.Play(t, s.WithSignals(time.Second, 5*time.Second), 401, seeds, acceptance.Policies(t, "replicas=4:default")...)[0]
		a, b := acceptance.Mean(acceptance.Of(fresh.Figures(), acceptance.TailTTFT)), acceptance.Mean(acceptance.Of(old.Figures(), acceptance.TailTTFT))
		worst = max(worst, b/a)
		figures = append(figures, fmt.Sprintf("%s %.2fx (%.3f s, alone %.3f s)", s.Name, b/a, b, a))
	}
	acceptance.Say(t, acceptance.Is(worst <= 1.2), "p99 TTFT: %s", strings.Join(figures, ", "))
}
