package admin

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Line is the books of one endpoint, with its last sample beside them. -1 is unknown.
type Line struct {
	Pool             string  `json:"pool"`
	Endpoint         string  `json:"endpoint"`
	Address          string  `json:"address"`
	Requests         int32   `json:"requests"`
	Heard            int32   `json:"heard,omitempty"` // of the requests, those that other replicas told of
	NoFirstByte      int32   `json:"noFirstByte"`
	AfterSample      int32   `json:"afterSample"`
	PrefillTokens    int64   `json:"prefillTokens"`
	DecodeTokens     int64   `json:"decodeTokens"`
	Sample           string  `json:"sample"` // never, stale or fresh
	SampleAgeSeconds float64 `json:"sampleAgeSeconds"`
	Waiting          int32   `json:"waiting"`
	Running          int32   `json:"running"`
	KVUsage          float64 `json:"kvUsage"`

	Health *plugins.Health `json:"health,omitempty"` // where somebody watches over the endpoint
}

// Books is what /debug/books says: a line per endpoint, and the number of exchanges and bookings that have not ended.
type Books struct {
	Endpoints []Line `json:"endpoints"`
	Open      int    `json:"open"`
	Bookings  int    `json:"bookings"`
}

// poolsOf returns the pools of the configuration in force, and those of configurations before it of which requests still run.
func poolsOf(s *exchange.Scheduler) []*pool.Pool {
	pools := slices.Clone(s.Pools())
	for _, of := range s.Running() {
		for _, p := range of.Pools() {
			if !slices.Contains(pools, p) {
				pools = append(pools, p)
			}
		}
	}
	return pools
}

// readBooks copies the books of all pools, each under its lock.
func readBooks(now pool.Instant, s *exchange.Scheduler) Books {
	all := Books{Endpoints: []Line{}, Open: s.Open()}
	for i, p := range poolsOf(s) {
		all.Bookings += p.Open()
		p.Decide(func(snap *pool.Snapshot, b *pool.Books) {
			for _, id := range snap.Members {
				e, sample := &snap.Slots[id], &b.Samples[id]
				l := Line{
					Pool: p.Name, Endpoint: strings.ToValidUTF8(plugins.EndpointName(e), "\uFFFD"), Address: e.Addr.String(),
					Requests: b.Requests[id], Heard: b.Heard[id], NoFirstByte: b.NoFirstByte[id], AfterSample: b.AfterSample[id],
					PrefillTokens: b.PrefillTokens[id], DecodeTokens: b.DecodeTokens[id],
					Sample: sample.State(now, p.StaleAfter()).String(), SampleAgeSeconds: -1,
					Waiting: sample.Waiting, Running: sample.Running, KVUsage: sample.KVUsage,
				}
				if sample.State(now, p.StaleAfter()) != pool.Never {
					l.SampleAgeSeconds = time.Duration(now - sample.At).Seconds()
				}
				if i < len(s.Pools()) {
					if h, ok := s.Health(i, now, e.Ref); ok {
						l.Health = &h
					}
				}
				all.Endpoints = append(all.Endpoints, l)
			}
		})
	}
	return all
}
