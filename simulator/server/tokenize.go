package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// read returns the members of the body, which must be a JSON object in UTF-8.
func (c *call) read() (map[string]json.RawMessage, bool) {
	if utf8.Valid(c.body) && json.Valid(c.body) {
		if given := members(c.body); given != nil {
			return given, true
		}
	}
	badRequest("", "There was an error parsing the body: it must be a JSON object.").write(c.w)
	return nil, false
}

// prompt returns the tokens that a request with these members would have: of its messages, or else of its prompt.
func prompt(given map[string]json.RawMessage, shape shape, bodyBytes int) ([]uint32, *apiError) {
	if shape == completions && given["messages"] != nil {
		shape = chat
	}
	return promptTokens(given, shape, bodyBytes)
}

// tokenize answers with ids that stand for the same tokens when they are given as a prompt.
func (c *call) tokenize() {
	given, ok := c.read()
	if !ok {
		return
	}
	tokens, refused := prompt(given, completions, len(c.body))
	if refused != nil {
		refused.write(c.w)
		return
	}
	body := append([]byte(nil), `{"count":`...)
	body = strconv.AppendInt(body, int64(len(tokens)), 10)
	body = append(body, `,"max_model_len":`...)
	body = strconv.AppendInt(body, int64(c.pod.engine.Profile().MaxModelLen), 10)
	body = append(body, `,"tokens":[`...)
	for i, t := range tokens {
		if i > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendUint(body, uint64(t^tokenGivenFlag), 10)
	}
	writeJSON(c.w, http.StatusOK, append(body, `],"token_strs":null}`...))
}

// detokenize answers with the text of tokens; what stands for roles and turns is left out.
func (c *call) detokenize() {
	given, ok := c.read()
	if !ok {
		return
	}
	var ids []uint32
	if json.Unmarshal(given["tokens"], &ids) != nil {
		badRequest("tokens", "tokens must be a list of non-negative integers.").write(c.w)
		return
	}
	var plain []byte
	for _, id := range ids {
		t := id ^ tokenGivenFlag
		if t >= tokenBegin {
			continue
		}
		for ; t > 0; t >>= 8 {
			plain = append(plain, byte(t))
		}
	}
	writeJSON(c.w, http.StatusOK, append(appendString([]byte(`{"prompt":`), string(plain)), '}'))
}

// countTokens serves /v1/messages/count_tokens.
func (c *call) countTokens() {
	given, ok := c.read()
	if !ok {
		return
	}
	tokens, refused := prompt(given, messages, len(c.body))
	if refused != nil {
		refused.write(c.w)
		return
	}
	n := strconv.Itoa(len(tokens))
	writeJSON(c.w, http.StatusOK, []byte(`{"input_tokens":`+n+`,"context_management":{"original_input_tokens":`+n+`}}`))
}
