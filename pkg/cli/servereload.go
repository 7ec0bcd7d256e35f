package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/config/files"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// reloader puts the configuration in force, at the start and again when its file changes or SIGHUP comes. One that is
// refused changes nothing.
type reloader struct {
	entries []plugins.Entry
	f       *serveFlags
	log     *slog.Logger
	metrics *admin.Metrics
	clock   *clock.Clock

	feed      *feed
	scheduler *exchange.Scheduler // any of the run's

	one     sync.Mutex // attempt at a time
	read    []byte     // what was read at the start
	built   *plugins.Built
	status  atomic.Pointer[admin.Config]
	applied int
}

// inForce says which configuration is in force.
func (r *reloader) inForce() admin.Config { return *r.status.Load() }

// path returns the file that can be read again, "" if there is none.
func (r *reloader) path() string {
	if r.f.configText != "" || r.f.configFile == files.Stdin {
		return ""
	}
	return r.f.configFile
}

// first loads the configuration of the start, and prints what is wrong with it.
func (r *reloader) first(say io.Writer) (*config.File, *plugins.Built, error) {
	var err error
	if r.f.configFile != "" && r.f.configText == "" {
		if r.read, err = files.Read(r.f.configFile); err != nil {
			return nil, nil, err
		}
	}
	file, built, problems := r.load(r.read)
	for _, p := range problems {
		fmt.Fprintln(say, p)
	}
	if built == nil {
		return nil, nil, errReported
	}
	r.built = built
	r.status.Store(&admin.Config{Digest: file.Digest(), Since: time.Now(), Source: file.Name, Text: string(file.Effective())})
	return file, built, nil
}

// load reads, checks and builds a configuration; built is nil if it cannot be.
func (r *reloader) load(data []byte) (file *config.File, built *plugins.Built, problems []config.Problem) {
	switch {
	case r.f.configText != "":
		file, problems = config.Load([]byte(r.f.configText), "--config-text", r.entries)
	case r.f.configFile != "":
		file, problems = config.Load(data, r.f.configFile, r.entries)
	default:
		file, problems = config.Default(r.entries)
	}
	if file == nil {
		return nil, nil, problems
	}
	built, more := file.Build()
	return file, built, append(problems, more...)
}

// follow reloads on SIGHUP, and when the file changes if that is wanted, until the context of start ends.
func (r *reloader) follow(start func(func(context.Context))) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	start(func(ctx context.Context) {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				r.again()
			}
		}
	})
	if path := r.path(); path != "" && r.f.watchConfig {
		slow := func(err error) { r.log.Warn("changes of the configuration are seen by polling", "error", err) }
		start(func(ctx context.Context) { files.Watch(ctx, path, r.read, slow, r.reload) })
	}
}

// again reads the file and puts it in force, whether it has changed or not.
func (r *reloader) again() {
	path := r.path()
	if path == "" {
		r.log.Warn("SIGHUP changes nothing: the configuration is that of the command line, of standard input or the default; start anew with --config-file to have one that can be reloaded",
			"source", r.inForce().Source)
		r.metrics.Reloaded(admin.Unchanged)
		return
	}
	r.reload(files.Read(path))
}

// reload puts what was read of the file in force. An error, of reading it, counts as a refused configuration.
func (r *reloader) reload(data []byte, err error) {
	r.one.Lock()
	defer r.one.Unlock()
	result, problems := admin.Refused, []string(nil)
	if err == nil {
		result, problems = r.attempt(data)
	} else {
		problems = []string{err.Error()}
	}
	r.metrics.Reloaded(result)
	if result != admin.Refused {
		if now := r.inForce(); now.Failed != nil { // what is read is in force again
			now.Failed = nil
			r.status.Store(&now)
		}
		return
	}
	for _, p := range problems {
		r.log.Error("configuration refused; the one before it stays in force", "problem", p)
	}
	now := r.inForce()
	now.Failed = &admin.FailedReload{At: time.Now(), Problems: problems}
	r.status.Store(&now)
}

// attempt puts a configuration in force, or says why not.
func (r *reloader) attempt(data []byte) (result admin.Reload, refused []string) {
	defer func() {
		if p := recover(); p != nil { // of a plugin that is built
			result, refused = admin.Refused, []string{fmt.Sprintf("%s: building it panicked: %v", r.f.configFile, p)}
		}
	}()
	file, built, problems := r.load(data)
	if built == nil {
		for _, p := range problems {
			refused = append(refused, p.Error())
		}
		return admin.Refused, refused
	}
	for _, p := range problems {
		r.log.Warn("configuration", "problem", p.Error())
	}
	was := r.inForce()
	if file.Digest() == was.Digest {
		r.log.Info("configuration unchanged", "digest", was.Digest)
		return admin.Unchanged, nil
	}
	if refused := r.replace(file, built); refused != nil {
		return admin.Refused, refused
	}
	r.applied++
	r.status.Store(&admin.Config{
		Digest: file.Digest(), Since: time.Now(), Source: file.Name, Reload: r.applied, Text: string(file.Effective()),
	})
	return admin.Applied, nil
}

// replace hands over to the scheduler of another configuration. Pools are kept by name, with members, samples and books.
func (r *reloader) replace(file *config.File, built *plugins.Built) (refused []string) {
	old := r.scheduler.Current()
	pools := make([]*pool.Pool, len(built.Plans))
	for i, plan := range built.Plans {
		if was := r.built.PoolIndex(plan.Pool.Name); was >= 0 {
			pools[i] = old.Pools()[was]
		} else {
			pools[i] = r.f.poolOptions().New(plan.Pool.Name, r.metrics)
		}
	}
	kept, lost := built.Inherit(r.built)
	problems, err := r.feed.supply(file, built, pools)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range problems {
		refused = append(refused, p.Error())
	}
	if refused != nil {
		return refused
	}
	if d := file.Discovery; d != nil && r.f.endpointsFile != "" {
		r.log.Warn("the configuration's discovery is not used, since --endpoints is given; only a start without it changes that",
			"discovery", d.Path, "endpoints", r.f.endpointsFile)
	}
	watchQueue(r.metrics, built)
	next, err := old.Replace(r.clock.Now(), built, pools, string(file.Effective()), file.Digest())
	if err != nil {
		return []string{err.Error()}
	}
	r.built, r.scheduler = built, next
	r.metrics.Configured(metered(built))
	r.log.Info("configuration in force", "digest", file.Digest(), "source", file.Name, "state_kept", kept, "state_lost", lost)
	return nil
}
