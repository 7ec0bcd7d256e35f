package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Mode says what of a response visits the server.
type Mode string

const (
	// Headers: the response headers; then Envoy ends the stream (response body NONE, trailers SKIP).
	Headers Mode = "headers"
	// Edges: as Headers, and an access-log entry at the end of the response, on the server's own port.
	Edges Mode = "edges"
	// Full: the response headers and every chunk of the body, each echoed (FULL_DUPLEX_STREAMED).
	Full Mode = "full"
)

// check returns an error for an unknown mode.
func (m Mode) check() error {
	if m != Headers && m != Edges && m != Full {
		return fmt.Errorf("mode is %q; one of headers, edges, full", m)
	}
	return nil
}

// sseChunk is one event of a streamed chat completion, as vLLM writes it; lastChunk carries the usage.
const (
	sseChunk  = `data: {"id":"chatcmpl-5f2b7a9c41e84d0f","object":"chat.completion.chunk","created":1796000000,"model":"llama-3.1-8b","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	lastChunk = `data: {"id":"chatcmpl-5f2b7a9c41e84d0f","object":"chat.completion.chunk","created":1796000000,"model":"llama-3.1-8b","choices":[],"usage":{"prompt_tokens":50,"total_tokens":306,"completion_tokens":256}}` + "\n\ndata: [DONE]\n\n"
)

// player plays exchanges, one at a time, over one connection. It keeps its buffers from one to the next.
type player struct {
	load    *Load
	prompts *Prompts
	client  extprocv3.ExternalProcessorClient
	log     *accessLog // nil unless the mode is Edges

	body   []byte
	frames []int
}

// outcome is what one exchange showed.
type outcome struct {
	// decision is the time from handing the message with the last byte of the body to gRPC until the answer to the headers
	// was there; less than zero for a server that decided before.
	decision time.Duration
	to       string
	sent     int // bytes of body
}

// play runs the exchange with this number, from headers to the end of the stream. The fault is nil if all was as the
// protocol and the bytes demand.
func (p *player) play(ctx context.Context, number uint64) (outcome, *Fault) {
	ctx, cancel := context.WithTimeout(ctx, p.load.Timeout)
	defer cancel() // resets the stream if it is still open, as Envoy does after the last answer
	stream, err := p.client.Process(ctx)
	if err != nil {
		return outcome{}, fault(StreamBroken, "opening: %v", err)
	}
	id := requestID(p.load.Seed, number)
	p.body = p.prompts.Body(p.body[:0], number)
	out := outcome{sent: len(p.body)}

	last, f := p.request(stream, id, number)
	if f != nil {
		return out, f
	}
	a := answers{body: echo{want: p.body}}
	for !a.decided || !a.body.done {
		m, err := stream.Recv()
		if err != nil {
			return out, ended(err, "the request")
		}
		undecided := !a.decided
		if f := a.take(m); f != nil {
			return out, f
		}
		if undecided && a.decided {
			out.decision = time.Since(last)
		}
	}
	out.to = a.to

	metadata := returned(a.metadata, a.to)
	if f := p.response(stream, metadata); f != nil {
		return out, f
	}
	if p.load.Mode == Full {
		return out, nil
	}
	if f := drain(stream); f != nil {
		return out, f
	}
	if p.log != nil {
		if err := p.log.entry(id, metadata, out.sent); err != nil {
			return out, fault(LogRefused, "%v", err)
		}
	}
	return out, nil
}

// request sends headers and body and returns the instant before the last byte was sent. Sending never waits for answers:
// the stream's window holds a whole body.
func (p *player) request(stream extprocv3.ExternalProcessor_ProcessClient, id string, number uint64) (last time.Time, f *Fault) {
	responseBody := filterv3.ProcessingMode_NONE
	if p.load.Mode == Full {
		responseBody = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	}
	err := stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{Headers: requestHeaders(id, len(p.body))},
		},
		MetadataContext: &corev3.Metadata{},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{
			RequestBodyMode:  filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			ResponseBodyMode: responseBody,
		},
	})
	if err != nil {
		return last, sendEnded(stream, err, "the request headers")
	}
	p.frames = p.load.Framing.frames(p.frames[:0], number, len(p.body))
	part := &extprocv3.HttpBody{}
	m := &extprocv3.ProcessingRequest{
		Request:         &extprocv3.ProcessingRequest_RequestBody{RequestBody: part},
		MetadataContext: &corev3.Metadata{},
	}
	rest := p.body
	for i, n := range p.frames {
		part.Body, rest = rest[:n], rest[n:]
		part.EndOfStream = i == len(p.frames)-1
		if n > 0 && len(rest) == 0 {
			last = time.Now()
		}
		if err := stream.Send(m); err != nil {
			return last, sendEnded(stream, err, "the request body")
		}
	}
	return last, nil
}

// response sends the answer of the model server as the mode has it, and reads what the picker says to it.
func (p *player) response(stream extprocv3.ExternalProcessor_ProcessClient, metadata *corev3.Metadata) *Fault {
	err := stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{
			ResponseHeaders: &extprocv3.HttpHeaders{Headers: responseHeaders()},
		},
		MetadataContext: metadata,
	})
	if err != nil {
		return sendEnded(stream, err, "the response headers")
	}
	m, err := stream.Recv()
	if err != nil {
		return ended(err, "the response headers")
	}
	if m.GetResponseHeaders() == nil {
		return unexpected(m, "the response headers")
	}
	if p.load.Mode != Full {
		return nil
	}
	var pace <-chan time.Time
	if p.load.ChunkInterval > 0 {
		ticker := time.NewTicker(p.load.ChunkInterval)
		defer ticker.Stop()
		pace = ticker.C
	}
	for i := range p.load.Chunks {
		if pace != nil {
			select {
			case <-pace:
			case <-stream.Context().Done():
				return fault(StreamBroken, "while answering the response body: %v", stream.Context().Err())
			}
		}
		chunk := sseChunk
		if i == p.load.Chunks-1 {
			chunk = lastChunk
		}
		if f := exchangeChunk(stream, metadata, []byte(chunk), false); f != nil {
			return f
		}
	}
	return exchangeChunk(stream, metadata, nil, true)
}

// exchangeChunk sends one chunk of the response and reads until it has come back whole.
func exchangeChunk(stream extprocv3.ExternalProcessor_ProcessClient, metadata *corev3.Metadata, chunk []byte, end bool) *Fault {
	err := stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseBody{
			ResponseBody: &extprocv3.HttpBody{Body: chunk, EndOfStream: end},
		},
		MetadataContext: metadata,
	})
	if err != nil {
		return sendEnded(stream, err, "the response body")
	}
	back := echo{want: chunk}
	for {
		m, err := stream.Recv()
		if err != nil {
			return ended(err, "the response body")
		}
		b := m.GetResponseBody()
		if b == nil {
			return unexpected(m, "the response body")
		}
		if f := back.piece(b); f != nil {
			return f
		}
		if back.done && !end {
			return fault(OutOfOrder, "response ended before its end_of_stream")
		}
		if back.done || !end && back.at == len(chunk) {
			return nil
		}
	}
}

// drain half-closes the stream and waits until the server has ended it too, with OK and without a further word.
func drain(stream extprocv3.ExternalProcessor_ProcessClient) *Fault {
	if err := stream.CloseSend(); err != nil {
		return fault(StreamBroken, "closing: %v", err)
	}
	m, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return ended(err, "the end of the stream")
	}
	return unexpected(m, "the end of the stream")
}

// ended is the fault of a stream whose Recv failed while what was to be answered.
func ended(err error, what string) *Fault {
	if errors.Is(err, io.EOF) {
		return fault(StreamBroken, "the server ended it with OK while answering %s", what)
	}
	s := status.Convert(err)
	return fault(StreamBroken, "%v while answering %s: %s", s.Code(), what, s.Message())
}

// sendEnded is the fault of a Send that failed. Where the server had ended the stream, its last words tell why: they are
// read until the status comes.
func sendEnded(stream grpc.ClientStream, err error, what string) *Fault {
	for errors.Is(err, io.EOF) {
		m := new(extprocv3.ProcessingResponse)
		if err = stream.RecvMsg(m); err == nil {
			if m.GetImmediateResponse() != nil {
				return unexpected(m, what)
			}
			err = io.EOF
			continue
		}
		return ended(err, what)
	}
	return ended(err, what)
}
