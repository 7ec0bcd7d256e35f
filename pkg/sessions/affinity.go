package sessions

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// affinity is what filter and scorer share: how a session is known, and where it went last.
//
// With the strategy encoded_endpoint_header the client keeps the session: each answer has a token that names the endpoint
// which served, in the header in which the next request brings it back. Nothing is remembered here.
//
// With session_id the client names its session, and the endpoint that served it last is remembered until the session was
// not seen for a while, the endpoint is gone or restarted, or gave no answer.
type affinity struct {
	// Strategy is encoded_endpoint_header or session_id.
	Strategy string `json:"strategy" schema:"enum=encoded_endpoint_header|session_id"`

	// EncodedEndpointHeaderConfig counts for the strategy encoded_endpoint_header.
	EncodedEndpointHeaderConfig TokenHeader `json:"encodedEndpointHeaderConfig"`

	// SessionIDConfig counts for the strategy session_id.
	SessionIDConfig IDConfig `json:"sessionIdConfig"`

	// ProfileName is the profile whose choice counts as the session's endpoint. Empty: the one that serves the client.
	ProfileName string `json:"profileName,omitempty"`

	header  string   // lower-case, of the token
	from    []origin // of the id, in order
	session plugins.RequestValue[uint64]
	agent   plugins.RequestValue[string]
	pin     plugins.EndpointValues[bool]
	chosen  plugins.RequestValue[plugins.SessionLeg]
	tables  []*table // by pool; nil with tokens
}

// TokenHeader names the header of tokens.
type TokenHeader struct {
	// Header carries the token, in requests and answers.
	Header string `json:"header" schema:"min=1,max=256"`
}

// IDConfig says where a session's id is found, and how long it is remembered.
type IDConfig struct {
	// Sources are where the id may stand; the first that has one counts. Absent: the header x-session-id.
	Sources []IDSource `json:"sources,omitempty" schema:"max=16"`

	// EvictionTTLSeconds is how long a session is remembered that is not seen.
	EvictionTTLSeconds float64 `json:"evictionTtlSeconds" schema:"min=0.001,max=31536000"`

	// EvictionSweepSeconds is how often those that are over are forgotten.
	EvictionSweepSeconds float64 `json:"evictionSweepSeconds" schema:"min=0.001,max=86400"`

	// MaxSessions bounds how many sessions of a pool are remembered; the one not seen for the longest time makes room. A
	// session costs about 90 bytes.
	MaxSessions int `json:"maxSessions" schema:"min=1,max=16777216"`
}

// IDSource is one place where an id may stand: a header, or an attribute of the request that another plugin makes.
type IDSource struct {
	// Header is a header of the request.
	Header string `json:"header,omitempty" schema:"max=256"`

	// Attribute is SessionID, made by a session-id-producer, or agent-identity, made by the plugin of that type.
	Attribute string `json:"attribute,omitempty" schema:"enum=|SessionID|session-id|agent-identity"`

	// Producer names the plugin that makes the attribute. Empty: the one that the configuration has.
	Producer string `json:"producer,omitempty"`
}

// origin is a source, looked up.
type origin struct {
	header           string // lower-case
	session, byAgent bool
}

func newAffinity() affinity {
	return affinity{
		Strategy:                    "encoded_endpoint_header",
		EncodedEndpointHeaderConfig: TokenHeader{Header: "x-session-token"},
		SessionIDConfig:             IDConfig{EvictionTTLSeconds: 300, EvictionSweepSeconds: 10, MaxSessions: 100_000},
	}
}

// Provision says what is read and made: the endpoint of a session is a fact, so that a decision can be made again.
func (a *affinity) Provision(b *plugins.Builder) (err error) {
	plugins.Provides(b, plugins.SessionEndpoint(b.Name))
	a.pin = plugins.Needs(b, plugins.SessionEndpoint(b.Name))
	a.chosen = plugins.Provides(b, plugins.SessionChoice(b.Name))
	a.tables, a.from = nil, nil
	if a.Strategy == "encoded_endpoint_header" {
		b.Warn("sessionIdConfig", "sessionIdConfig has no effect with strategy encoded_endpoint_header; set strategy: session_id, or remove it")
		a.header, err = plugins.AnyHeaderName("encodedEndpointHeaderConfig.header", a.EncodedEndpointHeaderConfig.Header)
		return err
	}
	b.Warn("encodedEndpointHeaderConfig", "encodedEndpointHeaderConfig has no effect with strategy session_id; remove it")
	for range b.Pools {
		a.tables = append(a.tables, newTable(a.SessionIDConfig.MaxSessions, seconds(a.SessionIDConfig.EvictionTTLSeconds)))
	}
	return a.sources(b)
}

// inherit shares the sessions of each pool that stays.
func (a *affinity) inherit(from *affinity, pools []int) {
	for i, was := range pools {
		if was >= 0 && a.tables != nil {
			a.tables[i] = from.tables[was]
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

func (a *affinity) sources(b *plugins.Builder) error {
	given := a.SessionIDConfig.Sources
	if given == nil {
		given = []IDSource{{Header: "x-session-id"}}
	}
	var errs []error
	for i, s := range given {
		at := fmt.Sprintf("sessionIdConfig.sources[%d]", i)
		switch {
		case (s.Header == "") == (s.Attribute == ""):
			errs = append(errs, fmt.Errorf("%s must have either header or attribute", at))
		case s.Header != "":
			name, err := plugins.AnyHeaderName(at+".header", s.Header)
			if s.Producer != "" {
				err = errors.Join(err, fmt.Errorf("%s.producer is %q, and a header is made by the client; remove it", at, s.Producer))
			}
			errs, a.from = append(errs, err), append(a.from, origin{header: name})
		case s.Attribute == "agent-identity":
			a.agent = plugins.Needs(b, plugins.AgentID)
			errs, a.from = append(errs, plugins.CheckProducer(b, plugins.AgentID, at+".producer", s.Producer)), append(a.from, origin{byAgent: true})
		default:
			a.session = plugins.Needs(b, plugins.SessionID)
			errs, a.from = append(errs, plugins.CheckProducer(b, plugins.SessionID, at+".producer", s.Producer)), append(a.from, origin{session: true})
		}
	}
	return errors.Join(errs...)
}

// id returns the hash of the session's id, 0 without one.
func (a *affinity) id(r *plugins.Request) uint64 {
	for _, from := range a.from {
		switch {
		case from.session:
			if id := a.session.Of(r); id != 0 {
				return id
			}
		case from.byAgent:
			if id := a.agent.Of(r); id != "" {
				return hash(id)
			}
		default:
			if id := r.Headers.Get(from.header); id != "" {
				return hash(id)
			}
		}
	}
	return 0
}

// hash maps an id to a number other than 0.
func hash(id string) uint64 { return max(xxhash.Sum64String(id), 1) }

// Produce marks the candidate that is the session's endpoint.
func (a *affinity) Produce(c *plugins.Cycle) {
	pin := a.pin.Of(c)
	if a.tables == nil {
		if token := c.Request.Headers.Get(a.header); token != "" {
			if id, ok := named(token, c.Snapshot, c.Candidates); ok {
				pin[id] = true
			}
		}
		return
	}
	id := a.id(c.Request)
	if id == 0 {
		return
	}
	if to, ok := a.tables[c.PoolIndex].find(c.Now, id); ok && c.Snapshot.Alive(to) {
		pin[to.ID] = true
	}
}

// Commit notes which endpoint the request has, and remembers it for the session.
func (a *affinity) Commit(r *plugins.Request, legs []plugins.Leg, _ *plugins.Outgoing) {
	a.chosen.Set(r, plugins.SessionLeg{})
	for i, leg := range legs {
		if len(leg.Endpoints) == 0 || a.ProfileName != "" && leg.Profile != a.ProfileName {
			continue
		}
		to := plugins.SessionLeg{To: r.Snapshot.Slots[leg.Endpoints[0]].Ref, Follows: i == 0}
		a.chosen.Set(r, to)
		a.remember(r, to.To)
		return
	}
}

func (a *affinity) remember(r *plugins.Request, to pool.Ref) {
	if a.tables == nil || to.Incarnation == 0 {
		return
	}
	if id := a.id(r); id != 0 {
		a.tables[r.PoolIndex].bind(r.Now, id, to)
	}
}

// Answer follows who really serves: the session stays there, and a token says so.
func (a *affinity) Answer(r *plugins.Request, set openai.Headers) openai.Headers {
	at := a.chosen.Of(r)
	if at.Follows && r.Served != at.To {
		at.To = r.Served
		a.chosen.Set(r, at)
		a.remember(r, at.To)
	}
	if a.tables != nil || !r.Snapshot.Alive(at.To) {
		return set
	}
	return set.Set(a.header, token(&r.Snapshot.Slots[at.To.ID]))
}

// Settle lets a session go that got no answer: the next request shall not try the same endpoint again.
func (a *affinity) Settle(r *plugins.Request, o plugins.Outcome) {
	if a.tables == nil || o.Ending == 0 || o.Ending == reason.ClientAborted || o.Served.Incarnation != 0 {
		return
	}
	if id := a.id(r); id != 0 {
		a.tables[r.PoolIndex].release(id, a.chosen.Of(r).To)
	}
}

// Tick forgets the sessions that are over.
func (a *affinity) Tick(now pool.Instant) (next pool.Instant) {
	for _, t := range a.tables {
		t.sweep(now)
	}
	if a.tables == nil {
		return 0
	}
	return now + pool.Instant(seconds(a.SessionIDConfig.EvictionSweepSeconds))
}
