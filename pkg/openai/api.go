// Package openai knows the OpenAI-compatible HTTP API, and what stands beside it (Anthropic's messages, vLLM's and SGLang's
// own calls, their gRPC forms), as bytes: which path is which API, how a request body is scanned without being decoded, how
// one member of it is edited in place, how a server-sent event stream and the token usage in it are read, and how errors and
// model lists are shaped. It imports nothing of ours.
package openai

// API is the kind of a request, known by its method and path.
type API uint8

// The kinds. Other is every path that is none of the known ones; it is passed through.
const (
	Other           API = iota
	ChatCompletions     // POST …/chat/completions
	Completions         // POST …/completions
	Responses           // POST …/responses
	Messages            // POST …/messages (Anthropic)
	Embeddings          // POST …/embeddings
	Rerank              // POST …/rerank
	Score               // POST …/score
	Classify            // POST …/classify
	Generate            // POST …/inference/v1/generate (vLLM)
	Models              // GET …/v1/models
	Conversations       // POST …/conversations
	CountTokens         // POST …/messages/count_tokens (Anthropic)
	MessagesOther       // anything else of Anthropic's: …/v1/messages/…
	Pooling             // POST …/pooling (vLLM)
	SGLangGenerate      // POST …/generate (SGLang)
	Transcriptions      // POST …/audio/transcriptions
	Translations        // POST …/audio/translations
	Speech              // POST …/audio/speech
	Images              // POST …/images/generations, edits, variations
	GRPCGenerate        // POST /vllm.grpc.engine.VllmEngine/Generate
	GRPCEmbed           // POST /vllm.grpc.engine.VllmEngine/Embed
	VertexChat          // POST …PredictionService/ChatCompletions
	VertexRaw           // POST …PredictionService/RawPredict, StreamRawPredict
	VertexHTTP          // POST …:rawPredict, …:streamRawPredict

	apiCount = int(VertexHTTP) + 1
)

// form is how the body of a request is written.
type form uint8

const (
	anyForm      form = iota // JSON if it says so, else unread
	jsonForm                 // JSON, also if it does not say so
	uploadForm               // multipart/form-data, or JSON
	vllmForm                 // a gRPC message of vLLM's engine
	httpBodyForm             // JSON, alone or in a gRPC message with a google.api.HttpBody
	noForm                   // no body is read
)

// dialect is how errors are written.
type dialect uint8

const (
	openaiDialect dialect = iota
	anthropicDialect
	grpcDialect
)

// kinds says of each API what matters here.
var kinds = [apiCount]struct {
	name      string
	form      form
	errors    dialect
	generates bool
}{
	Other:           {name: "other"},
	ChatCompletions: {"chat.completions", jsonForm, openaiDialect, true},
	Completions:     {"completions", jsonForm, openaiDialect, true},
	Responses:       {"responses", jsonForm, openaiDialect, true},
	Messages:        {"messages", jsonForm, anthropicDialect, true},
	Embeddings:      {"embeddings", jsonForm, openaiDialect, false},
	Rerank:          {"rerank", jsonForm, openaiDialect, false},
	Score:           {"score", jsonForm, openaiDialect, false},
	Classify:        {"classify", jsonForm, openaiDialect, false},
	Generate:        {"generate", jsonForm, openaiDialect, true},
	Models:          {"models", noForm, openaiDialect, false},
	Conversations:   {"conversations", anyForm, openaiDialect, false},
	CountTokens:     {"messages.count_tokens", jsonForm, anthropicDialect, false},
	MessagesOther:   {"messages.other", anyForm, anthropicDialect, false},
	Pooling:         {"pooling", jsonForm, openaiDialect, false},
	SGLangGenerate:  {"generate.sglang", jsonForm, openaiDialect, true},
	Transcriptions:  {"audio.transcriptions", uploadForm, openaiDialect, false},
	Translations:    {"audio.translations", uploadForm, openaiDialect, false},
	Speech:          {"audio.speech", jsonForm, openaiDialect, false},
	Images:          {"images", uploadForm, openaiDialect, false},
	GRPCGenerate:    {"grpc.generate", vllmForm, grpcDialect, true},
	GRPCEmbed:       {"grpc.embed", vllmForm, grpcDialect, false},
	VertexChat:      {"vertex.chat", httpBodyForm, grpcDialect, true},
	VertexRaw:       {"vertex.raw", httpBodyForm, grpcDialect, true},
	VertexHTTP:      {"vertex.http", anyForm, openaiDialect, true},
}

func (a API) kind() API {
	if int(a) < apiCount {
		return a
	}
	return Other
}

// String returns the API's name as records and metric labels print it.
func (a API) String() string { return kinds[a.kind()].name }

// Generates reports whether a request of this kind makes an engine prefill a prompt and generate tokens.
func (a API) Generates() bool { return kinds[a.kind()].generates }

// APIs returns all kinds, in the order of their numbers.
func APIs() []API {
	all := make([]API, apiCount)
	for i := range all {
		all[i] = API(i)
	}
	return all
}
