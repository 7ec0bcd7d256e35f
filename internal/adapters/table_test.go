package adapters

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/exchange"
)

// row is one exchange, or a few.
type row struct {
	name      string
	config    string                  // EndpointPickerConfig; empty: defaultProfile
	endpoints string                  // of each pool, separated by |; empty: abc. See house.members.
	options   func(*exchange.Options) // nil: the defaults
	world     func(*side)             // what is so before it begins
	answer    func(*visit)            // how engines answer; nil: plainAnswer
	play      func(*side)
	// want is what comes of it in a line, so that both ways are not alike in failing: the status of each answer, and the
	// reasons noted, with their number. Empty: 200.
	want string
	// check looks at what came of it by the first way; nil: nothing more.
	check func(*testing.T, *transcript)

	// early: the decision falls as soon as the model was seen, so that the record tells how the bytes were cut: only gateways
	// that cut them as the client did are compared.
	early bool
	// notBuffered: what happens while a body is sent cannot be seen where it is shown at its end.
	notBuffered bool
	// seesBodies: somebody must see bodies of answers, which not every gateway shows.
	seesBodies bool
	// big: its bodies are cut in larger pieces, for the sake of time.
	big bool
}

func (r *row) members() string {
	if r.endpoints == "" {
		return "abc"
	}
	return r.endpoints
}

func (r *row) outline() string {
	if r.want == "" {
		return "200"
	}
	return r.want
}

// way is one way through which a row is played.
type way struct {
	name   string
	pieces int   // bytes of a read from the client; 0: as they come
	full   bool  // every chunk of an answer passes us
	envoy  *mode // nil: the proxy
}

// shipped are what the two configurations in manifests/envoy say of themselves.
var (
	overriding = mode{tokens: "override,fallbacks,access-log,trailers-route", request: streamed, response: none}
	static     = mode{tokens: "fallbacks,access-log,trailers-route", request: duplex, response: none}
	shows      = mode{tokens: "fallbacks,access-log,trailers-route", request: duplex, response: duplex, responseTrailers: true}
	buffers    = mode{tokens: "fallbacks,access-log,trailers-route", request: buffered, response: none}
)

// ways returns the ways of a row. The first is what the others are held against.
func (r *row) ways(full bool) []way {
	w := []way{
		{name: "the proxy"},
		{name: "Envoy whose modes are chosen", envoy: &overriding},
		{name: "Envoy with static modes", envoy: &static},
		{name: "Envoy that shows answers", envoy: &shows},
	}
	if full {
		w = []way{
			{name: "the proxy, every chunk", full: true},
			{name: "Envoy whose modes are chosen, every chunk", full: true, envoy: &overriding},
			{name: "Envoy that shows answers, every chunk", full: true, envoy: &shows},
		}
	}
	if r.seesBodies {
		w = slices.DeleteFunc(w, func(w way) bool {
			return w.envoy != nil && w.envoy.response == none && !strings.Contains(w.envoy.tokens, "override")
		})
	}
	if !full && !r.early {
		small := [2]int{5, 3}
		if r.big {
			small = [2]int{997, 1009}
		}
		w = append(w, way{name: "the proxy, in small pieces", pieces: small[0]},
			way{name: "Envoy whose modes are chosen, in small pieces", pieces: small[1], envoy: &overriding})
		if !r.notBuffered && !r.seesBodies {
			w = append(w, way{name: "Envoy that buffers", envoy: &buffers})
		}
	}
	return w
}

func (r *row) playBy(t *testing.T, h *house, w way) transcript {
	t.Helper()
	s := newSide(t, r, h, w.full)
	defer s.done()
	s.pieces = w.pieces
	h.side.Store(s)
	h.answer = plainAnswer
	if r.answer != nil {
		h.answer = r.answer
	}
	if w.envoy == nil {
		behindProxy(s)
	} else {
		behindEnvoy(s, *w.envoy)
	}
	r.play(s)
	return s.transcript()
}

// TestBothAdaptersCarryTheSameExchange plays every row by every way.
func TestBothAdaptersCarryTheSameExchange(t *testing.T) {
	all := rows()
	if len(all) < 60 {
		t.Errorf("%d rows; at least 60", len(all))
	}
	names := map[string]bool{}
	for _, r := range all {
		if names[r.name] || !strings.Contains(r.name, " ") {
			t.Errorf("%q is no name of its own", r.name)
		}
		names[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			r.compare(t)
		})
	}
}

// compare plays the row by every way.
func (r *row) compare(t *testing.T) {
	t.Helper()
	h := newHouse(t)
	for _, full := range []bool{false, true} {
		ways := r.ways(full)
		want := r.playBy(t, h, ways[0])
		if got := want.outline(); got != r.outline() {
			t.Fatalf("by %s: %s; want %s", ways[0].name, got, r.outline())
		}
		if r.check != nil {
			r.check(t, &want)
		}
		for _, w := range ways[1:] {
			if diff := cmp.Diff(want, r.playBy(t, h, w)); diff != "" {
				t.Errorf("%s (-) and %s (+) differ:\n%s", ways[0].name, w.name, diff)
			}
		}
	}
}
