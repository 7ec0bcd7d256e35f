package openai

import "bytes"

// The nodes of vLLM's answers (vllm_engine.proto): GenerateResponse{1: chunk{2: prompt_tokens, 3: completion_tokens, 4:
// cached_tokens}, 2: complete{3, 4, 5: the same}} and EmbedResponse{2: prompt_tokens}; and of those of Vertex AI, HttpBody{2:
// data}.
const (
	answerTop node = iota + 1
	answerChunk
	answerComplete
	answerPrompt
	answerOut
	answerCached
	answerData
)

// grpcUsage finds the token usage in a gRPC stream. Numbers are totals so far: the last ones count.
type grpcUsage struct {
	api    API
	frames frames
	msg    messageReader
	skip   bool // the message in hand is not read
	broken bool
	done   bool
	found  Usage
	inner  *UsageReader // of the JSON or event stream inside, for Vertex AI
}

func newGRPCUsage(api API) *grpcUsage { return &grpcUsage{api: api, found: NoUsage} }

func (g *grpcUsage) feed(chunk []byte) {
	if !g.broken {
		g.frames.feed(chunk, g.begin, g.piece)
	}
}

func (g *grpcUsage) begin(flag byte, length int64) bool {
	g.skip = flag != 0 // compressed
	g.msg.reset(g, answerTop, 0, length)
	return true
}

func (g *grpcUsage) piece(p []byte, _ bool) bool {
	if !g.skip && !g.msg.feed(p) {
		g.skip = true
	}
	return true
}

func (g *grpcUsage) usage() Usage {
	if g.inner != nil {
		return g.inner.Usage()
	}
	return g.found
}

func (g *grpcUsage) isDone() bool { return g.done || g.inner != nil && g.inner.Done() }

// child implements messageSink.
func (g *grpcUsage) child(in node, number uint64) (node, bool) {
	switch {
	case g.api == VertexChat || g.api == VertexRaw:
		if in == answerTop && number == 2 {
			return answerData, false
		}
	case g.api == GRPCEmbed:
		if in == answerTop && number == 2 {
			return answerPrompt, false
		}
	case in == answerTop && number == 1:
		return answerChunk, true
	case in == answerTop && number == 2:
		return answerComplete, true
	case in == answerChunk || in == answerComplete:
		if in == answerComplete {
			number--
		}
		if number >= 2 && number <= 4 {
			return answerPrompt + node(number-2), false
		}
	}
	return anywhere, false
}

// varint implements messageSink.
func (g *grpcUsage) varint(at node, v uint64, _ Span) {
	if v > maxReported {
		return
	}
	switch at {
	case answerPrompt:
		g.found.Prompt = int64(v)
		if g.api == GRPCEmbed {
			g.found.Out, g.done = 0, true
		}
	case answerOut:
		g.found.Out = int64(v)
	case answerCached:
		g.found.Cached = int64(v)
	}
}

// opens implements messageSink. A number that is 0 is not written, so a message that reports begins at 0.
func (g *grpcUsage) opens(at node, _ Span) {
	switch at {
	case answerComplete:
		g.done = true
		g.found = Usage{Prompt: max(g.found.Prompt, 0), Cached: max(g.found.Cached, 0), Out: max(g.found.Out, 0)}
	case answerChunk:
		if g.found == NoUsage {
			g.found = Usage{}
		}
	}
}

// bytes implements messageSink.
func (g *grpcUsage) bytes(at node, p []byte) {
	if at != answerData {
		return
	}
	if g.inner == nil {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return
		}
		kind := "text/event-stream"
		if p[0] == '{' {
			kind = "application/json"
		}
		g.inner = NewUsageReader(Other, kind, "")
	}
	g.inner.Feed(p)
}
