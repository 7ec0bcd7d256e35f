package plugins

import (
	"fmt"
	"slices"
	"strings"
)

// secretHeaders carry what must not stand in a record.
var secretHeaders = []string{"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"}

// HeaderName returns a header's name, as a parameter has it, in the form in which it is looked for. It refuses what is no
// name, and the names of headers that carry secrets.
func HeaderName(parameter, name string) (string, error) {
	lower, err := AnyHeaderName(parameter, name)
	if err == nil && slices.Contains(secretHeaders, lower) {
		return "", fmt.Errorf("%s is %q, a header that carries secrets, and records keep what a decision reads; name another header", parameter, name)
	}
	return lower, err
}

// AnyHeaderName is HeaderName for plugins of whose header nothing but a hash is kept.
func AnyHeaderName(parameter, name string) (string, error) {
	const others = "!#$%&'*+-.^_`|~" // RFC 9110, 5.6.2
	for i := range len(name) {
		c := name[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(others, c) < 0 {
			return "", fmt.Errorf("%s is %q; a header's name has letters, digits and %s", parameter, name, others)
		}
	}
	if name == "" {
		return "", fmt.Errorf("%s is empty; name a header", parameter)
	}
	return strings.ToLower(name), nil
}
