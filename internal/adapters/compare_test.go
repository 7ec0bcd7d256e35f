package adapters

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/reason"
)

// transcript is all that is compared of a side.
type transcript struct {
	Records, Requests, Answers, Meter []string
	Reasons                           []string
	HooksSaw                          string
	Booked                            int
}

// transcript sums up what happened, when everything is over.
func (s *side) transcript() transcript {
	s.t.Helper()
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := transcript{Requests: s.requests, Answers: s.answers, Meter: s.metered, HooksSaw: string(s.plugins.seen)}
	var records []exchange.Record
	for _, id := range s.scheduler.Decisions() {
		doc, _ := s.scheduler.Decision(id)
		records = append(records, doc.Record)
	}
	sort.Strings(t.Meter) // exchanges beside each other end in no set order; one's decision stays before its end
	sort.Slice(records, func(i, j int) bool { return records[i].Number < records[j].Number })
	for _, rec := range records {
		rec.Transport = nil
		text, err := json.MarshalIndent(rec, "", " ")
		if err != nil {
			s.t.Fatal(err)
		}
		t.Records = append(t.Records, string(text))
	}
	for _, id := range reason.All() {
		if n := s.noted[id]; n > 0 {
			t.Reasons = append(t.Reasons, fmt.Sprintf("%v: %d", id, n))
		}
	}
	for _, p := range s.pools {
		t.Booked += p.Open()
	}
	return t
}

// outline tells in a line what came of the calls: each answer's status, with the reasons that were noted.
func (t *transcript) outline() string {
	var words []string
	for _, a := range t.Answers {
		status, _, _ := strings.Cut(a, "\n")
		words = append(words, status)
	}
	for _, r := range t.Reasons {
		if !strings.HasPrefix(r, "never_scraped") { // of each decision by load, since nobody scrapes here
			words = append(words, r)
		}
	}
	return strings.Join(words, " ")
}

// describeRequest prints a request as an engine got it.
func describeRequest(letter byte, r *http.Request, body []byte, broken error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %c: %s %s, host %s\n", letter, r.Method, r.RequestURI, r.Host)
	fields(&b, "", compared(r.Header))
	if broken != nil { // how much of it had come by then is the network's affair
		b.WriteString("\nthe body broke off")
		return b.String()
	}
	fields(&b, "trailer ", compared(r.Trailer))
	fmt.Fprintf(&b, "\n%d bytes of body:\n%s", len(body), body)
	return b.String()
}

// describeAnswer prints an answer as a client got it.
func describeAnswer(resp *http.Response, body []byte, broken error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", resp.StatusCode)
	fields(&b, "", compared(resp.Header))
	fields(&b, "trailer ", compared(resp.Trailer))
	fmt.Fprintf(&b, "\n%d bytes of body:\n%s", len(body), body)
	if broken != nil {
		b.WriteString("\nthe answer broke off")
	}
	return b.String()
}

// compared returns the fields of a message without those in which two transports cannot help to differ. It is the only place
// where a difference is left out.
//
//   - content-length, transfer-encoding, trailer: how a body is framed. A gateway that shows a body full duplex sends it on
//     chunked, the proxy keeps the length, edited where the body is. That the framing fits the bytes is seen by whoever
//     reads them here.
//   - connection, keep-alive, te: they concern one connection.
//   - date: the clock of the HTTP server that answers.
//   - x-forwarded-for: the proxy appends the client's address; gateways do so, or not, by a configuration of their own.
func compared(h http.Header) http.Header {
	out := h.Clone()
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Te", "Date", "X-Forwarded-For"} {
		out.Del(name)
	}
	return out
}

func fields(b *strings.Builder, prefix string, h http.Header) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			fmt.Fprintf(b, "%s%s: %s\n", prefix, strings.ToLower(name), value)
		}
	}
}
