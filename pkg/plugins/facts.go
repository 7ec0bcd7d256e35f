package plugins

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Unknown is the value of a number that nobody gave: neither idle nor busy.
const Unknown = -1

// Fact is one typed datum that plugins share, declared once below. H is its handle. Name is what records, documentation
// and the notation of tests call it.
type Fact[H handle[H]] struct {
	Name, Unit, Source string

	// pool fills an endpoint fact that comes from samples, books or the membership, inside the pool's lock.
	pool func(c *Cycle, h H)
	// request makes a request fact that the framework itself knows; a plugin that provides the fact takes its place. reads is
	// what of the request it is made of: a plugin that reads the fact has it awaited.
	request func(r *Request, h H)
	reads   Reads
}

// The facts. An endpoint fact is a column with one value per slot of the snapshot, indexed by pool.ID.
var (
	// PromptTokens is the length of the prompt. Without a tokenizer it is the exact number where the client sent token
	// ids, else the prompt's bytes / 4, rounded up; 0 without a prompt.
	PromptTokens = Fact[RequestValue[int64]]{Name: "prompt-tokens", Unit: "tokens", Source: "request body", request: fillPromptTokens, reads: ReadsBody}

	// ExpectedOutput is how many tokens the request is expected to generate, over all its completions and within its bound
	// (max_tokens × n); 0 where nothing is generated. Books count it, where somebody provides it.
	ExpectedOutput = Fact[RequestValue[int64]]{Name: "expected-output", Unit: "tokens", Source: "output-length-producer"}

	// TTFTTarget and ITLTarget are how long the client will wait for the first token, and between tokens, as its headers
	// x-llm-d-slo-ttft-ms and x-llm-d-slo-tpot-ms say; Unknown without them, and where they are no number above 0 and up to a
	// day.
	TTFTTarget = Fact[RequestValue[float64]]{Name: "ttft-target", Unit: "ms", Source: "request headers", request: fillTTFTTarget}
	ITLTarget  = Fact[RequestValue[float64]]{Name: "itl-target", Unit: "ms", Source: "request headers", request: fillITLTarget}

	// PredictedTTFT and PredictedITL are how long the request's first token would take on each endpoint from the decision on,
	// and how long lie between its tokens, on average; Unknown where nobody predicts. HighTTFT and HighITL are what nine of ten
	// such requests stay below.
	PredictedTTFT = Fact[EndpointValues[float64]]{Name: "predicted-ttft", Unit: "ms", Source: "predicted-latency-producer"}
	PredictedITL  = Fact[EndpointValues[float64]]{Name: "predicted-itl", Unit: "ms", Source: "predicted-latency-producer"}
	HighTTFT      = Fact[EndpointValues[float64]]{Name: "high-ttft", Unit: "ms", Source: "predicted-latency-producer"}
	HighITL       = Fact[EndpointValues[float64]]{Name: "high-itl", Unit: "ms", Source: "predicted-latency-producer"}

	// RequestedModel is the model or LoRA adapter as the engine will be asked for it; empty where the request names none.
	RequestedModel = Fact[RequestValue[string]]{Name: "requested-model", Unit: "", Source: "request body", request: fillRequestedModel, reads: ReadsModel}

	// SessionID is a hash of what names the client's session, 0 without one. The name itself, which may be a secret, is no fact.
	SessionID = Fact[RequestValue[uint64]]{Name: "session-id", Unit: "hash", Source: "session-id-producer"}

	// AgentID is the session id of a coding agent, as its headers give it; empty without one.
	AgentID = Fact[RequestValue[string]]{Name: "agent-id", Unit: "", Source: "agent-identity"}

	// SteeredTo are the endpoints that a test names by its header test-epp-endpoint-selection, as sent.
	SteeredTo = Fact[RequestValue[[]string]]{Name: "steered-to", Unit: "address, with or without port", Source: "request headers", request: fillSteeredTo}

	// BlockHashes are the chained hashes of the prompt's full blocks; they cover model, adapter, salt, tools and every part.
	BlockHashes = Fact[RequestValue[[]uint64]]{Name: "block-hashes", Unit: "hash per block", Source: "a prefix producer"}

	// WaitingRequests is the number of requests that wait in the engine, as last scraped; Unknown if never scraped or stale.
	WaitingRequests = Fact[EndpointValues[int32]]{Name: "waiting", Unit: "requests", Source: "telemetry", pool: fillWaiting}

	// RunningRequests is the number of requests in the engine's batch, as last scraped; Unknown if never scraped or stale.
	RunningRequests = Fact[EndpointValues[int32]]{Name: "running", Unit: "requests", Source: "telemetry", pool: fillRunning}

	// KVUsage is the used share of the engine's KV cache, 0..1, as last scraped; Unknown if never scraped or stale.
	KVUsage = Fact[EndpointValues[float64]]{Name: "kv-usage", Unit: "0..1", Source: "telemetry", pool: fillKVUsage}

	// BookedAfterSample is the number of own bookings that were made after the endpoint's last sample was taken and that have
	// no first byte yet: what the sample cannot have seen. Never Unknown.
	BookedAfterSample = Fact[EndpointValues[int32]]{Name: "booked-after-sample", Unit: "requests", Source: "books", pool: fillAfterSample}

	// QueuedRequests is WaitingRequests + BookedAfterSample; Unknown where WaitingRequests is.
	QueuedRequests = Fact[EndpointValues[int32]]{Name: "queued", Unit: "requests", Source: "telemetry and books", pool: fillQueued}

	// InFlightRequests is the number of own bookings that have not ended. Never Unknown.
	InFlightRequests = Fact[EndpointValues[int32]]{Name: "in-flight", Unit: "requests", Source: "books", pool: fillInFlight}

	// InFlightTokens is the uncached prefill of the own bookings without a first byte; inflight-load-producer may add the
	// tokens of answers. Never Unknown.
	InFlightTokens = Fact[EndpointValues[int64]]{Name: "in-flight-tokens", Unit: "tokens", Source: "books", pool: fillInFlightTokens}

	// RunningAdapters and WaitingAdapters are the LoRA adapters with requests in the engine, sorted, and MaxAdapters how many
	// different ones may run at a time, as last scraped; nil and Unknown if never scraped or stale.
	RunningAdapters = Fact[EndpointValues[[]string]]{Name: "running-adapters", Unit: "", Source: "telemetry", pool: fillRunningAdapters}
	WaitingAdapters = Fact[EndpointValues[[]string]]{Name: "waiting-adapters", Unit: "", Source: "telemetry", pool: fillWaitingAdapters}
	MaxAdapters     = Fact[EndpointValues[int32]]{Name: "max-adapters", Unit: "adapters", Source: "telemetry", pool: fillMaxAdapters}

	// AdapterHere says of each engine whether the LoRA adapter that the request asks for is at work there, and AdapterPlaces for how
	// many more there is room; Unknown where the request asks for none, or engines tell nothing of adapters.
	AdapterHere   = Fact[EndpointValues[bool]]{Name: "adapter-here", Unit: "", Source: "adapter-producer"}
	AdapterPlaces = Fact[EndpointValues[int32]]{Name: "adapter-places", Unit: "adapters", Source: "adapter-producer"}

	// AdapterClaims is where the request counts as one of its adapter's; the producer's own business.
	AdapterClaims = Fact[RequestValue[AdapterClaim]]{Name: "adapter-claim", Unit: "", Source: "adapter-producer"}

	// CacheBlocks is the number of KV blocks of the engine and CacheBlockTokens their size; Unknown until scraped.
	CacheBlocks      = Fact[EndpointValues[int32]]{Name: "cache-blocks", Unit: "blocks", Source: "telemetry", pool: fillBlocks}
	CacheBlockTokens = Fact[EndpointValues[int32]]{Name: "cache-block-tokens", Unit: "tokens", Source: "telemetry", pool: fillBlockTokens}

	// CachedTokens is the longest prefix of the prompt that is believed to be cached.
	CachedTokens = Fact[EndpointValues[int64]]{Name: "cached-tokens", Unit: "tokens", Source: "a prefix producer"}

	// CachedBlocks is the same in blocks of the producer, and PromptBlocks the number of full blocks of the prompt.
	CachedBlocks = Fact[EndpointValues[int32]]{Name: "cached-blocks", Unit: "blocks", Source: "a prefix producer"}
	PromptBlocks = Fact[RequestValue[int32]]{Name: "prompt-blocks", Unit: "blocks", Source: "a prefix producer"}

	// PrefixCredits are what a prefix producer wrote into its index on behalf of the request, one per leg, and PrefixMatched is
	// how many changes its index had seen when the prompt was matched; its own business.
	PrefixCredits = Fact[RequestValue[[]PrefixCredit]]{Name: "prefix-credits", Unit: "", Source: "a prefix producer"}
	PrefixMatched = Fact[RequestValue[int64]]{Name: "prefix-matched", Unit: "changes", Source: "a prefix producer"}

	// EngineLoads are what the load model believes of each engine, and Traffics what it believes of the pool's traffic.
	EngineLoads = Fact[EndpointValues[EngineLoad]]{Name: "engine-load", Unit: "ms and tokens", Source: "load-model-producer"}
	Traffics    = Fact[RequestValue[Traffic]]{Name: "traffic", Unit: "requests/s and ms", Source: "load-model-producer"}

	// LatencyGuesses are what a latency predictor knew of the endpoint that was chosen; its own business.
	LatencyGuesses = Fact[RequestValue[LatencyGuess]]{Name: "latency-guess", Unit: "", Source: "predicted-latency-producer"}

	// HotPrefixes is the beginning of the prompt that many share, and DeliberateCopies says of each candidate whether the request
	// shall bring it there, though others have it.
	HotPrefixes      = Fact[RequestValue[HotPrefix]]{Name: "hot-prefix", Unit: "", Source: "hot-prefix-producer"}
	DeliberateCopies = Fact[EndpointValues[bool]]{Name: "deliberate-copy", Unit: "", Source: "hot-prefix-producer"}

	// SampleAges are how old the endpoints' last samples are; Unknown if never scraped.
	SampleAges = Fact[EndpointValues[int64]]{Name: "sample-age", Unit: "ms", Source: "telemetry", pool: fillSampleAge}

	// Labels are the endpoint's labels; they must not be modified.
	Labels = Fact[EndpointValues[map[string]string]]{Name: "labels", Unit: "", Source: "discovery", pool: fillLabels}

	// Localities say where endpoints run; what is not known is empty.
	Localities = Fact[EndpointValues[Locality]]{Name: "locality", Unit: "", Source: "topology-extractor"}

	// EndpointHealth says of each endpoint whether it may be chosen, and why not.
	EndpointHealth = Fact[EndpointValues[Health]]{Name: "endpoint-health", Unit: "", Source: "health-filter"}

	// Ceilings are how many own requests each endpoint has room for, as far as it was seen; Unknown where nothing was.
	Ceilings = Fact[EndpointValues[int32]]{Name: "endpoint-ceiling", Unit: "requests", Source: "concurrency-ceiling-filter"}

	// CapacityClasses say on what each endpoint runs and how fast that is expected to be; every candidate has one.
	CapacityClasses = Fact[EndpointValues[CapacityClass]]{Name: "capacity-class", Unit: "relative to an H100 SXM", Source: "capacity-class-producer"}
)

// HeaderValue is the fact of one header of the client's, by its lower-case name: its first value, empty without one. Records
// keep it, so that no header with a secret is to be read in this way; [HeaderName] refuses their names.
func HeaderValue(name string) Fact[RequestValue[string]] {
	return Fact[RequestValue[string]]{Name: "header." + name, Unit: "", Source: "request headers",
		request: func(r *Request, h RequestValue[string]) { h.Set(r, r.Headers.Get(name)) }}
}

// AttributeNamed is the fact of one attribute of endpoints: what telemetry reads under this name, while it is fresh; else
// the annotation, else the label of this name if it is a number.
func AttributeNamed(name string) Fact[EndpointValues[Scalar]] {
	return Fact[EndpointValues[Scalar]]{Name: attributePrefix + name, Unit: "", Source: "telemetry, or annotations and labels",
		pool: func(c *Cycle, h EndpointValues[Scalar]) { fillAttribute(c, name, h.Of(c)) }}
}

const attributePrefix = "attribute."

// PrefixCredit says that an endpoint was credited with holding the request's prompt before it really did: a handle of the
// producer's index.
type PrefixCredit struct{ Slot, Generation uint32 }

// RequestValue is the handle of a fact of the request. The zero handle was forgotten in Provision: its first use panics.
type RequestValue[T any] struct{ slot int32 }

// Of returns the value, Unknown for a number and zero else where nobody set it.
func (v RequestValue[T]) Of(r *Request) T { return r.values[v.slot].(*column[T]).v[0] }

// Set gives the value. Only the plugin that provides the fact calls it. A list keeps its memory from request to request:
// its provider appends to Of(r)[:0] and sets the outcome.
func (v RequestValue[T]) Set(r *Request, to T) { r.values[v.slot].(*column[T]).v[0] = to }

func (v RequestValue[T]) at(slot int32) RequestValue[T] { return RequestValue[T]{slot} }
func (v RequestValue[T]) cell() cell                    { c := new(column[T]); c.reset(1); return c }
func (v RequestValue[T]) perEndpoint() bool             { return false }

// EndpointValues is the handle of a fact per endpoint. The zero handle was forgotten in Provision: its first use panics.
type EndpointValues[T any] struct{ slot int32 }

// Of returns the column, indexed by pool.ID and as long as the snapshot's slots. The provider of the fact fills it in
// place; for everybody else it is read-only. It is valid during the cycle.
func (v EndpointValues[T]) Of(c *Cycle) []T { return c.columns[v.slot].(*column[T]).v }

func (v EndpointValues[T]) at(slot int32) EndpointValues[T] { return EndpointValues[T]{slot} }
func (v EndpointValues[T]) cell() cell                      { return new(column[T]) }
func (v EndpointValues[T]) perEndpoint() bool               { return true }

type handle[H any] interface {
	at(slot int32) H
	cell() cell
	perEndpoint() bool
}

// cell is the storage of one fact, with its type erased: a column per endpoint, or a single value of the request.
type cell interface {
	reset(n int)
	record(at []pool.ID) any                         // a copy of the values at these ids
	recordOne() any                                  // a copy of the single value of the request
	restore(raw json.RawMessage, at []pool.ID) error // the inverses, exact to the bit
	restoreOne(raw json.RawMessage) error
}

type column[T any] struct{ v []T }

func (c *column[T]) reset(n int) {
	if cap(c.v) < n {
		c.v = make([]T, n, n+n/4+1)
	}
	c.v = c.v[:n]
	if c.empty() {
		return
	}
	if unset, zero := unset[T](); zero {
		clear(c.v)
	} else {
		for i := range c.v {
			c.v[i] = unset
		}
	}
}

// empty empties columns of lists but keeps the lists' memory, so that whoever fills them anew appends without allocating;
// for other columns it reports false.
func (c *column[T]) empty() bool {
	switch v := any(&c.v).(type) {
	case *[][]uint64:
		for i := range *v {
			(*v)[i] = (*v)[i][:0]
		}
	case *[][]PrefixCredit:
		for i := range *v {
			(*v)[i] = (*v)[i][:0]
		}
	default:
		return false
	}
	return true
}

// unset is Unknown for the numeric types of facts and the zero value for all others.
func unset[T any]() (v T, zero bool) {
	switch p := any(&v).(type) {
	case *int32:
		*p = Unknown
	case *int64:
		*p = Unknown
	case *float64:
		*p = Unknown
	default:
		return v, true
	}
	return v, false
}

func (c *column[T]) record(at []pool.ID) any {
	out := make([]T, len(at))
	for i, id := range at {
		out[i] = c.v[id]
	}
	return out
}

func (c *column[T]) recordOne() any { return kept(c.v[0]) }

func (c *column[T]) restoreOne(raw json.RawMessage) error { return json.Unmarshal(raw, &c.v[0]) }

// kept copies a list, whose memory the next request uses again; other values are returned as they are.
func kept(v any) any {
	if list, ok := v.([]uint64); ok {
		return slices.Clone(list)
	}
	return v
}

func (c *column[T]) restore(raw json.RawMessage, at []pool.ID) error {
	var in []T
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if len(in) != len(at) {
		return fmt.Errorf("got %d values, want %d, one per candidate", len(in), len(at))
	}
	for i, id := range at {
		c.v[id] = in[i]
	}
	return nil
}
