package extproc

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// lbNamespace is where Envoy's override_host policy reads the destination, and where it leaves the host it used.
	lbNamespace       = "envoy.lb"
	destinationHeader = "x-gateway-destination-endpoint"
	servedKey         = "x-gateway-destination-endpoint-served"
)

// requestID returns a UUID that follows from seed and number.
func requestID(seed, number uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], mix(seed^mix(number)))
	binary.BigEndian.PutUint64(raw[8:], number)
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[:], raw[:4])
	hex.Encode(out[9:], raw[4:6])
	hex.Encode(out[14:], raw[6:8])
	hex.Encode(out[19:], raw[8:10])
	hex.Encode(out[24:], raw[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}

// requestHeaders are the headers of an OpenAI client's POST as Envoy hands them over: values as raw bytes, pseudo-headers
// first, Envoy's own additions last.
func requestHeaders(id string, bodyBytes int) *corev3.HeaderMap {
	return headerMap(
		":authority", "inference.example.com",
		":path", "/v1/chat/completions",
		":method", "POST",
		":scheme", "http",
		"user-agent", "OpenAI/Python 2.8.1",
		"accept", "application/json",
		"accept-encoding", "gzip, deflate",
		"content-type", "application/json",
		"content-length", strconv.Itoa(bodyBytes),
		"authorization", "Bearer benchmark",
		"x-stainless-lang", "python",
		"x-stainless-os", "Linux",
		"x-stainless-runtime", "CPython",
		"x-stainless-retry-count", "0",
		"x-forwarded-for", "192.0.2.17",
		"x-forwarded-proto", "http",
		"x-request-id", id,
	)
}

// responseHeaders are a model server's, of a streamed answer.
func responseHeaders() *corev3.HeaderMap {
	return headerMap(
		":status", "200",
		"date", "Mon, 30 Nov 2026 02:53:42 GMT",
		"server", "uvicorn",
		"content-type", "text/event-stream; charset=utf-8",
		"transfer-encoding", "chunked",
		"x-envoy-upstream-service-time", "3",
	)
}

func headerMap(namesAndValues ...string) *corev3.HeaderMap {
	fields := make([]*corev3.HeaderValue, 0, len(namesAndValues)/2)
	for i := 0; i < len(namesAndValues); i += 2 {
		fields = append(fields, &corev3.HeaderValue{Key: namesAndValues[i], RawValue: []byte(namesAndValues[i+1])})
	}
	return &corev3.HeaderMap{Headers: fields}
}

// returned is the metadata that Envoy sends with the response: what the server had set, and the host that served.
func returned(set *structpb.Struct, served string) *corev3.Metadata {
	out := map[string]*structpb.Struct{}
	for namespace, v := range set.GetFields() {
		if s := v.GetStructValue(); s != nil {
			out[namespace] = s
		}
	}
	lb := &structpb.Struct{Fields: map[string]*structpb.Value{servedKey: structpb.NewStringValue(served)}}
	for k, v := range out[lbNamespace].GetFields() {
		lb.Fields[k] = v
	}
	out[lbNamespace] = lb
	return &corev3.Metadata{FilterMetadata: out}
}
