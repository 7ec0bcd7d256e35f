package server

import (
	"bytes"
	"encoding/json"
)

// Prompts are made into tokens cheaply and so that equal texts are equal tokens: every four bytes of a piece of text are one,
// what is left at the end of a piece is one, and roles, turns and other marks are special ones. A conversation that goes on
// with the generated answer repeats the tokens of the turn before and those that were generated, so its prefix is cached as
// it would be by the real template and tokenizer. Generated tokens are four bytes each for that reason.

// Special tokens have a byte that occurs in no UTF-8 text.
const (
	tokenBegin     = 0xFF00_0000 + iota // of the text
	tokenRole                           // a message begins; its role follows
	tokenContent                        // its role ends; its content follows
	tokenTurn                           // it ends
	tokenPart                           // a content part that is no text; its JSON follows
	tokenGivenFlag = 0xFE00_0000        // set on ids that a client gave
)

const bytesPerToken = 4

// appendText appends the tokens of one piece of text.
func appendText(dst []uint32, text []byte) []uint32 {
	i := 0
	for ; i+bytesPerToken <= len(text); i += bytesPerToken {
		dst = append(dst, uint32(text[i])|uint32(text[i+1])<<8|uint32(text[i+2])<<16|uint32(text[i+3])<<24)
	}
	if i < len(text) {
		var last uint32
		for shift := 0; i < len(text); i, shift = i+1, shift+8 {
			last |= uint32(text[i]) << shift
		}
		dst = append(dst, last)
	}
	return dst
}

// appendRole opens a message.
func appendRole(dst []uint32, role []byte) []uint32 {
	dst = append(dst, tokenRole)
	dst = appendText(dst, role)
	return append(dst, tokenContent)
}

// appendMessage appends a message of a chat, which is a JSON object. What is no text is taken as the JSON that it is.
func appendMessage(dst []uint32, raw json.RawMessage) ([]uint32, *apiError) {
	message := members(raw)
	if message == nil {
		return dst, badRequest("messages", "Each message must be an object.")
	}
	role, _ := text(message["role"])
	if kind, ok := text(message["type"]); ok && len(role) == 0 && string(kind) != "message" {
		// An item of the Responses API that is no message: a tool's call or its result.
		dst = append(dst, tokenPart)
		return append(appendText(dst, raw), tokenTurn), nil
	}
	if len(role) == 0 {
		return dst, badRequest("messages", "Each message must have a role, a string.")
	}
	dst = appendRole(dst, role)
	dst, err := appendContent(dst, message["content"])
	if err != nil {
		return dst, err
	}
	for _, member := range [...]string{"tool_calls", "tool_call_id", "name"} {
		if value := message[member]; value != nil && string(value) != "null" {
			dst = append(dst, tokenPart)
			dst = appendText(dst, value)
		}
	}
	return append(dst, tokenTurn), nil
}

func appendContent(dst []uint32, raw json.RawMessage) ([]uint32, *apiError) {
	if len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	if whole, ok := text(raw); ok {
		return appendText(dst, whole), nil
	}
	parts, ok := elements(raw)
	if !ok {
		return dst, badRequest("messages", "The content of a message must be a string or a list of parts.")
	}
	for _, raw := range parts {
		part := members(raw)
		if part == nil {
			return dst, badRequest("messages", "Each content part must be an object with a type.")
		}
		kind, _ := text(part["type"])
		if piece, ok := text(part["text"]); ok && (string(kind) == "text" || string(kind) == "input_text" || string(kind) == "output_text") {
			dst = appendText(dst, piece)
			continue
		}
		dst = append(dst, tokenPart)
		dst = appendText(dst, raw)
	}
	return dst, nil
}

// appendPrompt appends the prompt of a completion: a string, a list of token ids, or a list of one of these.
func appendPrompt(dst []uint32, raw json.RawMessage) ([]uint32, *apiError) {
	if whole, ok := text(raw); ok {
		return appendText(dst, whole), nil
	}
	list, _ := elements(raw)
	switch {
	case len(list) == 0:
		return dst, badRequest("prompt", "prompt must be a string, a list of token ids, or a list of one of these.")
	case list[0][0] != '"' && list[0][0] != '[':
		return appendIDs(dst, raw)
	case len(list) > 1:
		return dst, badRequest("prompt", "This simulated engine takes one prompt per request.")
	case list[0][0] == '[':
		return appendIDs(dst, list[0])
	}
	whole, _ := text(list[0])
	return appendText(dst, whole), nil
}

// appendIDs appends the tokens of a JSON list of token ids.
func appendIDs(dst []uint32, raw json.RawMessage) ([]uint32, *apiError) {
	var ids []uint32
	// encoding/json takes a null for a 0.
	if bytes.Contains(raw, []byte("null")) || json.Unmarshal(raw, &ids) != nil || len(ids) == 0 {
		return dst, badRequest("prompt", "A list of token ids must have non-negative integers.")
	}
	for _, id := range ids {
		dst = append(dst, id^tokenGivenFlag)
	}
	return dst, nil
}
