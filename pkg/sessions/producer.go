package sessions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// IDProducer reads the id of the client's session from a header, or from a cookie. Only its hash is kept. Session affinity
// uses it with the strategy session_id and the source {attribute: SessionID}.
type IDProducer struct {
	// HeaderName is the header that holds the id. Exactly one of headerName and cookieName must be given.
	HeaderName string `json:"headerName,omitempty" schema:"max=256"`

	// CookieName is the cookie that holds the id.
	CookieName string `json:"cookieName,omitempty" schema:"max=256"`

	header string
	id     plugins.RequestValue[uint64]
}

var (
	_ plugins.Describer  = (*IDProducer)(nil)
	_ plugins.BodyReader = (*IDProducer)(nil)
)

// NewIDProducer returns an IDProducer; one of its parameters must be given.
func NewIDProducer() *IDProducer { return &IDProducer{} }

// Provision says what is made, and refuses both or neither of the names.
func (p *IDProducer) Provision(b *plugins.Builder) (err error) {
	p.id = plugins.Provides(b, plugins.SessionID)
	switch {
	case (p.HeaderName == "") == (p.CookieName == ""):
		return errors.New("give exactly one of headerName and cookieName")
	case p.CookieName == "":
		p.header, err = plugins.AnyHeaderName("headerName", p.HeaderName)
		return err
	case strings.ContainsAny(p.CookieName, "=;, \t\""):
		return fmt.Errorf("cookieName is %q; a cookie's name has no blanks, quotes, commas, semicolons or equals signs", p.CookieName)
	}
	return nil
}

// Reads asks for the headers alone.
func (*IDProducer) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Describe reads the id.
func (p *IDProducer) Describe(r *plugins.Request) {
	id := ""
	if p.header != "" {
		id = r.Headers.Get(p.header)
	} else {
		for _, h := range r.Headers {
			if h.Name == "cookie" && id == "" {
				id = cookie(h.Value, p.CookieName)
			}
		}
	}
	p.id.Set(r, 0)
	if id != "" {
		p.id.Set(r, hash(id))
	}
}

// cookie returns the value of a cookie, without its quotes; RFC 6265, 4.2.1.
func cookie(header, name string) string {
	for pair := range strings.SplitSeq(header, ";") {
		if key, value, ok := strings.Cut(strings.Trim(pair, " \t"), "="); ok && key == name {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
