package clock_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

// ticker is a plugin that notes when it is called and asks to be called again after some time; 0 for never.
type ticker struct {
	every time.Duration
	at    []time.Duration
}

func (t *ticker) Tick(now pool.Instant) pool.Instant {
	t.at = append(t.at, time.Duration(now))
	if t.every == 0 {
		return 0
	}
	return now + pool.Instant(t.every)
}

// hold lets nobody through for an hour.
type hold struct{ until time.Duration }

func (h *hold) Phase() plugins.Phase { return plugins.AtHeaders }
func (h *hold) Enter(r *plugins.Request) plugins.Verdict {
	return plugins.Verdict{Until: pool.Instant(h.until), Late: reason.QueueTimeout}
}

func scheduler(t *testing.T, c *clock.Clock, extra any) *exchange.Scheduler {
	t.Helper()
	o := exchange.Defaults()
	o.Built, o.Pools, o.Alarm = configured(t, extra), []*pool.Pool{pool.New("default", nil)}, c
	s, err := exchange.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// configured builds a configuration with one more plugin.
func configured(t *testing.T, extra any) *plugins.Built {
	t.Helper()
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Handler: "handler", Profiles: []string{"p"}}},
	}
	for _, p := range []struct {
		name string
		v    any
	}{{"handler", profiles.NewSingle()}, {"picker", pickers.NewRandom()}, {"extra", extra}} {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: p.name, Type: p.name, Construct: func() (any, error) { return p.v, nil }})
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

type waker chan struct{}

func (w waker) Wake() { w <- struct{}{} }

// ask opens an exchange that the hold stops, and returns when it is woken.
func ask(c *clock.Clock, s *exchange.Scheduler) (x *exchange.Exchange, woken waker, first exchange.Do) {
	woken = make(waker, 1)
	x = s.Begin(c.Now(), woken)
	a := x.Headers(c.Now(), nil, exchange.Via{}, true)
	return x, woken, a.Do
}

func TestNowCountsFromTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, epoch := range []time.Time{time.Now(), time.Now().Add(-time.Minute), time.Now().Add(-time.Minute).Round(0)} {
			c := clock.Start(epoch)
			was := time.Since(epoch)
			time.Sleep(5 * time.Second)
			if got := time.Duration(c.Now()); got != was+5*time.Second {
				t.Errorf("got %v, want %v", got, was+5*time.Second)
			}
		}
	})
}

func TestAFastClockCallsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, often := clock.StartFast(time.Now().Add(-time.Minute), 8), &ticker{every: 8 * time.Second}
		s := scheduler(t, c, often)
		go c.Drive(t.Context(), func() *exchange.Scheduler { return s })
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if want := []time.Duration{60 * time.Second, 68 * time.Second, 76 * time.Second, 84 * time.Second}; !slices.Equal(often.at, want) {
			t.Errorf("called at %v, want %v", often.at, want)
		}
		if got := time.Duration(c.Now()); got != 88*time.Second {
			t.Errorf("%v after a minute and 3.5 s of eight, want 88 s", got)
		}
		if got := c.Wall(8 * time.Second); got != time.Second {
			t.Errorf("8 s take %v on the wall, want one", got)
		}
	})
}

func TestTickersAreCalledWhenTheyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c, often := clock.Start(time.Now()), &ticker{every: time.Second}
		s := scheduler(t, c, often)
		go c.Drive(ctx, func() *exchange.Scheduler { return s })
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(often.at, want) {
			t.Errorf("called at %v, want %v", often.at, want)
		}
		stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(often.at) != 4 {
			t.Error("called after the end")
		}
	})
}

func TestWithoutDeadlinesNobodyIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, once := clock.Start(time.Now()), &ticker{}
		s := scheduler(t, c, once)
		ctx, stop := context.WithCancel(t.Context())
		go c.Drive(ctx, func() *exchange.Scheduler { return s })
		time.Sleep(24 * time.Hour)
		stop()
		synctest.Wait()
		if len(once.at) != 1 {
			t.Errorf("called at %v, want once", once.at)
		}
	})
}

func TestAnEarlierDeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c, slow := clock.Start(time.Now()), &ticker{every: time.Hour}
		s := scheduler(t, c, slow)
		go c.Drive(ctx, func() *exchange.Scheduler { return s })
		synctest.Wait()
		for _, at := range []time.Duration{30 * time.Second, 10 * time.Second, 20 * time.Second} {
			c.At(pool.Instant(at))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// The tickers are called along with each deadline; of those named at once the earliest is kept, and what
		// Tick returns then leads.
		if want := []time.Duration{0, 10 * time.Second}; !slices.Equal(slow.at, want) {
			t.Errorf("called at %v, want %v", slow.at, want)
		}
		c.At(0)
		synctest.Wait()
		if n := len(slow.at); n != 3 || slow.at[2] != time.Minute {
			t.Errorf("an instant of the past was kept at %v, want at once", slow.at)
		}
	})
}

func TestAHoldEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := clock.Start(time.Now())
		s := scheduler(t, c, &hold{until: 7 * time.Second})
		go c.Drive(ctx, func() *exchange.Scheduler { return s })
		synctest.Wait()
		x, woken, first := ask(c, s)
		if first != exchange.Hold {
			t.Fatalf("got %v, want hold", first)
		}
		<-woken
		if c.Now() != pool.Instant(7*time.Second) {
			t.Errorf("woken at %v", time.Duration(c.Now()))
		}
		if a := x.Resume(c.Now()); a.Do != exchange.Reply || a.Reply.Status != 429 {
			t.Errorf("got %v, want a refusal", a.Do)
		}
	})
}

func TestAReplacedSchedulerIsTickedUntilItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c, fresh := clock.Start(time.Now()), &ticker{every: time.Minute}
		first := scheduler(t, c, &hold{until: 7 * time.Second})
		go c.Drive(ctx, first.Current)
		synctest.Wait()
		x, woken, _ := ask(c, first)
		time.Sleep(time.Second)
		replace := func(old *exchange.Scheduler, extra any) *exchange.Scheduler {
			next, err := old.Replace(c.Now(), configured(t, extra), old.Pools(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return next
		}
		// Two replacements at one instant: the second of three schedulers was in force too short to be seen.
		second := replace(first, &hold{until: 9 * time.Second})
		y, wokenToo, _ := ask(c, second)
		replace(second, fresh)
		<-woken
		x.Resume(c.Now())
		synctest.Wait()
		if c.Now() != pool.Instant(7*time.Second) || !first.Quiet() || second.Quiet() {
			t.Errorf("woken at %v, the first quiet %t, the second %t", time.Duration(c.Now()), first.Quiet(), second.Quiet())
		}
		<-wokenToo
		y.Resume(c.Now())
		if c.Now() != pool.Instant(9*time.Second) || !second.Quiet() {
			t.Errorf("woken at %v, quiet %t", time.Duration(c.Now()), second.Quiet())
		}
		synctest.Wait()
		if len(fresh.at) == 0 || fresh.at[0] != time.Second {
			t.Errorf("the new one's ticker was called at %v, want first at 1s", fresh.at)
		}
	})
}

func TestAtNeverBlocksWithoutDrive(t *testing.T) {
	c := clock.Start(time.Now())
	for i := range 1000 {
		c.At(pool.Instant(1000 - i))
	}
}

// Time that passes is measured by the monotonic clock: what takes a time.Time for a number, or strips its monotonic reading,
// would follow a step of the wall clock. A wall time may be shown, as that of the epoch is in records, and the epochs of several
// processes may be compared.
func TestNothingMeasuresByTheWallClock(t *testing.T) {
	shown := map[string]bool{"../../exchange/scheduler.go: Unix": true, "../../pool/pool.go: UnixMicro": true}
	numbers := []string{"Unix", "UnixNano", "UnixMilli", "UnixMicro", "Round"}
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(numbers, method.Sel.Name) || shown[path+": "+method.Sel.Name] {
				return true
			}
			of, named := method.X.(*ast.Ident)
			if named && (of.Name == "time" || of.Name == "math") || method.Sel.Name == "Round" && !(len(call.Args) == 1 && isZero(call.Args[0])) {
				return true
			}
			t.Errorf("%v: %s of a wall time; measure with time.Since or a clock.Clock", set.Position(call.Pos()), method.Sel.Name)
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files, error %v", files, err)
	}
}

func isZero(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Value == "0"
}
