// Package reason is the one table of everything that can be said of a request that was not served plainly: why it was
// refused, replaced, dropped or degraded. Error bodies, metric labels, records and the reference page are printed from it.
package reason

import (
	"fmt"
	"time"
)

// ID names one row of the table. The zero ID says nothing: the request was served plainly.
type ID uint16

// Row is what docs, error bodies, metrics and records print of a reason.
type Row struct {
	// Code is stable: the error.code of a body, a metric label, an entry of a record.
	Code string
	// Means says in one sentence what happened.
	Means string
	// Remedy says what an operator or client can do about it.
	Remedy string
	// Dropped is the value of the response header x-llm-d-request-dropped-reason; empty for none.
	Dropped string
	// Status is the HTTP status of the reply; 0 if the request went on.
	Status int
	// RetryAfter is sent as Retry-After where the refusal itself does not know better; 0 sends none. Clients' SDKs wait that long
	// before they try again.
	RetryAfter time.Duration
}

// Row returns the table's row of id; an id outside the table yields the row of Internal.
func (id ID) Row() Row {
	if int(id) >= len(table) {
		return table[Internal]
	}
	return table[id]
}

// String returns the row's code, so that an ID prints as what users search for.
func (id ID) String() string { return id.Row().Code }

// All returns every ID but zero, in table order.
func All() []ID {
	ids := make([]ID, 0, len(table)-1)
	for i := 1; i < len(table); i++ {
		ids = append(ids, ID(i))
	}
	return ids
}

// Parse returns the ID whose row has this code, and whether there is one.
func Parse(code string) (ID, bool) {
	for i := 1; i < len(table); i++ {
		if table[i].Code == code {
			return ID(i), true
		}
	}
	return 0, false
}

// Refusal ends an exchange with a reply.
type Refusal struct {
	ID ID
	// Detail may be shown to a client: it names the bound or the value, never a secret or an address.
	Detail string
	// RetryAfter is sent as Retry-After, rounded up to whole seconds; 0 leaves it to the row.
	RetryAfter time.Duration
	// Noted: the sink has heard of it, with more than Detail says.
	Noted bool
}

// Refuse returns a Refusal with a formatted detail.
func Refuse(id ID, format string, args ...any) *Refusal {
	return &Refusal{ID: id, Detail: fmt.Sprintf(format, args...)}
}

// Error makes a Refusal usable as an error where one travels through a call that returns errors.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.ID.String()
	}
	return r.ID.String() + ": " + r.Detail
}

// Sink hears each occurrence of a reason: it counts all, logs the first of a kind, and never blocks. The edge gives it;
// the core has no logger. It may be called from any goroutine, also under a lock of the core.
type Sink interface{ Note(id ID, detail string) }

// Discard is the Sink that keeps nothing.
type Discard struct{}

// Note does nothing.
func (Discard) Note(ID, string) {}
