package plugins

import (
	"fmt"
	"strings"
)

// LabelName refuses what no label or annotation of Kubernetes can be called: an optional DNS subdomain of at most 253 bytes and
// a slash, then a name. The error calls it by the parameter that it stands in.
func LabelName(parameter, name string) error {
	domain, last, has := strings.Cut(name, "/")
	if !has {
		domain, last = "", name
	}
	if !labelWord(last) || has && !subdomain(domain) {
		return fmt.Errorf("%s %q cannot be a label's name: an optional DNS name and '/', then at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit", parameter, name)
	}
	return nil
}

// IsLabelValue reports whether a label can have this value.
func IsLabelValue(s string) bool { return s == "" || labelWord(s) }

func labelWord(s string) bool {
	if s == "" || len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.' {
			return false
		}
	}
	return true
}

func subdomain(s string) bool {
	if len(s) > 253 || strings.ToLower(s) != s || strings.Contains(s, "_") {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !labelWord(part) {
			return false
		}
	}
	return true
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
