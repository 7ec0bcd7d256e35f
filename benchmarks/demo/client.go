package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// message is one message of a chat completion request.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answer is what one request came to. Times are engine time, as the engine that served says.
type answer struct {
	text           string
	ttft           time.Duration
	prompt, cached int
	out            int
	err            error
}

// chunk is what we read of a stream's events.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Out     int `json:"completion_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Sim *struct {
		TTFTMillis float64 `json:"ttft_ms"`
	} `json:"sim"`
}

// ask sends one streaming chat completion to base and reads it to its end.
func ask(ctx context.Context, client *http.Client, base, model string, messages []message, maxTokens int) answer {
	body, err := json.Marshal(map[string]any{
		"model": model, "messages": messages, "max_tokens": maxTokens, "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		return answer{err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("content-type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		return answer{err: fmt.Errorf("%s: %s", res.Status, detail)}
	}
	return readStream(res.Body)
}

func readStream(from io.Reader) answer {
	var a answer
	var content strings.Builder
	done := false
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return answer{err: fmt.Errorf("event %q: %w", data, err)}
		}
		for _, choice := range c.Choices {
			content.WriteString(choice.Delta.Content)
		}
		if c.Usage != nil {
			a.prompt, a.out, a.cached = c.Usage.Prompt, c.Usage.Out, c.Usage.Details.Cached
		}
		if c.Sim != nil {
			a.ttft = time.Duration(c.Sim.TTFTMillis * float64(time.Millisecond))
		}
	}
	a.text = content.String()
	switch {
	case lines.Err() != nil:
		a.err = lines.Err()
	case !done:
		a.err = fmt.Errorf("the stream ended without [DONE]")
	}
	return a
}
