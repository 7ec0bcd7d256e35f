// Package wire reads and writes the protobuf messages of Envoy's external processing and of its access log as bytes: what is
// needed of them, and nothing else. Bodies are parts of the message that brought them, and of the message that takes them on.
//
// Reading follows protobuf: unknown fields and fields of another wire type are skipped, a repeated member of a oneof or scalar
// is as its last occurrence says, and submessages that come in several parts are merged.
//
// The messages: envoy/service/ext_proc/v3/external_processor.proto, envoy/service/accesslog/v3/als.proto,
// envoy/data/accesslog/v3/accesslog.proto, envoy/config/core/v3/base.proto, envoy/data/ai/v3/token_usage.proto. The encoding:
// protobuf.dev/programming-guides/encoding.
package wire
