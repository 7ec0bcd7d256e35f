package plugins_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// configuration is a spec in the making, for one pool of one profile unless a test changes it.
type configuration struct {
	plugins.Spec
	entries []plugins.Entry
	ports   []any
}

func configure(plugs ...named) *configuration {
	c := &configuration{}
	c.Profiles = []plugins.ProfileSpec{{Name: "default"}}
	c.Pools = []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "handler"}}
	c.add(named{"handler", handler{}})
	for _, p := range plugs {
		c.add(p)
		c.refer(p.name, 1)
	}
	return c
}

// named is a plugin with its instance name.
type named struct {
	name   string
	plugin any
}

func (c *configuration) add(p named) {
	c.Plugins = append(c.Plugins, plugins.PluginSpec{Name: p.name, Type: p.name, Construct: func() (any, error) {
		if err, failed := p.plugin.(error); failed {
			return nil, err
		}
		return p.plugin, nil
	}})
}

func (c *configuration) refer(name string, weight float64) {
	c.Profiles[0].Plugins = append(c.Profiles[0].Plugins, plugins.RefSpec{Ref: name, Weight: weight})
}

func (c *configuration) build() (*plugins.Built, error) {
	return plugins.Build(c.Spec, c.entries, c.ports...)
}

func (c *configuration) mustBuild(t testing.TB) *plugins.Built {
	t.Helper()
	b, err := c.build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The plugins of these tests.

// handler runs the pool's first profile.
type handler struct{}

func (handler) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	name := c.Profiles()[0]
	chosen := c.Run(name)
	if len(chosen.Endpoints) == 0 {
		return nil, nil
	}
	return append(c.Legs(), plugins.Leg{Profile: name, Result: chosen}), nil
}

// handle is a handler as a function.
type handle func(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal)

func (f handle) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) { return f(c) }

// first picks the first of the highest totals, and as many others as are wanted, in order.
type first struct{}

func (first) Pick(c *plugins.Cycle, totals []float64, want int, best []int) []int {
	at := 0
	for i := range totals {
		if totals[i] > totals[at] {
			at = i
		}
	}
	best = append(best, at)
	for i := range c.Candidates {
		if i != at && len(best) < want {
			best = append(best, i)
		}
	}
	return best
}

type score func(c *plugins.Cycle, out []float64)

func (f score) Score(c *plugins.Cycle, out []float64) { f(c, out) }

type filter func(c *plugins.Cycle, keep plugins.Bits)

func (f filter) Filter(c *plugins.Cycle, keep plugins.Bits) { f(c, keep) }

type pick func(c *plugins.Cycle, totals []float64, want int, best []int) []int

func (f pick) Pick(c *plugins.Cycle, totals []float64, want int, best []int) []int {
	return f(c, totals, want, best)
}

// provider makes cached-tokens and cached-blocks with one value for all; needy scores with them.
type provider struct {
	value  int64
	ran    int
	tokens plugins.EndpointValues[int64]
}

func (p *provider) Provision(b *plugins.Builder) error {
	p.tokens = plugins.Provides(b, plugins.CachedTokens)
	return nil
}

func (p *provider) Produce(c *plugins.Cycle) {
	p.ran++
	for _, id := range c.Candidates {
		p.tokens.Of(c)[id] = p.value
	}
}

type needy struct {
	tokens plugins.EndpointValues[int64]
	saw    []int64
}

func (n *needy) Provision(b *plugins.Builder) error {
	n.tokens = plugins.Needs(b, plugins.CachedTokens)
	return nil
}

func (n *needy) Score(c *plugins.Cycle, _ []float64) {
	n.saw = nil
	for _, id := range c.Candidates {
		n.saw = append(n.saw, n.tokens.Of(c)[id])
	}
}

// user uses a fact if somebody provides it.
type user struct {
	needy
	provided bool
}

func (u *user) Provision(b *plugins.Builder) error {
	u.tokens, u.provided = plugins.Uses(b, plugins.CachedTokens)
	return nil
}

// store is an edge's half.
type store interface{ Look() string }

type shelf struct{}

func (shelf) Look() string { return "found" }

type asks struct{ store store }

func (a *asks) Provision(b *plugins.Builder) error {
	a.store = plugins.Port[store](b)
	return nil
}

func (a *asks) Phase() plugins.Phase { return plugins.AtHeaders }
func (a *asks) Enter(r *plugins.Request) (v plugins.Verdict) {
	r.Target.Subscription = a.store.Look()
	return v
}

// waits is a queue.
type waits struct{}

func (*waits) Phase() plugins.Phase                                        { return plugins.AtAdmit }
func (*waits) Enter(*plugins.Request) plugins.Verdict                      { return plugins.Verdict{} }
func (*waits) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) { return nil, nil, false }
func (*waits) Fits(*plugins.Cycle, *pool.Books) (bool, *reason.Refusal)    { return true, nil }
func (*waits) Attach([]*pool.Pool, reason.Sink)                            {}
func (*waits) Admitted(*plugins.Request, pool.Ref, pool.Load)              {}
func (*waits) Suits(*plugins.Cycle, []plugins.Leg) bool                    { return true }
func (*waits) Nobody(*plugins.Request, *reason.Refusal) bool               { return false }
func (*waits) Leave(*plugins.Request)                                      {}
func (*waits) Deadline() pool.Instant                                      { return 0 }
func (*waits) Drain()                                                      {}

func TestBuildRefuses(t *testing.T) {
	picker := named{"picker", first{}}
	for _, r := range []struct {
		name string
		make func() *configuration
		want string
	}{
		{"a need that nobody meets, naming both",
			func() *configuration { return configure(picker, named{"needy", &needy{}}) },
			`plugin "needy": needs the fact "cached-tokens", which no plugin of this configuration provides`},
		{"two that provide one fact, naming both",
			func() *configuration {
				return configure(picker, named{"one", &provider{}}, named{"two", &provider{}})
			},
			`plugin "two": fact "cached-tokens" is provided by "one" as well; keep one of the two`},
		{"a default producer that does not provide",
			func() *configuration {
				c := configure(picker, named{"needy", &needy{}})
				c.entries = []plugins.Entry{plugins.Plugin("hollow", func() *shelf { return &shelf{} }).Default("cached-tokens")}
				return c
			},
			`plugin "needy": needs the fact "cached-tokens"; its default producer does not provide it`},
		{"a profile without a picker",
			func() *configuration { return configure(named{"s", score(func(*plugins.Cycle, []float64) {})}) },
			`pool "default": profile "default" has no picker; add max-score-picker`},
		{"two pickers, naming both",
			func() *configuration { return configure(picker, named{"other", first{}}) },
			`profile "default": "other" is a second picker beside "picker"; keep one`},
		{"a reference to nothing",
			func() *configuration { c := configure(picker); c.refer("ghost", 1); return c },
			`profile "default": no plugin is named "ghost"`},
		{"a plugin that does nothing in a profile",
			func() *configuration { return configure(picker, named{"odd", handler{}}) },
			`profile "default": "odd" (odd) is no filter, scorer or picker`},
		{"a handler that is not there",
			func() *configuration { c := configure(picker); c.Pools[0].Handler = "ghost"; return c },
			`pool "default": no plugin is named "ghost"`},
		{"a handler that is none",
			func() *configuration { c := configure(picker); c.Pools[0].Handler = "picker"; return c },
			`pool "default": "picker" is no profile handler`},
		{"a profile that is not there",
			func() *configuration { c := configure(picker); c.Pools[0].Profiles = []string{"ghost"}; return c },
			`pool "default": no profile is named "ghost"`},
		{"a stage that is none",
			func() *configuration { c := configure(picker); c.Stages = []string{"picker"}; return c },
			`stages: "picker" is no plugin that runs before scheduling`},
		{"a stage that is not there",
			func() *configuration { c := configure(picker); c.Stages = []string{"ghost"}; return c },
			`stages: "ghost" is no plugin`},
		{"two queues",
			func() *configuration {
				c := configure(picker)
				c.add(named{"q1", &waits{}})
				c.add(named{"q2", &waits{}})
				return c
			},
			`stages: "q2" is a second queue; only one may wait for capacity`},
		{"a port that this process does not offer",
			func() *configuration { c := configure(picker); c.add(named{"asks", &asks{}}); return c },
			`plugin "asks": this process offers no *plugins_test.store`},
		{"a plugin that cannot be constructed",
			func() *configuration {
				c := configure(picker)
				c.add(named{"bad", errors.New("full is -3; at least 1")})
				return c
			},
			`plugin "bad": full is -3; at least 1`},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := r.make().build()
			if err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}

func TestBuildReportsAllProblems(t *testing.T) {
	c := configure(named{"picker", first{}})
	c.add(named{"bad", errors.New("one")})
	c.add(named{"worse", errors.New("two")})
	_, err := c.build()
	var of *plugins.BuildError
	if !errors.As(err, &of) || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") {
		t.Errorf("got %v, want both", err)
	}
}

func TestADefaultProducerIsAddedForANeedAlone(t *testing.T) {
	made := &provider{value: 7}
	entry := plugins.Plugin("default-producer", func() *provider { return made }).Default("cached-tokens")
	scorer := &needy{}
	c := configure(named{"picker", first{}}, named{"needy", scorer})
	c.entries = []plugins.Entry{entry}
	b := c.mustBuild(t)
	if got := strings.Join(b.Instances(), "; "); !strings.Contains(got, "default-producer [added: cached-tokens]") {
		t.Errorf("instances: %s", got)
	}
	w := newWorld(t, b, 2)
	w.mustDecide(t)
	if made.ran != 1 || len(scorer.saw) != 2 || scorer.saw[1] != 7 {
		t.Errorf("the producer ran %d times and the scorer saw %v", made.ran, scorer.saw)
	}
	c = configure(named{"picker", first{}})
	c.entries = []plugins.Entry{entry}
	if got := c.mustBuild(t).Instances(); len(got) != 2 {
		t.Errorf("without a need: %v", got)
	}
}

func TestAProducerThatNobodyAsksForDoesNotRun(t *testing.T) {
	idle := &provider{}
	c := configure(named{"picker", first{}}, named{"idle", idle})
	w := newWorld(t, c.mustBuild(t), 2)
	w.mustDecide(t)
	if idle.ran != 0 {
		t.Errorf("it ran %d times", idle.ran)
	}
}

func TestUsesTellsWhetherAFactIsProvided(t *testing.T) {
	alone := &user{}
	c := configure(named{"picker", first{}}, named{"user", alone})
	newWorld(t, c.mustBuild(t), 2).mustDecide(t)
	if alone.provided || alone.saw[0] != plugins.Unknown {
		t.Errorf("without a producer: provided %v, saw %v", alone.provided, alone.saw)
	}
	fed := &user{}
	c = configure(named{"picker", first{}}, named{"user", fed}, named{"producer", &provider{value: 3}}) // listed behind its reader
	newWorld(t, c.mustBuild(t), 2).mustDecide(t)
	if !fed.provided || fed.saw[0] != 3 {
		t.Errorf("with a producer: provided %v, saw %v", fed.provided, fed.saw)
	}
}

func TestAPortIsHandedIn(t *testing.T) {
	c := configure(named{"picker", first{}})
	c.add(named{"asks", &asks{}})
	c.ports = []any{shelf{}}
	b := c.mustBuild(t)
	var r plugins.Request
	r.Prepare(b, nil)
	if v := b.Enter(reason.Discard{}, plugins.AtHeaders, 0, &r); !v.Passes() || r.Target.Subscription != "found" {
		t.Errorf("got %+v, %q", v, r.Target.Subscription)
	}
}

func TestAForgottenHandleFailsAtItsFirstUse(t *testing.T) {
	c := configure(named{"picker", first{}}, named{"forgets", score(func(c *plugins.Cycle, _ []float64) {
		var h plugins.EndpointValues[int32]
		h.Of(c)
	})})
	_, no := newWorld(t, c.mustBuild(t), 1).decide()
	if no == nil || no.ID != reason.PluginPanic {
		t.Errorf("got %v, want plugin_panic", no)
	}
}

func TestReadsFollowsFromStagesAndDescribers(t *testing.T) {
	for _, r := range []struct {
		name  string
		stage any
		want  plugins.Reads
	}{
		{"nothing before scheduling", nil, plugins.ReadsHeaders},
		{"a stage at headers", stage{phase: plugins.AtHeaders}, plugins.ReadsHeaders},
		{"a stage at resolve", stage{phase: plugins.AtResolve}, plugins.ReadsModel},
		{"a stage at describe", stage{phase: plugins.AtDescribe}, plugins.ReadsBody},
		{"a stage at admit", stage{phase: plugins.AtAdmit}, plugins.ReadsBody},
		{"a stage that says so itself", frugal{stage{phase: plugins.AtAdmit}}, plugins.ReadsHeaders},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := configure(named{"picker", first{}})
			if r.stage != nil {
				c.add(named{"stage", r.stage})
			}
			if got := c.mustBuild(t).Reads; got != r.want {
				t.Errorf("got %d, want %d", got, r.want)
			}
		})
	}
}

type stage struct{ phase plugins.Phase }

func (s stage) Phase() plugins.Phase                 { return s.phase }
func (stage) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

type frugal struct{ stage }

func (frugal) Reads() plugins.Reads { return plugins.ReadsHeaders }

func TestStagesRunByPhaseAndThenAsListed(t *testing.T) {
	c := configure(named{"picker", first{}})
	for _, s := range []named{{"a", stage{plugins.AtAdmit}}, {"b", stage{plugins.AtHeaders}}, {"c", stage{plugins.AtAdmit}}, {"d", stage{plugins.AtAdmit}}} {
		c.add(s)
	}
	c.Stages = []string{"d", "b", "a"}
	b := c.mustBuild(t)
	got := strings.Join(b.StageNames(plugins.AtHeaders), ",") + "|" + strings.Join(b.StageNames(plugins.AtAdmit), ",")
	if got != "b|d,a" {
		t.Errorf("got %s, want b|d,a", got)
	}
}

func TestPromptTokensIsKnownToTheFramework(t *testing.T) {
	b := configure(named{"picker", first{}}).mustBuild(t)
	for _, r := range []struct {
		name string
		body *openai.Summary
		want int64
	}{
		{"no body", nil, 0},
		{"an estimate from bytes, rounded up", &openai.Summary{PromptBytes: 9, PromptTokens: openai.Unknown}, 3},
		{"the exact number where it is known", &openai.Summary{PromptBytes: 9, PromptTokens: 7}, 7},
	} {
		t.Run(r.name, func(t *testing.T) {
			var q plugins.Request
			q.Prepare(b, nil)
			q.Body = r.body
			if no := b.Plans[0].Describe(reason.Discard{}, &q); no != nil {
				t.Fatal(no)
			}
			if got := b.PromptTokens(&q); got != r.want {
				t.Errorf("got %d, want %d", got, r.want)
			}
		})
	}
}

// refers names another plugin.
type refers struct{ to string }

// ordering is a policy that settles, as those do that count what tenants had.
type ordering struct{}

func (ordering) Serves() string                           { return "ordering policy" }
func (ordering) Settle(*plugins.Request, plugins.Outcome) {}

func (r *refers) Provision(b *plugins.Builder) error {
	_, err := plugins.Refer[plugins.Picker](b, r.to)
	return err
}

func TestReferFindsAPluginByName(t *testing.T) {
	for _, r := range []struct{ name, to, want string }{
		{"one that serves", "picker", ""},
		{"one of another kind", "self", `plugin "self" is of type self, which cannot serve here`},
		{"a policy of another kind", "order", `plugin "order" (order) serves as ordering policy; name one that can serve here`},
		{"one that is not there", "ghost", `no plugin is named "ghost"; declare it under plugins`},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := configure(named{"picker", first{}})
			c.add(named{"self", &refers{r.to}})
			c.add(named{"order", ordering{}})
			_, err := plugins.Build(c.Spec, nil)
			if got := fmt.Sprint(err); r.want == "" && err != nil || !strings.Contains(got, r.want) {
				t.Errorf("got %v, want %q", err, r.want)
			}
		})
	}
}
