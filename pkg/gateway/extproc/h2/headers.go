package h2

import (
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// maxHeaders bounds the headers of one stream, in bytes, compressed and not.
const maxHeaders = 64 << 10

// answerHeaders are the headers of every answer, in HPACK: the indexed :status 200, and content-type as a literal with the
// static table's name that enters no table.
const answerHeaders = "\x88" + "\x0f\x10\x10application/grpc"

// appendLiteral appends a field without indexing, name and value as they are.
func appendLiteral(to []byte, name, value string) []byte {
	to = append(to, 0)
	to = append(appendPrefixed(to, len(name)), name...)
	return append(appendPrefixed(to, len(value)), value...)
}

// appendPrefixed appends an integer with a prefix of 7 bits: RFC 7541, section 5.1.
func appendPrefixed(to []byte, n int) []byte {
	if n < 127 {
		return append(to, byte(n))
	}
	to, n = append(to, 127), n-127
	for ; n >= 128; n >>= 7 {
		to = append(to, byte(n)|128)
	}
	return append(to, byte(n))
}

// appendStatus appends the fields that end a gRPC stream.
func appendStatus(to []byte, code codes.Code, message string) []byte {
	to = appendLiteral(to, "grpc-status", strconv.Itoa(int(code)))
	if message != "" {
		to = appendLiteral(to, "grpc-message", percentEncoded(message))
	}
	return to
}

// percentEncoded is a status message as gRPC writes it: printable ASCII as it is but for the percent sign.
func percentEncoded(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s[:min(len(s), 1024)]) {
		if c < ' ' || c > '~' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// request are the headers of a stream that is being opened.
type request struct {
	fields []hpack.HeaderField
	size   uint32 // as SETTINGS_MAX_HEADER_LIST_SIZE counts
}

func (r *request) reset() {
	clear(r.fields)
	r.fields, r.size = r.fields[:0], 0
}

// add takes a decoded field; beyond the bound it is dropped, and the size tells.
func (r *request) add(f hpack.HeaderField) {
	if r.size += f.Size(); r.size <= maxHeaders {
		r.fields = append(r.fields, f)
	}
}

func (r *request) get(name string) string {
	for i := range r.fields {
		if r.fields[i].Name == name {
			return r.fields[i].Value
		}
	}
	return ""
}

// isGRPC reports whether the headers are those of a gRPC call.
func (r *request) isGRPC() bool {
	kind, rest, _ := strings.Cut(r.get("content-type"), "application/grpc")
	return kind == "" && (rest == "" || rest[0] == '+' || rest[0] == ';') && r.get("content-type") != "" && r.get(":method") == "POST"
}
