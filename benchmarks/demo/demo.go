// Package demo shows in a minute and a half what a scheduler is worth: four simulated pods, the embedded proxy in front,
// and the same multi-turn traffic once round-robin and once through Fairlead, below and above round-robin's knee.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// Options are the demo's parameters.
type Options struct {
	Binary   string // fairlead itself: pods and gateway run as processes of their own, so that their cost is theirs
	Out      io.Writer
	Terminal bool // Out is a terminal: draw in place
	Pods     int
	Hardware string
	Model    string
	Speed    float64       // engine seconds per second; at most 10
	Phase    time.Duration // wall time of each of the four phases
	Seed     uint64
	Below    float64 // sessions per engine second
	Above    float64
	Shape    Shape
}

// Defaults are what `make demo` shows: 4 × H100 MIG 3g.40gb with Llama-3.1-8B.
func Defaults() Options {
	return Options{
		Pods: 4, Hardware: "h100-mig-3g.40gb", Model: "llama-3.1-8b", Speed: 8, Phase: 20 * time.Second, Seed: 7,
		Below: 2, Above: 4.5, Shape: DefaultShape(),
	}
}

// Run plays the demo. Everything that it starts has ended when it returns.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var running []*children.Child
	defer func() {
		cancel()
		for _, c := range running {
			c.Stop(3 * time.Second)
		}
	}()
	start := func(args ...string) (*children.Child, error) {
		c, err := children.Start(append([]string{o.Binary}, args...), nil, nil)
		if err == nil {
			running = append(running, c)
		}
		return c, err
	}
	first, err := children.FreeRange(o.Pods + 2)
	if err != nil {
		return err
	}
	address := func(i int) string { return "127.0.0.1:" + strconv.Itoa(first+i) }
	pods, err := start("sim", "--engines", strconv.Itoa(o.Pods), "--port", strconv.Itoa(first), "--hardware", o.Hardware,
		"--model", o.Model, "--speed", strconv.FormatFloat(o.Speed, 'g', -1, 64))
	if err != nil {
		return err
	}
	bases := make([]string, o.Pods)
	// The scheduler lives in engine time: what a wait of a second costs must not depend on how fast engines are simulated.
	args := []string{"gateway", "--clock-speed", strconv.FormatFloat(o.Speed, 'g', -1, 64), "--listen", address(o.Pods), "--metrics-bind", "127.0.0.1", "--metrics-port", strconv.Itoa(first + o.Pods + 1)}
	for i := range bases {
		bases[i] = "http://" + address(i)
		if err := answers(ctx, pods, bases[i]+"/health"); err != nil {
			return err
		}
		args = append(args, "--endpoint", bases[i])
	}
	gateway, err := start(args...)
	if err != nil {
		return err
	}
	admin := "http://" + address(o.Pods+1)
	if err := answers(ctx, gateway, admin+"/readyz"); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%d simulated pods (%s on %s) at %gx speed;\n"+
		"4 phases of %v each. Traffic: %d applications, each with a system prompt of\n"+
		"%d tokens; sessions of %d turns of about %d tokens, %d tokens per answer.\n"+
		"Two rates, each policy on the same traffic. The knee is the rate beyond which\n"+
		"round-robin's queues keep growing. Ctrl-C ends everything.\n\n",
		o.Pods, o.Model, o.Hardware, o.Speed, o.Phase,
		o.Shape.Apps, o.Shape.SystemTokens, o.Shape.Turns, o.Shape.TurnTokens, o.Shape.AnswerTokens)

	d := &demo{o: o, bases: bases, gatewayBase: "http://" + address(o.Pods), gateway: gateway}
	d.live = &live{out: o.Out, terminal: o.Terminal, client: &http.Client{Timeout: 2 * time.Second}, pods: bases}
	var rows []row
	for _, load := range []struct {
		name string
		rate float64
	}{{"below round-robin's knee", o.Below}, {"above round-robin's knee", o.Above}} {
		rr := d.phase(ctx, "round-robin", load.name, load.rate)
		before := cpu(gateway)
		fl := d.phase(ctx, "fairlead", load.name, load.rate)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rows = append(rows, row{load.name, load.rate, rr, fl, cpu(gateway) - before})
	}
	overhead, err := readOverhead(ctx, admin)
	if err != nil {
		return err
	}
	report(o.Out, rows, overhead)
	for _, r := range rows {
		if r.fairlead.Requests == 0 || r.roundRobin.Requests == 0 {
			return fmt.Errorf("a phase served nothing; first error: %w", r.fairlead.FirstErr)
		}
	}
	return nil
}

// answers waits until url answers 200, or says what the process said instead.
func answers(ctx context.Context, c *children.Child, url string) error {
	return c.Until(ctx, 20*time.Second, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, res.Status)
		}
		return nil
	})
}

// cpu returns the processor time that a process has used, 0 where the system does not tell.
func cpu(c *children.Child) time.Duration {
	used, _, err := children.Use(c.PID())
	if err != nil {
		return 0
	}
	return used
}

type demo struct {
	o           Options
	bases       []string
	gatewayBase string
	gateway     *children.Child
	live        *live
}

// phase plays one policy. Round-robin goes to the pods directly, in turn: it pays no gateway at all.
func (d *demo) phase(ctx context.Context, policy, load string, rate float64) Result {
	span := time.Duration(float64(d.o.Phase) * d.o.Speed)
	label := policy + " " + load // texts differ between phases: nobody finds another phase's cache
	p := &phase{
		policy: policy, model: d.o.Model, answer: d.o.Shape.AnswerTokens, speed: d.o.Speed, span: span,
		sessions: d.o.Shape.Sessions(d.o.Seed, pad(label), rate, span),
		client:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}},
		choose:   func(n int) string { return d.bases[n%len(d.bases)] },
	}
	if policy == "fairlead" {
		p.choose = func(int) string { return d.gatewayBase }
	}
	show, stop := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Add(1)
	go d.live.show(show, policy+", "+load, d.o.Phase, &shown)
	res := p.run(ctx)
	stop()
	shown.Wait()
	p.client.CloseIdleConnections()
	if d.o.Terminal {
		fmt.Fprintln(d.o.Out)
	}
	return res
}

// pad gives the labels of both policies one length, so that their texts have the same number of tokens.
func pad(label string) string { return fmt.Sprintf("%-40s", label) }
