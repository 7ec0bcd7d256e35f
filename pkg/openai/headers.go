package openai

import "strings"

// Header is one header field. Name is lower-case, as HTTP/2 has it; pseudo-headers keep their colon.
type Header struct{ Name, Value string }

// Headers are header fields in the order in which they came; a name may stand several times.
type Headers []Header

// Get returns the value of the first field of this lower-case name, or "".
func (h Headers) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

// Has reports whether a field of this lower-case name is present, be it empty.
func (h Headers) Has(name string) bool {
	for i := range h {
		if h[i].Name == name {
			return true
		}
	}
	return false
}

// Set returns h with the first field of this name set to value and further ones removed, or with the field appended.
func (h Headers) Set(name, value string) Headers {
	out, found := h[:0], false
	for _, f := range h {
		if f.Name == name {
			if found {
				continue
			}
			f.Value, found = value, true
		}
		out = append(out, f)
	}
	if !found {
		out = append(out, Header{name, value})
	}
	return out
}

// MediaType returns the media type of a content-type value in lower case, without parameters: "application/json".
func MediaType(contentType string) string {
	if i := strings.IndexByte(contentType, ';'); i >= 0 {
		contentType = contentType[:i]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}
