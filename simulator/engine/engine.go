// Package engine is the model of one vLLM server: which requests run in a step, what each step computes, how long it takes,
// and what stays in the KV cache. It follows the V1 scheduler (vllm/v1/core/sched/scheduler.py) and its prefix cache
// (docs/design/prefix_caching.md).
//
// An engine has no clock. Its host hands in instants, as elapsed time since the run began, and asks when to come back:
//
//	e, err := engine.New(profile, engine.Options{})
//	id, err := e.Add(now, engine.Request{Prompt: 1000, Output: 50, Hashes: hashes})
//	for {
//		r := e.Step(now)                  // ends the running step if now is its end, begins the next
//		// deliver r.Tokens and r.Finished
//		next, busy := e.Next()
//		if !busy { break }                // nothing to do until the next Add
//		now = next                        // or wait until then, and Add what arrives meanwhile
//	}
//
// The same inputs at the same instants give the same steps, in wall-clock time and in virtual time. A step in the steady
// state allocates nothing. Skip makes rows of steps at once in which nothing but decoding happens. An Engine is not safe for
// concurrent use.
//
// Where a rule follows vLLM, its comment names the place: Scheduler is vllm/v1/core/sched/scheduler.py, KVCacheManager
// vllm/v1/core/kv_cache_manager.py, BlockPool vllm/v1/core/block_pool.py.
//
// Left out of the real engine are asynchronous scheduling, which notices a stop one step later; priorities and speculative
// decoding; and the time that the API server spends on HTTP and text (some 20 ms per request in the calibration data).
package engine

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options are an engine's settings beside its profile. The zero Options are vLLM's defaults.
type Options struct {
	// MaxWaiting bounds the waiting requests; an Add beyond is ErrQueueFull. 0: unbounded, as in vLLM. Preempted requests
	// return to the queue whatever its length.
	MaxWaiting int32

	// LongPrefill bounds the tokens that one request computes in a step (long_prefill_token_threshold). 0: the budget alone.
	LongPrefill int32

	// Adapters is the number of LoRA adapters that requests may name, 1 … Adapters; MaxLoras how many different ones may run
	// at a time, at least 1 where there are any.
	Adapters, MaxLoras int32

	// NoPrefixCache switches the prefix cache off (enable_prefix_caching=False).
	NoPrefixCache bool

	// NoChunkedPrefill makes a prompt that does not fit into what is left of a step's budget wait, and everything behind it
	// (enable_chunked_prefill=False). Prompts longer than MaxBatchedTokens are refused then.
	NoChunkedPrefill bool

	// BlockEvents records which contents come into the cache and leave it; see Result.Blocks.
	BlockEvents bool
}

// Request is what an engine needs to know of a request. It knows no text: tokens are counted, contents are hashes.
type Request struct {
	// Prompt is the number of prompt tokens, at least 1.
	Prompt int32

	// Output is the number of tokens that will be generated, at least 1. The engine behaves as if it did not know it.
	Output int32

	// Hashes identifies the contents of each full block of prompt and output in order, as Chain makes them. Blocks beyond
	// its length are never shared. The slice is kept, and must not be modified, until the request ends.
	Hashes []uint64

	// Adapter is the LoRA adapter, 0 for the base model. Hashes of different adapters must differ.
	Adapter int32

	// RemoteKV says that another engine has computed the prompt (do_remote_prefill): blocks are given to it when its turn
	// comes, and it waits for their contents without taking part in steps. See Result.Loading and Loaded.
	RemoteKV bool

	// HoldKV keeps the blocks of the request when it has finished (do_remote_decode), until Release.
	HoldKV bool
}

// ID names a request until it ends. Slots are dense and reused, so a host may keep its own columns by slot; the generation
// tells a later tenant of the slot from an earlier one.
type ID struct {
	Slot       int32
	Generation uint32
}

// ErrQueueFull is returned by Add when as many requests wait as may.
var ErrQueueFull = errors.New("the engine's waiting queue is full; try another engine or later")

// Engine is one simulated vLLM engine.
type Engine struct {
	profile Profile
	options Options

	sequences []sequence // by slot
	vacant    []int32    // slots to reuse, the last first
	running   []int32    // slots in the order of admission
	waiting   queue
	pool      *blockPool
	hits      []int32 // scratch of admit

	loraRunning []int32 // running requests by adapter; index 0 is unused
	lorasLoaded int32   // adapters with running requests
	remote      bool    // a request with RemoteKV was added

	slowdown float64
	inFlight bool
	step     Step // the running one, while inFlight
	ended    Step // the last that ended

	tokens   []Token // of the last step that ended
	finished []Finished
	victims  []ID      // preempted when the running step was put together
	loading  []Loading // given blocks since the last Result
	told     []Loading // in the last Result
	counters Counters

	events    []BlockEvent // to be published with the running step
	published []BlockEvent // with the last that ended, or those of the last row
	batches   uint64       // published

	skipped []Step // scratch of Skip
	phases  []int32
	phased  []int32
	skipIDs []ID
}

type state uint8

const (
	vacant state = iota
	isWaiting
	isRunning
	isHeld // finished; its blocks wait for Release
)

// sequence is one request's progress.
type sequence struct {
	Request
	generation uint32
	state      state
	aborted    bool // ends with the running step
	loading    bool // waits for contents from another engine; has its blocks
	loaded     bool // these have come: its computed tokens are kept at the next admission

	total     int32 // tokens known: prompt and generated ones
	computed  int32 // of these, those whose keys and values are in blocks
	scheduled int32 // of these, those that the running step computes
	hashed    int32 // blocks that were offered to the prefix cache
	blocks    []int32

	prev, next int32 // neighbours in the waiting queue

	admitted bool // once
	timeline Timeline
}

// New returns an idle engine with an empty cache. The error names the first setting that makes no sense.
func New(p Profile, o Options) (*Engine, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := atLeast(p.Hardware, []bound{
		{"MaxWaiting", o.MaxWaiting, 0},
		{"LongPrefill", o.LongPrefill, 0},
		{"Adapters", o.Adapters, 0},
		{"MaxLoras", o.MaxLoras, min(o.Adapters, 1)},
	}); err != nil {
		return nil, err
	}
	usable := p.Blocks - 1 // vLLM keeps the first block for itself
	p.MaxModelLen = int32(min(int64(p.MaxModelLen), int64(usable)*int64(p.BlockTokens)))
	if o.LongPrefill == 0 {
		o.LongPrefill = math.MaxInt32
	}
	return &Engine{
		profile:     p,
		options:     o,
		waiting:     queue{head: none, tail: none},
		pool:        newBlockPool(usable),
		loraRunning: make([]int32, o.Adapters+1),
		slowdown:    1,
	}, nil
}

// maxBlocks bounds the KV blocks of an engine, each of which takes some 32 bytes here: 268 million tokens of 16 a block.
const maxBlocks = 1 << 24

// check refuses a profile that makes no sense, and names what in it.
func (p Profile) check() error {
	if p.Blocks > maxBlocks {
		return fmt.Errorf("engine %s: Blocks is %d; at most %d", p.Hardware, p.Blocks, maxBlocks)
	}
	if err := atLeast(p.Hardware, []bound{
		{"Blocks", p.Blocks, 2},
		{"BlockTokens", p.BlockTokens, 1},
		{"MaxBatchedTokens", p.MaxBatchedTokens, 1},
		{"MaxSeqs", p.MaxSeqs, 1},
		{"MaxModelLen", p.MaxModelLen, 2},
		{"Step.Experts", p.Step.Experts, 0},
		{"Step.ExpertsPerToken", p.Step.ExpertsPerToken, 0},
	}); err != nil {
		return err
	}
	t := p.Step
	switch {
	case t.Base <= 0:
		return fmt.Errorf("engine %s: Step.Base is %v; a step takes time", p.Hardware, t.Base)
	case t.PerPrefillToken < 0 || t.PerSequence < 0 || t.PerContextToken < 0 || t.AllExperts < 0 || t.AttentionTokens < 0 || t.ReferenceContext < 0:
		return fmt.Errorf("engine %s: Step is %+v; nothing in it may be negative", p.Hardware, t)
	case t.AllExperts > 0 && (t.Experts < 1 || t.ExpertsPerToken > t.Experts):
		return fmt.Errorf("engine %s: Step.AllExperts is %v with %d of %d experts per token", p.Hardware, t.AllExperts, t.ExpertsPerToken, t.Experts)
	}
	return nil
}

type bound struct {
	name         string
	value, least int32
}

func atLeast(engine string, bounds []bound) error {
	for _, b := range bounds {
		if b.value < b.least {
			return fmt.Errorf("engine %s: %s is %d; at least %d", engine, b.name, b.value, b.least)
		}
	}
	return nil
}

// Profile returns the engine's profile. Its MaxModelLen is what the KV memory can hold, if that is less than the model's.
func (e *Engine) Profile() Profile { return e.profile }

// Add appends a request to the waiting queue. On an idle engine the host calls Step next, at the same instant; otherwise the
// request is looked at when the running step ends. The error is ErrQueueFull, or says what is wrong with the request.
func (e *Engine) Add(now time.Duration, r Request) (ID, error) {
	switch {
	case r.Prompt < 1 || r.Output < 1:
		return ID{}, fmt.Errorf("request of %d prompt and %d output tokens; at least 1 each", r.Prompt, r.Output)
	case int64(r.Prompt)+int64(r.Output) > int64(e.profile.MaxModelLen):
		return ID{}, fmt.Errorf("request of %d prompt and %d output tokens; together at most %d", r.Prompt, r.Output, e.profile.MaxModelLen)
	case r.Adapter < 0 || r.Adapter > e.options.Adapters:
		return ID{}, fmt.Errorf("request for adapter %d; there are %d", r.Adapter, e.options.Adapters)
	case e.options.NoChunkedPrefill && r.Prompt > e.profile.MaxBatchedTokens:
		return ID{}, fmt.Errorf("request of %d prompt tokens; at most the %d of a step, since prompts are not cut", r.Prompt, e.profile.MaxBatchedTokens)
	case e.options.MaxWaiting > 0 && e.waiting.length >= e.options.MaxWaiting:
		return ID{}, ErrQueueFull
	}
	slot := e.takeSlot()
	s := &e.sequences[slot]
	s.Request = r
	s.state = isWaiting
	s.aborted, s.admitted, s.loading, s.loaded = false, false, false, false
	s.total, s.computed, s.scheduled, s.hashed = r.Prompt, 0, 0, 0
	s.timeline = Timeline{Arrived: now, Prompt: r.Prompt}
	e.remote = e.remote || r.RemoteKV
	e.waiting.pushBack(e.sequences, slot)
	return ID{slot, s.generation}, nil
}

// Abort ends a request and frees its blocks: at once if it waits or no step runs, else when the running step ends. It
// reports whether the request was alive; one that ended or was aborted before is left alone.
func (e *Engine) Abort(id ID) bool {
	if id.Slot < 0 || int(id.Slot) >= len(e.sequences) {
		return false
	}
	s := &e.sequences[id.Slot]
	if s.generation != id.Generation || s.state == vacant || s.state == isHeld || s.aborted {
		return false
	}
	e.counters.Aborted++
	switch {
	case s.state == isWaiting:
		e.waiting.remove(e.sequences, id.Slot)
		e.dropBlocks(s)
		e.leave(id.Slot)
	case e.inFlight:
		s.aborted = true
	default:
		for i, slot := range e.running {
			if slot == id.Slot {
				e.running = append(e.running[:i], e.running[i+1:]...)
				break
			}
		}
		e.stopRunning(id.Slot)
		e.leave(id.Slot)
	}
	return true
}

// Next returns when the running step ends, and whether one runs; without one the instant means nothing.
func (e *Engine) Next() (time.Duration, bool) { return e.step.End, e.inFlight }

// Stall makes the running step end later by d, as if the device had stood still. Without a running step it does nothing.
func (e *Engine) Stall(d time.Duration) {
	if e.inFlight {
		e.step.End += d
	}
}

// SetSlowdown makes each step that begins from now on take factor times as long; 1 is the profile's own speed. A factor that
// is not a positive number is taken as 1.
func (e *Engine) SetSlowdown(factor float64) {
	if !(factor > 0) || math.IsInf(factor, 1) {
		factor = 1
	}
	e.slowdown = factor
}

// ResetCache forgets all cached contents, and reports whether it did: it refuses while any request holds blocks.
func (e *Engine) ResetCache() bool {
	if e.pool.used() > 0 {
		return false
	}
	e.pool.forget()
	if e.options.BlockEvents {
		// As in vLLM, nobody hears of it before the next step ends.
		e.events = append(e.events, BlockEvent{Kind: Cleared})
	}
	return true
}

// SetAdapters makes requests for the adapters 1 … n possible. It never takes adapters away: a lower n than there are changes
// nothing.
func (e *Engine) SetAdapters(n int32) {
	if n <= e.options.Adapters {
		return
	}
	e.options.Adapters = n
	e.options.MaxLoras = max(e.options.MaxLoras, 1)
	e.loraRunning = append(e.loraRunning, make([]int32, int(n)+1-len(e.loraRunning))...)
}

func (e *Engine) takeSlot() int32 {
	if n := len(e.vacant); n > 0 {
		slot := e.vacant[n-1]
		e.vacant = e.vacant[:n-1]
		return slot
	}
	e.sequences = append(e.sequences, sequence{generation: 1})
	return int32(len(e.sequences) - 1)
}

// leave vacates the slot of a request that neither waits nor runs any more.
func (e *Engine) leave(slot int32) {
	s := &e.sequences[slot]
	s.state = vacant
	s.Hashes = nil
	s.generation++
	e.vacant = append(e.vacant, slot)
}

// stopRunning gives back the blocks and the adapter of a request that was taken from e.running.
func (e *Engine) stopRunning(slot int32) {
	s := &e.sequences[slot]
	e.dropBlocks(s)
	e.dropAdapter(s)
}

func (e *Engine) dropBlocks(s *sequence) {
	e.pool.release(s.blocks)
	s.blocks = s.blocks[:0]
}

func (e *Engine) dropAdapter(s *sequence) {
	if s.Adapter > 0 {
		e.loraRunning[s.Adapter]--
		if e.loraRunning[s.Adapter] == 0 {
			e.lorasLoaded--
		}
	}
}
