package reason

import "time"

// The rows, in table order. New ones are appended: records keep codes, but a metric's order of labels follows this list.
const (
	_ ID = iota

	// Refusals: the client's mistake.
	MalformedJSON
	ModelRequired
	BodyTooLarge
	ModelNotFound
	ForbiddenHeader
	UnsupportedMethod

	// Refusals: nowhere to go, or no room.
	NoEndpoint
	AllFiltered
	QueueFull
	QueueTimeout
	ShuttingDown
	UpstreamUnreachable
	UpstreamBroken
	LookupTimeout

	// Refusals: our own fault.
	PluginPanic
	Internal

	// Without status: the request went on.
	NeverScraped
	StaleSample
	ScrapeFailed
	ScrapeRejected
	FallbackServed
	PickNotServed
	ServedUnknown
	UsageMissing
	BookingExpired
	ModeBlind
	SecondEndOfStream
	SubsetIgnored
	ScoreNotFinite
	ClientAborted
	UnknownLogEntry
	DiscoveryRefused
	HookPanic
	BodyUnread
	SeriesMissing
	PageReadWhole
	EngineUnknown
	MetricsPortDiffers

	// Refusals: the client's mistake, again.
	InvalidModel
	MalformedBody
	AmbiguousPath
	BodySealed
	ProfileNotFound

	// Without status: who a request is.
	IdentityIgnored
	ObjectiveUnknown

	// Requests below priority 0.
	DroppedEarly
	TargetOutOfReach
	Evicted
	NotRevocable

	// Bounds of the process.
	HeadersTooLarge
	HeldBytesFull
	TooManyRequests
	TooManyConnections
	ScanBounded
	AcceptFailed
	MalformedRequest

	// Without status: the answer was served.
	UsagePartial
	UsageRejected
	EventSkipped
	NoTerminator

	// Without status: an endpoint's labels.
	CapacityUnknown

	// Without status: endpoints that are not well.
	EndpointUnreachable
	EndpointFailing
	EndpointSlow
	EndpointHung
	EndpointSilent
	EjectionWithheld
	HealthIgnored

	// Without status: replicas that tell each other of their bookings.
	ReplicaLost
	ReplicaBehind
	ReplicaRefused
	HearsayUnknown
	OthersUnheard
	DecidedAnew

	// Without status: the load model.
	FactMissing
	// Without status: what is known of caches.
	PrefixUnconfirmed

	// Without status: what is known of load.
	SignalsOld
	// Without status: what could not be learned.
	OutputLengthsUnseen
	LatencyUnlearned
	TargetIgnored
	LatencyUnpredicted

	// Flow control.
	Shed
	GaveWay
	MemoryDoubted
	FlowsShared
	FullUnread
	HeadersFirst
)

var table = [...]Row{
	0: {Code: "none", Means: "nothing to say: the request was served plainly"},
	MalformedJSON: {Code: "malformed_json", Status: 400,
		Means:  "the body is not valid JSON",
		Remedy: "send the JSON that the API's path expects; the detail gives the offset of the first wrong byte"},
	ModelRequired: {Code: "model_required", Status: 400,
		Means:  "the request names no model, and there is more than one pool it could go to",
		Remedy: "set \"model\" in the body to one of GET /v1/models, and send content-type application/json"},
	BodyTooLarge: {Code: "body_too_large", Status: 413,
		Means:  "the body is longer than the configured limit",
		Remedy: "shorten the prompt, or raise --max-body-bytes"},
	ModelNotFound: {Code: "model_not_found", Status: 404,
		Means:  "no pool serves a model of this name",
		Remedy: "use a name that GET /v1/models lists, or add it to a pool's models or aliases"},
	ForbiddenHeader: {Code: "forbidden_header", Status: 403,
		Means:  "the client sent a header that only the gateway may set",
		Remedy: "remove the header from the client's request"},
	UnsupportedMethod: {Code: "unsupported_method", Status: 405,
		Means:  "the path exists, but not with this HTTP method",
		Remedy: "use the method that the API describes"},
	NoEndpoint: {Code: "no_endpoint", Status: 503, RetryAfter: time.Second, Dropped: "rejected-no-endpoints",
		Means:  "the pool has no endpoint that may take the request",
		Remedy: "start model servers, check discovery and the subset hint"},
	AllFiltered: {Code: "all_filtered", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "every endpoint of the pool was removed by a filter",
		Remedy: "retry later; the decision record names the filter and how many it removed"},
	QueueFull: {Code: "queue_full", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "the waiting queue is full",
		Remedy: "retry after the time that Retry-After gives"},
	QueueTimeout: {Code: "queue_timeout", Status: 429, RetryAfter: time.Second, Dropped: "rejected-ttl-expired",
		Means:  "the request waited for capacity longer than its bound",
		Remedy: "retry after the time that Retry-After gives"},
	ShuttingDown: {Code: "shutting_down", Status: 503, RetryAfter: time.Second, Dropped: "rejected-shutting-down",
		Means:  "this replica is draining and takes nothing new",
		Remedy: "retry; another replica takes the request"},
	UpstreamUnreachable: {Code: "upstream_unreachable", Status: 503, RetryAfter: time.Second,
		Means:  "no endpoint of the decision accepted the request before its first byte",
		Remedy: "check the model servers; the record lists the endpoints that were tried"},
	UpstreamBroken: {Code: "upstream_broken", Status: 502,
		Means:  "the model server broke off the exchange after the request was sent to it",
		Remedy: "check the model server's log; the request is not repeated, since it may have generated"},
	LookupTimeout: {Code: "lookup_timeout", Status: 503, RetryAfter: time.Second,
		Means:  "an answer from outside that the request needed did not come in time",
		Remedy: "check the service that the stage asks"},
	PluginPanic: {Code: "plugin_panic", Status: 500,
		Means:  "a plugin failed on this request; others are not affected",
		Remedy: "report the plugin named in the log with the decision record"},
	Internal: {Code: "internal", Status: 500,
		Means:  "an invariant of ours did not hold",
		Remedy: "report it with the decision record"},
	NeverScraped: {Code: "never_scraped",
		Means:  "a candidate has no telemetry yet; it counted as unknown, not as idle",
		Remedy: "normal for seconds after a start; else check that its metrics port answers"},
	StaleSample: {Code: "stale_sample",
		Means:  "a candidate's last telemetry is older than the bound; it counted as unknown",
		Remedy: "check that its metrics port answers within the scrape interval"},
	ScrapeFailed: {Code: "scrape_failed",
		Means:  "an endpoint's metrics page could not be read",
		Remedy: "check the metrics port, its status and size"},
	ScrapeRejected: {Code: "scrape_rejected",
		Means:  "a series on a metrics page had a value outside its range and was taken as unknown",
		Remedy: "check the engine's version; the log names the series"},
	FallbackServed: {Code: "fallback_served",
		Means:  "the primary endpoint did not answer; another of the decision's list served",
		Remedy: "check the primary's health"},
	PickNotServed: {Code: "pick_not_served",
		Means:  "an endpoint that the decision did not name served the request",
		Remedy: "check that the gateway routes by the destination header, and its view of the pool"},
	ServedUnknown: {Code: "served_unknown",
		Means:  "the gateway did not say which endpoint served, or named one outside the pool",
		Remedy: "set selected_host_key in the override_host policy"},
	UsageMissing: {Code: "usage_missing",
		Means:  "the answer carried no token usage where a hook wanted it",
		Remedy: "set stream_options.include_usage, or let the gateway read usage"},
	BookingExpired: {Code: "booking_expired",
		Means:  "a booking ended by its deadline, since no end was seen",
		Remedy: "check the access log service, or choose another response mode"},
	ModeBlind: {Code: "mode_blind",
		Means:  "nothing is seen of answers; bookings end by deadline and scrape",
		Remedy: "use the shipped Envoy configuration, or send response headers"},
	SecondEndOfStream: {Code: "second_end_of_stream",
		Means:  "the gateway ended a body twice; the second end was ignored",
		Remedy: "none needed; known of several Envoy releases"},
	SubsetIgnored: {Code: "subset_ignored",
		Means:  "an entry of the subset hint is no address and was left out",
		Remedy: "check what writes the subset metadata"},
	ScoreNotFinite: {Code: "score_not_finite",
		Means:  "a scorer returned NaN or an infinity; it counted as 0",
		Remedy: "report the scorer named in the record"},
	ClientAborted: {Code: "client_aborted",
		Means:  "the client went away before the answer was complete",
		Remedy: "none needed, unless frequent: then check client timeouts"},
	UnknownLogEntry: {Code: "unknown_log_entry",
		Means:  "an access-log entry named a decision that is not open here",
		Remedy: "none needed after a restart; else check that the gateway logs to the replica that decided"},
	DiscoveryRefused: {Code: "discovery_refused",
		Means:  "a changed endpoint file was refused; the last good membership stays",
		Remedy: "mend the file; the log gives line and column"},
	HookPanic: {Code: "hook_panic",
		Means:  "a hook failed after the decision; the request went on without it",
		Remedy: "report the plugin named in the log with the decision record"},
	BodyUnread: {Code: "body_unread",
		Means:  "the body is in a form that is passed through unread",
		Remedy: "none needed; scheduling used what the headers say"},
	SeriesMissing: {Code: "series_missing",
		Means:  "an endpoint's metrics page lacks a series that its engine should have; the quantity is unknown",
		Remedy: "check the engine's version and the endpoint's engine-type label; engineConfigs maps other names, and an empty spec asks for none"},
	PageReadWhole: {Code: "page_read_whole",
		Means:  "an endpoint's metrics page is written in a rare form and is parsed as a whole, at a higher cost; counted once per endpoint",
		Remedy: "none needed; have the engine write the plain text format to save time"},
	EngineUnknown: {Code: "engine_unknown",
		Means:  "an endpoint's label names an engine that nobody described; its page is read as the default engine's",
		Remedy: "correct the label, or describe the engine under engineConfigs of core-metrics-extractor"},
	MetricsPortDiffers: {Code: "metrics_port_differs",
		Means:  "an endpoint has a metrics port of its own, other than that of metrics-data-source; its own is asked",
		Remedy: "remove one of the two, unless it is meant so"},
	InvalidModel: {Code: "invalid_model", Status: 400,
		Means:  "the body's model is none",
		Remedy: "set \"model\" to a string that GET /v1/models lists"},
	MalformedBody: {Code: "malformed_body", Status: 400,
		Means:  "the body is not what its path and content type say",
		Remedy: "send the form that the API describes; the detail says what is wrong"},
	AmbiguousPath: {Code: "ambiguous_path", Status: 400,
		Means:  "the path can be read in two ways",
		Remedy: "send the path without dot segments, backslashes, control characters and broken escapes"},
	BodySealed: {Code: "body_sealed", Status: 400,
		Means:  "the model has another name at the model server, and cannot be replaced in a body that is compressed or framed",
		Remedy: "send the body uncompressed, or ask by the name that the model server knows"},
	ProfileNotFound: {Code: "profile_not_found", Status: 400,
		Means:  "the request's header names a profile that its pool does not have",
		Remedy: "send the name of one of the pool's profiles, or leave the header out; the detail lists them"},
	IdentityIgnored: {Code: "identity_ignored",
		Means:  "a fairness id or an objective that a request's headers give was left out: too long, or not trusted here",
		Remedy: "shorten it, or set trustHeaders of objective-resolver where a gateway sets these headers"},
	ObjectiveUnknown: {Code: "objective_unknown",
		Means:  "a request names an objective that the configuration does not have for its pool; its priority is 0",
		Remedy: "add it to objectives, or correct the header x-llm-d-inference-objective"},
	DroppedEarly: {Code: "dropped_early", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "the request may be dropped, and its pool is getting full",
		Remedy: "retry after the time that Retry-After gives, or ask by an objective whose priority is not below 0"},
	TargetOutOfReach: {Code: "target_out_of_reach", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "the request may be dropped, and no endpoint is predicted to keep the latency that it asks for",
		Remedy: "retry after the time that Retry-After gives, ask for a latency that the pool can keep, or by an objective whose priority is not below 0"},
	Evicted: {Code: "evicted", Status: 429, RetryAfter: time.Second, Dropped: "evicted-priority",
		Means:  "the request may be dropped, and was taken back before its answer began, for one of higher priority",
		Remedy: "retry after the time that Retry-After gives, or ask by an objective whose priority is not below 0"},
	NotRevocable: {Code: "not_revocable",
		Means:  "a request that runs could not be taken back, since its gateway shows nothing of it until its answer has ended",
		Remedy: "have the gateway send response headers to the picker, as the shipped bootstraps do, or set enableEviction: false"},
	HeadersTooLarge: {Code: "headers_too_large", Status: 431,
		Means:  "the request has more headers, or more bytes of them, than is taken",
		Remedy: "send fewer headers, or raise --max-header-count or --max-header-bytes"},
	HeldBytesFull: {Code: "held_bytes_full", Status: 503, Dropped: "rejected-saturated", RetryAfter: time.Second,
		Means:  "request bodies that wait for their decision fill the room there is for them",
		Remedy: "retry; raise --max-held-bytes, or add memory and replicas"},
	TooManyRequests: {Code: "too_many_requests", Status: 503, Dropped: "rejected-saturated", RetryAfter: time.Second,
		Means:  "as many requests run through this process as may",
		Remedy: "retry; raise --max-concurrent-requests, or add replicas"},
	TooManyConnections: {Code: "too_many_connections", Status: 503, RetryAfter: time.Second,
		Means:  "as many connections to this port are open as may be",
		Remedy: "retry; raise --max-connections, or have clients share connections"},
	ScanBounded: {Code: "scan_bounded",
		Means:  "a body was read up to the bound of reading, and decided by what stands before it",
		Remedy: "none needed; raise --max-scan-bytes where longer prompts are to be matched as a whole"},
	AcceptFailed: {Code: "accept_failed",
		Means:  "a connection could not be accepted, for want of files or memory; accepting goes on a little later",
		Remedy: "raise the limit of open files, or lower --max-connections"},
	MalformedRequest: {Code: "malformed_request", Status: 400,
		Means:  "the bytes on the connection are no request that HTTP knows, or one that this proxy cannot serve",
		Remedy: "mend the client; the status and the message say what is wrong"},
	UsagePartial: {Code: "usage_partial",
		Means:  "the gateway lost some of what reports an answer's token usage; the numbers may be early ones",
		Remedy: "raise the limits of token_usage in Envoy's ai_protocol_manager"},
	UsageRejected: {Code: "usage_rejected",
		Means:  "an answer reported a number of tokens that cannot be; it counts as not reported",
		Remedy: "check the engine's version: a number is negative, fractional, above 10^9 or no number at all"},
	EventSkipped: {Code: "event_skipped",
		Means:  "an event of an answer is longer than 4 MiB and was passed on unread",
		Remedy: "none needed, unless its usage is missed"},
	NoTerminator: {Code: "no_terminator",
		Means:  "an event stream ended cleanly without the event that ends it",
		Remedy: "check the engine: the answer may be cut though its connection ended well"},
	CapacityUnknown: {Code: "capacity_unknown",
		Means:  "an endpoint's labels or annotation name hardware that nobody described; it counts as an H100 SXM",
		Remedy: "correct the label, name a class in the annotation fairlead.dev/capacity-class, or describe it under classes of capacity-class-producer"},
	HeadersFirst: {Code: "headers_first",
		Means:  "a pool's answers begin sooner than its engines count first tokens, or than prompts can be computed: headers come before the first token, and first bytes tell nothing of prompts",
		Remedy: "nothing: the backlog runs by the clock, a prompt's cost is learned from the engines' time_to_first_token_seconds or, without that, taken to be as far from the prior as that of a decode step, and first tokens are predicted by the closed form"},
	FactMissing: {Code: "fact_missing",
		Means:  "a plugin that makes a fact gave none for this request; the detail names it, and its reader used a coarser one",
		Remedy: "check the plugin that makes the fact"},
	PrefixUnconfirmed: {Code: "prefix_unconfirmed",
		Means:  "a model server did not begin to answer in time, and is no longer believed to have the prompts that it was given",
		Remedy: "none needed while it is rare; else look at the server's queue, or raise unconfirmedTTLMs of approx-prefix-cache-producer"},
	SignalsOld: {Code: "signals_old",
		Means:  "most samples of the pool's endpoints are old; the request was decided among a few of them, drawn for it",
		Remedy: "check why scrapes fail or take long, or raise oldAfterMs of two-choice-filter"},
	LatencyUnlearned: {Code: "latency_unlearned",
		Means:  "latencies were predicted by the closed form: too few answers were learned from, the model errs by 25 % or more, or first bytes are headers (headers_first)",
		Remedy: "normal for the first 200 answers of a class of endpoints; else /debug/latency tells which latency, of which class, and by how much"},
	TargetIgnored: {Code: "target_ignored",
		Means:  "a client's latency target is no number above 0 and up to a day, in milliseconds; it counts as none",
		Remedy: "correct x-llm-d-slo-ttft-ms or x-llm-d-slo-tpot-ms in the client's request"},
	LatencyUnpredicted: {Code: "latency_unpredicted",
		Means:  "a latency is not predicted where one was to be gone by: latency-scorer went by cache, queue and prefix, latency-slo-admitter let the request pass, slo-headroom-tier-filter kept all endpoints",
		Remedy: "set predictInProduce of predicted-latency-producer"},
	OutputLengthsUnseen: {Code: "output_lengths_unseen",
		Means:  "no answer shows its token usage: how much requests generate is not learned, and the fixed expectation holds",
		Remedy: "set askForUsage of output-length-producer, or have the gateway log the usage (manifests/envoy/usage.yaml)"},
	Shed: {Code: "shed", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "the pool is full, and the request's priority is below 0",
		Remedy: "retry later, or send it with a higher priority; a queue (flow-control) has such requests wait"},
	GaveWay: {Code: "gave_way", Status: 429, RetryAfter: time.Second, Dropped: "rejected-saturated",
		Means:  "the waiting queue is full, and the request's place went to a tenant that has fewer waiting, or to a higher priority",
		Remedy: "retry after the time that Retry-After gives, and have fewer requests wait at a time; the bound that the message names may be raised in flow-control"},
	MemoryDoubted: {Code: "memory_doubted",
		Means:  "a request went to an endpoint whose KV cache reads as full: for 20 s nobody has waited inside the engine, while it began answers, so that the queue does not believe the gauge",
		Remedy: "check the engine's KV usage metric: it may stand still, or count blocks that are kept for reuse; a larger atHand of load-detector has it not gone by"},
	FullUnread: {Code: "full_unread",
		Means:  "a request had to wait or was refused, since its pool's endpoints count as full that have no fresh telemetry",
		Remedy: "see to the engines' metrics pages (scrape_failed tells why one cannot be read); load-detector goes by its own books where there are none"},
	FlowsShared: {Code: "flows_shared",
		Means:  "as many tenants of one priority have waited lately as are told apart; further ones share one turn",
		Remedy: "check what sets the tenants' names; raise maxFlowsPerBand of flow-control"},
	EndpointUnreachable: {Code: "endpoint_unreachable",
		Means:  "nobody listened at an endpoint; it gets nothing for a while, unless there is no other",
		Remedy: "check the model server, and that endpoints that are gone leave the membership"},
	EndpointFailing: {Code: "endpoint_failing",
		Means:  "an endpoint failed requests in a row (5xx, connections reset); it gets nothing for a while",
		Remedy: "check the model server's log"},
	EndpointSlow: {Code: "endpoint_slow",
		Means:  "an endpoint takes many times as long as its pool for the same work; it gets nothing for a while",
		Remedy: "check the endpoint's GPU, its neighbours and its clock; the record shows the state of each"},
	EndpointHung: {Code: "endpoint_hung",
		Means:  "requests wait at an endpoint while others are answered; it gets nothing for a while",
		Remedy: "check the model server; restart it if its engine stands still"},
	EndpointSilent: {Code: "endpoint_silent",
		Means:  "an endpoint's metrics can be read no more and it has answered nothing since; it gets nothing for a while",
		Remedy: "check that the endpoint still runs, and its metrics port"},
	EjectionWithheld: {Code: "ejection_withheld",
		Means:  "an endpoint that is not well stays in use, since as much of its pool is out as may be",
		Remedy: "check the pool: much of it is not well; maxEjectedShare of health-filter is the bound"},
	HealthIgnored: {Code: "health_ignored",
		Means:  "no candidate was well, and the request went to one that is not",
		Remedy: "check the pool's model servers"},
	ReplicaLost: {Code: "replica_lost",
		Means:  "another replica of the picker is not heard any more; what it had booked counts as ended until it is",
		Remedy: "normal when a replica restarts; else check the network between replicas and the other one's log"},
	ReplicaBehind: {Code: "replica_behind",
		Means:  "another replica takes in more slowly what this one books than it is told, and is told anew all that is open",
		Remedy: "check the other replica's processor and the network between them"},
	ReplicaRefused: {Code: "replica_refused",
		Means:  "a replica that --replicas names cannot be found, or does not tell what it books; the detail says why",
		Remedy: "check --replicas, its certificates and network policies, and that all replicas have the same pools"},
	OthersUnheard: {Code: "others_unheard",
		Means:  "engines begin many more answers than this replica and those that it hears have asked for: somebody else's requests are known by samples alone",
		Remedy: "several replicas: give all of them --replicas; clients that pass the picker by: none, but its decisions are as good as samples are fresh"},
	DecidedAnew: {Code: "decided_anew",
		Means:  "another replica chose the same endpoint before either heard of the other, or the endpoint left the pool meanwhile: the request was decided a second time",
		Remedy: "none: normal where several replicas decide many requests a second"},
	HearsayUnknown: {Code: "hearsay_unknown",
		Means:  "another replica told of an endpoint or a booking that this one does not know",
		Remedy: "normal for a moment when endpoints come and go; else check that all replicas see the same endpoints"},
}
