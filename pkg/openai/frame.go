package openai

import (
	"encoding/binary"
	"strconv"
)

// frameHead is the length of what precedes each message of a gRPC stream: a flag and four bytes of length, big-endian
// (grpc/doc/PROTOCOL-HTTP2.md).
const frameHead = 5

// frames cuts a gRPC stream into its messages, as they come.
type frames struct {
	head  [frameHead]byte
	n     int   // of its bytes
	left  int64 // bytes of the message to come
	in    bool  // inside a message
	count int64 // messages begun
}

// feed calls begin where a message begins, and piece with its bytes; either returning false ends the reading.
func (f *frames) feed(c []byte, begin func(flag byte, length int64) bool, piece func(p []byte, last bool) bool) {
	for len(c) > 0 {
		if !f.in {
			n := copy(f.head[f.n:], c)
			f.n += n
			c = c[n:]
			if f.n < frameHead {
				return
			}
			f.n, f.in = 0, true
			f.count++
			f.left = int64(binary.BigEndian.Uint32(f.head[1:]))
			if !begin(f.head[0], f.left) {
				return
			}
			if f.left == 0 {
				f.in = false
				if !piece(nil, true) {
					return
				}
			}
			continue
		}
		n := min(int64(len(c)), f.left)
		f.left -= n
		f.in = f.left > 0
		if !piece(c[:n], f.left == 0) {
			return
		}
		c = c[n:]
	}
}

// The nodes of vLLM's requests (vllm_engine.proto): GenerateRequest{2: tokenized{2: input_ids}, 3: text, 4: sampling_params{8:
// max_tokens, 15: n}, 5: stream} and EmbedRequest{2: tokenized}; and of those of Vertex AI, {2: http_body{2: data}}.
const (
	protoTop node = iota + 1
	protoTokenized
	protoIDs
	protoText
	protoSampling
	protoMaxTokens
	protoN
	protoStream
	protoHTTPBody
	protoData
)

// framed reads the gRPC message of a request: one of vLLM's engine, whose prompt is text or token ids and which names no
// model, or one of Vertex AI, which has a JSON body inside.
type framed struct {
	api    API
	sum    *Summary
	frames frames
	msg    messageReader
	json   *pooled // the JSON inside, for Vertex AI
	err    error
	whole  bool // the message was read to its end

	ids, text Span
	tokens    int64
}

func newFramed(api API) *framed {
	f := &framed{api: api, sum: NewSummary()}
	if kinds[api.kind()].form == httpBodyForm {
		f.json = newPooled(api)
	}
	return f
}

// Feed implements BodyReader.
func (f *framed) Feed(chunk []byte) error {
	f.sum.AddChunk(chunk)
	if f.err == nil && !f.whole {
		f.frames.feed(chunk, f.begin, f.piece)
	}
	return f.err
}

func (f *framed) begin(flag byte, length int64) bool {
	switch flag {
	case 0:
	case 1:
		f.err = &UnreadError{"its gRPC message is compressed"}
	default:
		f.err = &FormError{"the gRPC message begins with flag " + strconv.Itoa(int(flag)) + "; there are 0 and 1"}
	}
	f.msg.reset(f, protoTop, frameHead, length)
	return f.err == nil
}

func (f *framed) piece(p []byte, last bool) bool {
	if !f.msg.feed(p) || last && !f.msg.complete() {
		if f.err == nil {
			f.err = &FormError{"the gRPC message is no protobuf message"}
		}
		return false
	}
	f.whole = last
	return !last && f.err == nil // what follows a request's only message is for the engine to judge
}

// Finish implements BodyReader.
func (f *framed) Finish() (*Summary, error) {
	f.sum.Complete = true
	if f.err == nil && !f.whole {
		f.err = &FormError{"the gRPC message is cut short"}
	}
	if f.err != nil {
		return f.sum, f.err
	}
	if f.json != nil {
		sum, err := f.json.Finish()
		sum.seal()
		return sum, err
	}
	f.sum.Sealed = true
	switch {
	case f.ids.Len() > 0:
		f.sum.Prompt, f.sum.PromptTokens = []Segment{{SegmentTokens, f.ids}}, f.tokens
	case f.text.Len() > 0:
		f.sum.Prompt = []Segment{{SegmentText, f.text}}
	}
	for _, s := range f.sum.Prompt {
		f.sum.PromptBytes += s.Span.Len()
	}
	return f.sum, nil
}

// child implements messageSink.
func (f *framed) child(in node, number uint64) (node, bool) {
	if f.json != nil {
		switch {
		case in == protoTop && number == 2:
			return protoHTTPBody, true
		case in == protoHTTPBody && number == 2:
			return protoData, false
		}
		return anywhere, false
	}
	switch in {
	case protoTop:
		switch number {
		case 2:
			return protoTokenized, true
		case 3:
			return protoText, false
		case 4:
			return protoSampling, true
		case 5:
			return protoStream, false
		}
	case protoTokenized:
		if number == 2 {
			return protoIDs, false
		}
	case protoSampling:
		switch number {
		case 8:
			return protoMaxTokens, false
		case 15:
			return protoN, false
		}
	}
	return anywhere, false
}

// varint implements messageSink.
func (f *framed) varint(at node, v uint64, span Span) {
	n := int64(min(v, 1<<62))
	switch at {
	case protoIDs: // not packed
		f.addIDs(Span{span.Start, span.End})
		f.tokens++
	case protoMaxTokens:
		f.sum.MaxTokens = n
	case protoN:
		f.sum.N = max(n, 1)
	case protoStream:
		f.sum.Stream = v != 0
	}
}

// addIDs makes the segment of ids longer: from the first to the last.
func (f *framed) addIDs(span Span) {
	if f.ids.Len() == 0 {
		f.ids = span
	}
	f.ids.End = max(f.ids.End, span.End)
}

// opens implements messageSink.
func (f *framed) opens(at node, span Span) {
	switch at {
	case protoIDs:
		f.addIDs(span)
	case protoText:
		f.text = span
	}
}

// bytes implements messageSink.
func (f *framed) bytes(at node, p []byte) {
	switch {
	case at == protoIDs:
		for _, b := range p {
			if b < 0x80 {
				f.tokens++
			}
		}
	case at == protoData && f.err == nil:
		f.err = f.json.Feed(p)
	}
}

// Summary implements BodyReader.
func (f *framed) Summary() *Summary {
	if f.json != nil {
		sum := f.json.Summary()
		sum.seal()
		return sum
	}
	return f.sum
}

// Told implements BodyReader: vLLM's messages name no model.
func (f *framed) Told(onlyModel bool) bool {
	if f.json != nil {
		return f.json.Told(onlyModel)
	}
	return onlyModel
}

// Release implements BodyReader.
func (f *framed) Release() {
	if f.json != nil {
		f.json.Release()
		f.json = nil
	}
	f.sum = nil
}
