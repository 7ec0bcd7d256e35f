package producers

import (
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// LoadModel says of each engine how much work stands before it and what a prompt's token and a decode step cost it, in
// milliseconds. It has no parameters: costs begin with those of one H100 SXM with Llama-3.1-8B, scaled by the endpoint's
// class of hardware where somebody tells it, and are learned from the own requests.
//
//   - A prompt's token: from the time between a booking and its first byte, and the work that stood before it.
//   - A decode step: from the time between first byte and end of answers whose number of tokens is known, what decoded beside
//     them, and the prompts that were computed meanwhile.
//
// Both are ratios to the class's prior. What few answers of one engine have shown is drawn to what its class shows, and that to
// the pool: a new pod begins with what its like have shown. Engines of a class are alike until one shows more than chance does: one that
// is slower is known within some ten answers, and forgotten when it has had none for a minute.
//
// Where own requests show less than half of what an engine counts of first tokens, or of gaps between tokens, its own histograms
// are learned from in their place: where answers come at once, where headers come before first tokens, and where others send most
// requests.
//
// The own books are the load, and telemetry adds what they cannot know: requests that others sent, and how much of its memory an
// engine uses. A sample that is missing or stale changes nothing, but that the use of memory that it told is gone by for a minute.
type LoadModel struct {
	pools []*fleetLoad // by the pool's place in the configuration; each is guarded by its pool's lock

	prompt   plugins.RequestValue[int64]
	cached   plugins.EndpointValues[int64]
	waiting  plugins.EndpointValues[int32]
	running  plugins.EndpointValues[int32]
	usage    plugins.EndpointValues[float64]
	classes  plugins.EndpointValues[plugins.CapacityClass]
	isCached bool

	loads   plugins.EndpointValues[plugins.EngineLoad]
	traffic plugins.RequestValue[plugins.Traffic]
}

var (
	_ plugins.Producer = (*LoadModel)(nil)
	_ plugins.Observer = (*LoadModel)(nil)
	_ plugins.Heir     = (*LoadModel)(nil)
)

// NewLoadModel returns a LoadModel.
func NewLoadModel() *LoadModel { return &LoadModel{} }

// Provision says what is read and made.
func (l *LoadModel) Provision(b *plugins.Builder) error {
	l.prompt = plugins.Needs(b, plugins.PromptTokens)
	l.waiting, l.running = plugins.Needs(b, plugins.WaitingRequests), plugins.Needs(b, plugins.RunningRequests)
	l.usage = plugins.Needs(b, plugins.KVUsage)
	l.cached, l.isCached = plugins.Uses(b, plugins.CachedTokens)
	l.classes = plugins.Needs(b, plugins.CapacityClasses)
	l.loads, l.traffic = plugins.Provides(b, plugins.EngineLoads), plugins.Provides(b, plugins.Traffics)
	l.pools = make([]*fleetLoad, len(b.Pools))
	for i := range l.pools {
		l.pools[i] = newFleetLoad()
	}
	return nil
}

// Inherit goes on with what was learned of each pool that stays.
func (l *LoadModel) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			l.pools[i] = from.(*LoadModel).pools[was]
		}
	}
}

// Produce has nothing to add before the books are open.
func (*LoadModel) Produce(*plugins.Cycle) {}

// Observe learns what the books tell that they did not at the last decision, and says what is believed of each candidate.
func (l *LoadModel) Observe(c *plugins.Cycle, books *pool.Books) {
	f := l.pools[c.PoolIndex]
	books.AttentionTokens = attentionTokens
	f.learn(c, books)
	if f.isDue(c.Now) {
		f.classify(c, l.classes.Of(c))
		f.tick(c, books)
	}
	loads := l.loads.Of(c)
	waiting, running, usage := l.waiting.Of(c), l.running.Of(c), l.usage.Of(c)
	for _, id := range c.Candidates {
		e := &f.engines[id]
		if at := books.Samples[id].At; at != e.sampled && running[id] != plugins.Unknown {
			e.sampled = at
			e.reconcile(max(waiting[id], 0)+running[id], books.Requests[id]-books.AfterSample[id])
			f.counted(e, &books.Samples[id], books, id, c.Now)
		}
		f.describe(&loads[id], id, c.Now, books, waiting[id], usage[id])
	}
	books.LongPrompt = f.isLong(c, l, loads)
	l.traffic.Set(c.Request, plugins.Traffic{PerSecond: f.perSecond, PrefillMS: f.meanPrefill(), Reuse: f.reused(), LongPods: f.longPods, OutputTokens: f.output(c.Request), HeadersFirst: f.first.headers})
}

// isLong reports whether the prompt at hand is long for the traffic wherever it goes.
func (f *fleetLoad) isLong(c *plugins.Cycle, l *LoadModel, loads []plugins.EngineLoad) bool {
	prompt, least := float64(max(l.prompt.Of(c.Request), 0)), -1.0
	if len(c.Candidates) == 0 || !plugins.LongPrompt(loads[c.Candidates[0]].Prefill(prompt, 0), f.meanPrefill()) {
		return false // nor is it where it is computed sooner
	}
	cached := l.cached.Of(c)
	for _, id := range c.Candidates {
		known := 0.0
		if l.isCached {
			known = float64(max(cached[id], 0))
		}
		if ms := loads[id].Prefill(max(prompt-known, 0), known); least < 0 || ms < least {
			least = ms
		}
	}
	return plugins.LongPrompt(least, f.meanPrefill())
}

// usageLasts is for how long the last reading of an engine's memory is gone by where none is fresh. What came and went since, the books
// know; what of it prompts share, they do not.
const usageLasts = pool.Instant(time.Minute)

// describe says what is believed of one engine.
func (f *fleetLoad) describe(out *plugins.EngineLoad, id pool.ID, now pool.Instant, books *pool.Books, waiting int32, usage float64) {
	e := &f.engines[id]
	*out = e.told
	out.BacklogMS = float64(max(books.BacklogEnds[id]-now, 0)) / float64(time.Millisecond)
	if left := books.StillToDo(id); left > 0 && !short(&books.Samples[id]) {
		out.BacklogMS = max(out.BacklogMS, float64(left)*out.PrefillMSPerToken)
	}
	own, context, decode := float64(books.Requests[id]), float64(books.ContextTokens[id]), float64(books.DecodeTokens[id])
	foreign := e.foreigners()
	size := usualTokens // of a request; only those that the books do not know are counted by it
	if own > 0 && (foreign > 0 || books.AfterSample[id] > 0 || waiting > 0) {
		size = (context + decode) / own
	}
	out.Running = own + foreign
	out.ResidentTokens = context + decode/2 + foreign*size
	if foreign > 0 && waiting > 0 {
		out.BacklogMS += min(foreign, float64(waiting)) * max(f.meanPrefill(), 0)
	}
	if s := &books.Samples[id]; s.Blocks > 0 && s.BlockTokens > 0 {
		out.CapacityTokens = float64(s.Blocks) * float64(s.BlockTokens)
		if usage == plugins.Unknown && s.At > 0 && now-s.At <= usageLasts {
			usage, waiting = s.KVUsage, s.Waiting
			if own > 0 {
				size = (context + decode) / own
			}
		}
		if usage != plugins.Unknown {
			// What waits for its memory has its answer and what of its prompt is not found there before it.
			unmet := float64(max(waiting, 0)) * size * (1 - f.reused())
			out.PromisedTokens = usage*out.CapacityTokens + float64(books.SinceSample[id]) + decode/2 + unmet
		} else {
			// What prompts share stands there once.
			out.PromisedTokens = context*(1-f.reused()) + decode + foreign*size*(1-f.reused())
		}
	}
}
