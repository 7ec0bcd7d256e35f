package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fairlead/fairlead/pkg/openai"
)

// Kind is what a ProcessingRequest brings. Its numbers are those of the fields.
type Kind uint8

// The kinds. None is a message of an API newer than this code.
const (
	None             Kind = 0
	RequestHeaders   Kind = 2
	ResponseHeaders  Kind = 3
	RequestBody      Kind = 4
	ResponseBody     Kind = 5
	RequestTrailers  Kind = 6
	ResponseTrailers Kind = 7
)

// The other fields of a ProcessingRequest that are read.
const (
	requestMetadata   = 8
	requestAttributes = 9
	requestConfig     = 11
)

// Fields of HttpHeaders, HttpBody, HttpTrailers, HeaderMap and HeaderValue.
const (
	headersMap    = 1
	headersEnd    = 3
	bodyBytes     = 1
	bodyEnd       = 2
	trailersMap   = 1
	headerMapList = 1
	headerKey     = 1
	headerValue   = 2
	headerRaw     = 3
)

// Fields of ProtocolConfiguration.
const (
	configRequestBody  = 1
	configResponseBody = 2
	configSendsBody    = 3
)

// Request is what is read of a ProcessingRequest. Its slices are parts of the message.
type Request struct {
	Kind Kind
	// Headers are those of headers and trailers: names in lower case, several values of a name in their order, pseudo-headers
	// among them. They are strings of their own.
	Headers openai.Headers
	// Body is that of the body kinds.
	Body []byte
	// End is end_of_stream.
	End bool
	// Metadata is the dynamic metadata of the request.
	Metadata Metadata
	// Config is protocol_config.
	Config Config

	message []byte
}

// Config is a ProtocolConfiguration: what a gateway says of the body modes, in its first message.
type Config struct {
	Has                       bool
	RequestBody, ResponseBody BodyMode
	// SendsBody is send_body_without_waiting_for_header_response.
	SendsBody bool
}

// ReadRequest reads a ProcessingRequest into r, whatever r was. An error says that m is none.
func ReadRequest(m []byte, r *Request) error {
	*r = Request{message: m}
	for len(m) > 0 {
		f, rest, err := next(m)
		if err != nil {
			return fmt.Errorf("ProcessingRequest: %w", err)
		}
		m = rest
		if f.typ != protowire.BytesType {
			continue
		}
		switch f.num {
		case protowire.Number(RequestHeaders), protowire.Number(ResponseHeaders):
			r.turn(Kind(f.num))
			err = r.readHeaders(f.bytes)
		case protowire.Number(RequestBody), protowire.Number(ResponseBody):
			r.turn(Kind(f.num))
			err = r.readBody(f.bytes)
		case protowire.Number(RequestTrailers), protowire.Number(ResponseTrailers):
			r.turn(Kind(f.num))
			err = r.readTrailers(f.bytes)
		case requestMetadata:
			r.Metadata = merge(r.Metadata, f.bytes)
		case requestConfig:
			err = r.Config.read(f.bytes)
		}
		if err != nil {
			return fmt.Errorf("ProcessingRequest, field %d: %w", f.num, err)
		}
	}
	return nil
}

// Attribute returns one attribute of the gateway.
func (r *Request) Attribute(namespace, key string) Value {
	return nested(r.message, requestAttributes, namespace, key)
}

// turn begins a member of the oneof: what another member said is void, and the same one is merged.
func (r *Request) turn(k Kind) {
	if r.Kind != k {
		r.Kind, r.Headers, r.Body, r.End = k, nil, nil, false
	}
}

func (r *Request) readHeaders(m []byte) (err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.is(headersMap):
			err = r.readHeaderMap(f.bytes)
		case f.isVarint(headersEnd):
			r.End = f.value != 0
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) readBody(m []byte) (err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.is(bodyBytes):
			r.Body = f.bytes
		case f.isVarint(bodyEnd):
			r.End = f.value != 0
		}
	}
	return nil
}

func (r *Request) readTrailers(m []byte) (err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		if f.is(trailersMap) {
			if err = r.readHeaderMap(f.bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// readHeaderMap appends the headers of a HeaderMap. All of it becomes one string, of which names and values are parts: two
// allocations in place of two per header.
func (r *Request) readHeaderMap(m []byte) error {
	n, rest := 0, m
	for len(rest) > 0 {
		f, after, err := next(rest)
		if err != nil {
			return err
		}
		if rest = after; f.is(headerMapList) {
			n++
		}
	}
	if r.Headers == nil {
		r.Headers = make(openai.Headers, 0, n)
	}
	all := string(m)
	// part is b as a string: b is a part of m, and a slice keeps how much of its memory follows.
	part := func(b []byte) string {
		at := cap(m) - cap(b)
		return all[at : at+len(b)]
	}
	for rest = m; len(rest) > 0; {
		f, after, _ := next(rest) // it was read above
		if rest = after; !f.is(headerMapList) {
			continue
		}
		name, value, err := readHeader(f.bytes)
		if err != nil {
			return err
		}
		r.Headers = append(r.Headers, openai.Header{Name: strings.ToLower(part(name)), Value: part(value)})
	}
	return nil
}

// readHeader reads a HeaderValue. Envoy fills raw_value; others fill value.
func readHeader(m []byte) (name, value []byte, err error) {
	name, value = m[:0], m[:0]
	raw := m[:0]
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return nil, nil, err
		}
		switch {
		case f.is(headerKey):
			name = f.bytes
		case f.is(headerValue):
			value = f.bytes
		case f.is(headerRaw):
			raw = f.bytes
		}
	}
	if len(raw) > 0 {
		value = raw
	}
	return name, value, nil
}

func (c *Config) read(m []byte) (err error) {
	c.Has = true
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.isVarint(configRequestBody):
			c.RequestBody = BodyMode(int32(f.value)) //nolint:gosec // enums are 32 bits of a varint
		case f.isVarint(configResponseBody):
			c.ResponseBody = BodyMode(int32(f.value)) //nolint:gosec // as above
		case f.isVarint(configSendsBody):
			c.SendsBody = f.value != 0
		}
	}
	return nil
}
