// Package h2 serves gRPC streams over HTTP/2 with one goroutine for each connection: it reads what has come, hands each
// message to its stream's handler, and writes all answers at once when nothing more is there to be read. There is no
// goroutine, no wake-up and no allocation per message, which is what most of the cost of a short message is elsewhere.
//
// It is a server for handlers that answer at once. One that must wait pauses its stream, and goes on in [Stream.Do] from any
// goroutine; the others of its connection go on meanwhile. What it leaves out of HTTP/2 is what gRPC does not use: priorities
// are read and ignored, nothing is pushed, and header compression of answers is by the static table alone.
//
// HTTP/2: RFC 9113; HPACK: RFC 7541; gRPC over it: doc/PROTOCOL-HTTP2.md of grpc/grpc.
package h2
