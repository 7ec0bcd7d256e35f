// Package scenario runs decisions that are written down as scripts: requests go through the real exchange, configuration
// and pool, in virtual time.
//
//	# A burst decided on one snapshot spreads: booking is part of choosing.
//	pool a b c kv-blocks=1000
//	burst 6 prompt-tokens=2000
//	picked a=2 b=2 c=2
//	finish all
//	books zero
//
// One line is one command; # begins a comment. First the world:
//
//	profile TYPE[=WEIGHT] …    the plugins of the one profile; queue-scorer=2 prefix-cache-scorer=3 max-score-picker without it
//	seed N                     of the run; 1 without it
//	pool NAME … [FIELD=N …]    the members, from here on; with fields each is sampled at once
//	sample NAME … [FIELD=N …]  a scrape of these: waiting, running, kv-usage, kv-blocks, block-tokens, process
//	wait DURATION              time passes, deadlines with it
//
// A sample begins as an idle engine's: a field that is not given is 0, kv-blocks and process unknown, block-tokens 16. Then
// requests:
//
//	burst N [prompt=NAME] [prompt-tokens=N] [prefix=NAME prefix-tokens=N]   N requests at one instant
//	send …                     burst 1 …
//	answer WHICH [from NAME]   the first byte, from the endpoint that is being tried or from another
//	finish WHICH               a clean end, after a first byte where none came
//	abort WHICH                the client goes away
//	unreachable WHICH          the endpoint that is being tried cannot be reached
//
// WHICH is all, last (the last burst), or N for the oldest N; it speaks of those that have not ended. Prompts of one name
// are equal as far as they go, and so are prefixes; without a name each prompt is its own. And what must hold:
//
//	picked NAME[=N] …          how the last burst was spread over the primaries
//	listed NAME …              the destination list of the last request, primary first
//	refused CODE[=N]           how many of the last burst were refused, and why
//	books zero | NAME=N …      requests booked and not ended
//	cached NAME=N …            tokens believed cached in the last decision
//	totals NAME=N …            total scores in the last decision
//	noted CODE=N …             how often a reason was noted
package scenario

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Run runs a script. The error names the script, the line, what was and what should have been.
func Run(name, script string) error {
	r := &run{now: pool.Instant(time.Second), seed: 1, noted: map[reason.ID]int{}}
	r.profile = []string{"queue-scorer=2", "prefix-cache-scorer=3", "max-score-picker"}
	for i, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := r.do(words[0], words[1:]); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", name, i+1, words[0], err)
		}
	}
	return nil
}

// run is a script that is being run.
type run struct {
	profile []string
	seed    uint64
	now     pool.Instant
	noted   map[reason.ID]int

	scheduler *exchange.Scheduler // made by the first pool
	pool      *pool.Pool
	addresses map[string]netip.AddrPort

	sent []*sent // that have not ended, oldest first
	last []*sent // the last burst
	made int     // prompts without a name
}

// sent is one request.
type sent struct {
	x        *exchange.Exchange
	to       []string // the destination list, shrinking as endpoints are tried
	picked   string
	refused  string
	answered bool
}

// Note counts a reason.
func (r *run) Note(id reason.ID, _ string) { r.noted[id]++ }

func (r *run) do(command string, args []string) error {
	switch command {
	case "profile", "seed":
		if r.scheduler != nil {
			return fmt.Errorf("it must stand before the first pool")
		}
	case "pool":
	default:
		if r.scheduler == nil {
			return fmt.Errorf("a pool must stand before it")
		}
	}
	switch command {
	case "profile":
		r.profile = args
		return nil
	case "seed":
		return one(args, &r.seed)
	case "pool":
		return r.membership(args)
	case "sample":
		return r.sample(args)
	case "wait":
		return r.wait(args)
	case "burst":
		return r.burst(args)
	case "send":
		return r.burst(append([]string{"1"}, args...))
	case "answer", "finish", "abort", "unreachable":
		return r.happen(command, args)
	}
	return r.expect(command, args)
}

// build makes the scheduler of the profile.
func (r *run) build() error {
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "default"}},
		Pools:    []plugins.PoolSpec{{Name: "default", Profiles: []string{"default"}, Handler: "single-profile-handler"}},
	}
	entries := catalog.Builtin()
	for _, word := range append([]string{"single-profile-handler"}, r.profile...) {
		typ, weight, err := count(word, 1)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == typ })
		if i < 0 {
			return fmt.Errorf("profile: no plugin has the type %q", typ)
		}
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: typ, Type: typ, Construct: func() (any, error) { return entries[i].New(), nil }})
		if typ != "single-profile-handler" {
			spec.Profiles[0].Plugins = append(spec.Profiles[0].Plugins, plugins.RefSpec{Ref: typ, Weight: weight})
		}
	}
	built, err := plugins.Build(spec, entries)
	if err != nil {
		return err
	}
	r.pool = pool.New("default", r)
	r.addresses = map[string]netip.AddrPort{}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Seed = built, []*pool.Pool{r.pool}, r, r.seed
	r.scheduler, err = exchange.New(o)
	return err
}

// membership makes the named endpoints the members.
func (r *run) membership(args []string) error {
	if r.scheduler == nil {
		if err := r.build(); err != nil {
			return err
		}
	}
	names, fields, err := split(args)
	if err != nil {
		return err
	}
	var members []pool.Endpoint
	for _, name := range names {
		if _, known := r.addresses[name]; !known {
			n := len(r.addresses)
			r.addresses[name] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 8000)
		}
		members = append(members, pool.Endpoint{Namespace: "default", Name: name, Addr: r.addresses[name]})
	}
	r.pool.Update(r.now, members)
	if len(fields) > 0 {
		return r.observe(names, fields)
	}
	return nil
}

func (r *run) sample(args []string) error {
	names, fields, err := split(args)
	if err != nil {
		return err
	}
	return r.observe(names, fields)
}

func (r *run) observe(names []string, fields map[string]float64) error {
	s := pool.Sample{At: r.now, Blocks: -1, BlockTokens: 16, ProcessStart: -1}
	for name, v := range fields {
		switch name {
		case "waiting":
			s.Waiting = int32(v)
		case "running":
			s.Running = int32(v)
		case "kv-usage":
			s.KVUsage = v
		case "kv-blocks":
			s.Blocks = int32(v)
		case "block-tokens":
			s.BlockTokens = int32(v)
		case "process":
			s.ProcessStart = v
		default:
			return fmt.Errorf("a sample has no field %q", name)
		}
	}
	for _, name := range names {
		id, ok := r.pool.Snapshot().Lookup(r.addresses[name])
		if !ok {
			return fmt.Errorf("%q is no member", name)
		}
		r.pool.Observe(r.now, r.pool.Snapshot().Slots[id].Ref, s)
	}
	return nil
}

func (r *run) wait(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it takes a duration")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	end := r.now + pool.Instant(d)
	for {
		next := r.scheduler.Tick(r.now)
		if next == 0 || next > end {
			break
		}
		r.now = max(next, r.now+1)
	}
	r.now = end
	return nil
}

// happen lets something happen to requests that are under way.
func (r *run) happen(what string, args []string) error {
	which, from := args, ""
	if i := slices.Index(args, "from"); i >= 0 && i+1 < len(args) {
		which, from = args[:i], args[i+1]
	}
	chosen, err := r.which(which)
	if err != nil {
		return err
	}
	for _, s := range chosen {
		switch what {
		case "answer":
			if err := r.answer(s, from); err != nil {
				return err
			}
		case "finish":
			if err := r.answer(s, from); err != nil {
				return err
			}
			s.x.Chunk(r.now, nil, true)
			s.x.End(r.now, exchange.Ending{Clean: true})
			r.over(s)
		case "abort":
			s.x.End(r.now, exchange.Ending{ByClient: true})
			r.over(s)
		case "unreachable":
			a := s.x.Failed(r.now, r.addresses[s.to[0]], reason.UpstreamUnreachable)
			if a.Do == exchange.Reply {
				s.refused = a.Reply.Details
				r.over(s)
			} else {
				s.to = r.names(a.To)
			}
		}
	}
	return nil
}

func (r *run) answer(s *sent, from string) error {
	if s.answered {
		return nil
	}
	if from == "" {
		from = s.to[0]
	}
	at, ok := r.addresses[from]
	if !ok {
		return fmt.Errorf("no endpoint was ever named %q", from)
	}
	s.answered = true
	s.x.Response(r.now, openai.Headers{{Name: ":status", Value: "200"}}, at, false)
	return nil
}

func (r *run) over(s *sent) {
	r.sent = slices.DeleteFunc(r.sent, func(o *sent) bool { return o == s })
}

// which returns the open requests that a word speaks of.
func (r *run) which(args []string) ([]*sent, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("it takes all, last, or a number")
	}
	switch args[0] {
	case "all":
		return slices.Clone(r.sent), nil
	case "last":
		return slices.DeleteFunc(slices.Clone(r.last), func(s *sent) bool { return !slices.Contains(r.sent, s) }), nil
	}
	var n int
	if err := one(args, &n); err != nil || n < 1 || n > len(r.sent) {
		return nil, fmt.Errorf("%q is neither all nor last nor a number of the %d requests under way", args[0], len(r.sent))
	}
	return slices.Clone(r.sent[:n]), nil
}

// names returns the endpoints at these addresses.
func (r *run) names(at []netip.AddrPort) []string {
	var names []string
	for _, a := range at {
		for name, known := range r.addresses {
			if known == a {
				names = append(names, name)
			}
		}
	}
	return names
}

// decision returns the record of the last request's decision.
func (r *run) decision() (exchange.Record, error) {
	if len(r.last) == 0 {
		return exchange.Record{}, fmt.Errorf("nothing was sent")
	}
	d, ok := r.scheduler.Decision(r.last[len(r.last)-1].x.ID)
	if !ok || len(d.Record.Profiles) == 0 {
		return exchange.Record{}, fmt.Errorf("the last request was not decided")
	}
	return d.Record, nil
}

// values reads a column of a record.
func values(of plugins.Values) ([]float64, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var out []float64
	return out, json.Unmarshal(raw, &out)
}
