package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/fairlead/fairlead/simulator/engine"
)

const (
	defaultDimensions = 64
	maxDimensions     = 8192
	maxInputs         = 2048
)

// embeddings serves /v1/embeddings: each input is a request of its own to the engine, which computes its prompt. The vector
// follows from the input alone and has length 1.
func (c *call) embeddings() {
	faults, refused := c.faults()
	if refused == nil && c.spoiled(faults) {
		return
	}
	given, ok := c.read()
	if !ok {
		return
	}
	var wish struct {
		model, format string
		dimensions    int
	}
	wish.dimensions = defaultDimensions
	for name, into := range map[string]any{"model": &wish.model, "encoding_format": &wish.format, "dimensions": &wish.dimensions} {
		if raw := given[name]; refused == nil && raw != nil && string(raw) != "null" && json.Unmarshal(raw, into) != nil {
			refused = badRequest(name, fmt.Sprintf("%s has a wrong type: %.40s", name, raw))
		}
	}
	adapter, known := c.pod.models.find(wish.model)
	inputs, wrong := embeddingInputs(given["input"])
	switch {
	case refused != nil:
	case !known:
		refused = &apiError{http.StatusNotFound, "NotFoundError", "model", fmt.Sprintf("The model `%s` does not exist.", wish.model)}
	case wrong != nil:
		refused = wrong
	case wish.dimensions < 1 || wish.dimensions > maxDimensions:
		refused = badRequest("dimensions", fmt.Sprintf("dimensions is %d; 1 to %d.", wish.dimensions, maxDimensions))
	case wish.format != "" && wish.format != "float" && wish.format != "base64":
		refused = badRequest("encoding_format", fmt.Sprintf("encoding_format is %q; float or base64.", wish.format))
	}
	if refused != nil {
		refused.write(c.w)
		return
	}
	if wish.model == "" {
		wish.model = c.pod.models.base
	}
	c.release()
	streams := make([]*stream, len(inputs))
	digests := make([]uint64, len(inputs))
	total := 0
	profile := c.pod.engine.Profile()
	for i, tokens := range inputs {
		chain := engine.NewChain(c.pod.models.root, c.pod.models.adapter(adapter), "", profile.BlockTokens)
		r := engine.Request{Prompt: int32(len(tokens)), Output: 1, Hashes: chain.Append(nil, tokens), Adapter: adapter}
		digests[i] = chain.Digest()
		total += len(tokens)
		s, err := c.pod.submit(r, 1, true)
		if err != nil {
			if errors.Is(err, engine.ErrQueueFull) {
				busy.write(c.w)
			} else {
				badRequest("input", err.Error()).write(c.w)
			}
			return
		}
		defer c.pod.abort(s)
		streams[i] = s
	}
	for _, s := range streams {
		for !s.finished.Load() {
			if !c.wait(s) {
				return
			}
		}
	}
	body := append([]byte(nil), `{"object":"list","data":[`...)
	for i, digest := range digests {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"object":"embedding","index":`...)
		body = strconv.AppendInt(body, int64(i), 10)
		body = append(body, `,"embedding":`...)
		body = appendVector(body, digest, wish.dimensions, wish.format == "base64")
		body = append(body, '}')
	}
	body = append(body, `],"model":`...)
	body = appendString(body, wish.model)
	n := strconv.Itoa(total)
	writeJSON(c.w, http.StatusOK, append(body, `,"usage":{"prompt_tokens":`+n+`,"total_tokens":`+n+`,"completion_tokens":0}}`...))
}

// embeddingInputs returns the tokens of each input: a string, a list of token ids, or a list of either.
func embeddingInputs(raw json.RawMessage) ([][]uint32, *apiError) {
	list, isList := elements(raw)
	if !isList || len(list) > 0 && list[0][0] != '"' && list[0][0] != '[' {
		list = []json.RawMessage{raw}
	}
	if len(raw) == 0 || len(list) == 0 || len(list) > maxInputs {
		return nil, badRequest("input", fmt.Sprintf("input must be a string, a list of token ids, or a list of 1 to %d of these.", maxInputs))
	}
	inputs := make([][]uint32, len(list))
	for i, one := range list {
		tokens, refused := appendPrompt([]uint32{tokenBegin}, one)
		if refused != nil {
			return nil, badRequest("input", "Each input must be a string or a list of token ids.")
		}
		inputs[i] = tokens
	}
	return inputs, nil
}

// appendVector appends a vector of length 1 that follows from digest.
func appendVector(dst []byte, digest uint64, n int, packed bool) []byte {
	values := make([]float64, n)
	var square float64
	for i := range values {
		values[i] = float64(int64(mix(digest+uint64(i)))) / (1 << 63)
		square += float64(values[i] * values[i])
	}
	length := math.Sqrt(square)
	if packed {
		raw := make([]byte, 0, 4*n)
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(v/length)))
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, raw)
		return append(dst, '"')
	}
	for i, v := range values {
		if i == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(float32(v/length)), 'g', -1, 32)
	}
	return append(dst, ']')
}
