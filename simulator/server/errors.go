package server

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// apiError is an answer that is an error, shaped as vLLM shapes it for OpenAI's clients.
type apiError struct {
	status  int
	kind    string // error.type
	param   string // the member of the request that is wrong; empty for none
	message string
}

// busy is the answer of an engine whose queue is full.
var busy = &apiError{http.StatusServiceUnavailable, "Service Unavailable", "", "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."}

func badRequest(param, message string) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", param, message}
}

func (e *apiError) write(w http.ResponseWriter) {
	body := append([]byte(nil), `{"error":{"message":`...)
	body = appendString(body, e.message)
	body = append(body, `,"type":`...)
	body = appendString(body, e.kind)
	body = append(body, `,"param":`...)
	if e.param == "" {
		body = append(body, "null"...)
	} else {
		body = appendString(body, e.param)
	}
	body = append(body, `,"code":`...)
	body = strconv.AppendInt(body, int64(e.status), 10)
	body = append(body, "}}"...)
	writeJSON(w, e.status, body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return append(dst, `""`...)
	}
	return append(dst, quoted...)
}
