package plugins

import "github.com/fairlead/fairlead/pkg/pool"

// What a plugin remembers from request to request is a fact as well, so that a record has it and a decision can be made
// again. Such facts are the plugin's own: their names end with that of the instance.

// SessionEndpoint says of each endpoint whether it is the one to which the request's session went last.
func SessionEndpoint(by string) Fact[EndpointValues[bool]] {
	return Fact[EndpointValues[bool]]{Name: "session-endpoint." + by, Source: by}
}

// SessionChoice is the endpoint to which the request, and with it its session, goes.
func SessionChoice(by string) Fact[RequestValue[SessionLeg]] {
	return Fact[RequestValue[SessionLeg]]{Name: "session-choice." + by, Source: by}
}

// SessionLeg is the endpoint of one leg. Follows says that it is the client's leg, which another endpoint may come to serve.
type SessionLeg struct {
	To      pool.Ref
	Follows bool
}

// ColdPrompt says whether no endpoint has a part of the prompt cached.
func ColdPrompt(by string) Fact[RequestValue[bool]] {
	return Fact[RequestValue[bool]]{Name: "cold." + by, Source: by}
}

// LastColdUse is the ordinal of the last request with a cold prompt that went to the endpoint; 0 if none did that is
// remembered.
func LastColdUse(by string) Fact[EndpointValues[int64]] {
	return Fact[EndpointValues[int64]]{Name: "last-cold-use." + by, Unit: "ordinal", Source: by}
}

// HealthFlightOf is the request on its way, as a plugin follows it that watches over endpoints; its own business.
func HealthFlightOf(by string) Fact[RequestValue[HealthFlight]] {
	return Fact[RequestValue[HealthFlight]]{Name: "health-flight." + by, Source: by}
}

// HealthFlight is a handle; the zero value names none.
type HealthFlight struct {
	Slot       int32
	Generation uint32
}
