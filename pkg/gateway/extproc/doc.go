// Package extproc serves Envoy's external processing protocol over [exchange.Exchange]: it carries the bytes between a
// gateway's stream and the exchange, and decides nothing.
//
// One stream is one request. In the body mode FULL_DUPLEX_STREAMED, which the Endpoint Picker Protocol asks for, the
// messages go
//
//	gateway                              here
//	request headers                  →
//	                                 ←   mode_override, where the gateway says that it takes one
//	body, as it comes, or trailers   →   kept until the exchange says Forward
//	                                 ←   headers answer: destination, metadata, headers set and removed
//	                                 ←   the body again in pieces, edited where the exchange says so, then trailers
//	response headers                 →
//	                                 ←   answer; with overriding, the response's body mode is lifted where it must be seen
//	response body, trailers          →
//	                                 ←   each at once
//	end of the stream, or an access-log entry that names the decision
//
// The other body modes are served as far as they go: BUFFERED as above, with the destination in the body's answer;
// BUFFERED_PARTIAL by what of the body fits the gateway's buffer; STREAMED and NONE by the headers alone, since there the
// headers must have left before the body comes.
//
// The protocol: envoy/service/ext_proc/v3/external_processor.proto; the access log: envoy/service/accesslog/v3/als.proto;
// header and metadata names: Endpoint Picker Protocol v1.0.0 of the Gateway API Inference Extension.
package extproc
