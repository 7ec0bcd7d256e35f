package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/discovery"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
)

// feed keeps the pools supplied: who is in them, from the endpoint file and URLs, and what their engines say of themselves.
// Its methods are called from one goroutine at a time.
type feed struct {
	ctx        context.Context
	background *sync.WaitGroup
	f          *serveFlags
	clock      *clock.Clock
	metrics    *admin.Metrics
	log        *slog.Logger

	fromURLs []discovery.Entry
	pools    []*pool.Pool
	from     *config.File      // that says how they are supplied
	scraped  telemetry.Options // likewise
	stop     func()            // ends what follows the pools, and waits for it
}

func newFeed(ctx context.Context, background *sync.WaitGroup, f *serveFlags, clk *clock.Clock, metrics *admin.Metrics, log *slog.Logger) *feed {
	return &feed{ctx: ctx, background: background, f: f, clock: clk, metrics: metrics, log: log, stop: func() {}}
}

// open fills the pools for the first time, and prints what is wrong with the endpoint file.
func (d *feed) open(file *config.File, built *plugins.Built, pools []*pool.Pool, say io.Writer) error {
	for _, raw := range d.f.endpointURLs {
		e, err := discovery.FromURL(raw)
		if err != nil {
			return &usageError{fmt.Errorf("--endpoint: %w", err)}
		}
		d.fromURLs = append(d.fromURLs, e)
	}
	if path, _ := d.file(file); path == "" && len(d.fromURLs) == 0 {
		return &usageError{errors.New("no endpoints: give --endpoints FILE or --endpoint URL")}
	}
	problems, err := d.supply(file, built, pools)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		for _, p := range problems {
			fmt.Fprintln(say, p.Error())
		}
		return errReported
	}
	return nil
}

// file returns the endpoint file and whether it is followed: the command line goes before the configuration.
func (d *feed) file(of *config.File) (path string, watch bool) {
	if d.f.endpointsFile == "" && of.Discovery != nil {
		return of.Discovery.Path, of.Discovery.Watch
	}
	return d.f.endpointsFile, d.f.watchEndpoints
}

// supply has these pools supplied as a configuration says, in place of those before. With problems, of the endpoint file,
// everything stays as it was. Pools that stay keep their members and samples; where all stays, nothing is done.
func (d *feed) supply(file *config.File, built *plugins.Built, pools []*pool.Pool) ([]discovery.Problem, error) {
	scraped, err := scrapeOptions(d.f.scrape, file, built)
	if err != nil {
		return nil, err
	}
	if d.from != nil && slices.Equal(pools, d.pools) && reflect.DeepEqual(file.Discovery, d.from.Discovery) &&
		reflect.DeepEqual(file.Metrics, d.from.Metrics) && reflect.DeepEqual(scraped.Models, d.scraped.Models) {
		return nil, nil
	}
	path, watch := d.file(file)
	loaded := false // the first reading that is refused is told by the caller
	w := &discovery.Watcher{
		File: path, Extra: d.fromURLs, Pools: pools, Clock: d.clock.Now, Sink: d.metrics,
		Slow: func(err error) { d.log.Warn("changes of the endpoint file are seen by polling", "error", err) },
		Loaded: func(l discovery.Loaded) {
			for _, p := range l.Problems {
				if !loaded {
					return
				}
				d.log.Error("endpoint file refused; the last good membership stays", "problem", p.Error())
			}
			d.log.Info("endpoints", "members", l.Endpoints)
		},
	}
	poll := scraped
	poll.Interval = d.f.wallInterval(scraped.Interval)
	poll.Pools, poll.Sink, poll.Clock, poll.Scraped = pools, d.metrics, d.clock.Now, d.metrics.Scraped
	poller, err := telemetry.New(poll)
	if err != nil {
		return nil, err
	}
	if problems := w.Load(); len(problems) > 0 {
		return problems, nil
	}
	loaded = true
	d.stop()
	d.pools, d.from, d.scraped = pools, file, scraped
	ctx, cancel := context.WithCancel(d.ctx)
	var running sync.WaitGroup
	follow := func(f func(context.Context)) {
		running.Add(1)
		d.background.Go(func() {
			defer running.Done()
			f(ctx)
		})
	}
	d.stop = func() {
		cancel()
		running.Wait()
	}
	follow(poller.Run)
	if path != "" && watch {
		follow(w.Run)
	}
	return nil, nil
}
