package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Config is a configuration in force.
type Config struct {
	Digest string    `json:"digest"` // of Text
	Since  time.Time `json:"since"`
	Source string    `json:"source"` // a path, a flag, or that it is the default
	Reload int       `json:"reload"` // how many configurations were in force before it

	// Failed is the last attempt to replace it, if that was refused; nil if nothing was refused since.
	Failed *FailedReload `json:"failed,omitempty"`

	Text string `json:"text"` // the effective configuration, YAML
}

// FailedReload is an attempt that was refused.
type FailedReload struct {
	At       time.Time `json:"at"`
	Problems []string  `json:"problems"` // with file, line and column where they are known
}

// config serves the configuration in force: as YAML, what is known of it in comments ahead, or with ?format=json as JSON.
func (a *admin) config(w http.ResponseWriter, r *http.Request) {
	c := a.o.Config()
	w.Header().Set("x-fairlead-config-digest", c.Digest)
	switch format := r.URL.Query().Get("format"); format {
	case "json":
		write(w, c)
	case "", "yaml":
		w.Header().Set("content-type", "application/yaml")
		_, _ = w.Write([]byte(c.header() + c.Text))
	default:
		http.Error(w, fmt.Sprintf("format is %.40q; yaml or json", format), http.StatusBadRequest)
	}
}

// header is what is known of a configuration, as YAML comments.
func (c *Config) header() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# digest: %s\n# since: %s\n# source: %s\n", c.Digest, c.Since.UTC().Format(time.RFC3339Nano), oneLine(c.Source))
	if f := c.Failed; f != nil {
		fmt.Fprintf(&b, "# refused since: an attempt at %s; this configuration stays:\n", f.At.UTC().Format(time.RFC3339Nano))
		for _, p := range f.Problems {
			fmt.Fprintf(&b, "#   %s\n", oneLine(p))
		}
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
