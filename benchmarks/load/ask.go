package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// The classes of failures. A status that is no success is http_STATUS.
const (
	classConnection = "connection"   // no answer came
	classTimeout    = "timeout"      // the answer did not end in time
	classCancelled  = "cancelled"    // the run ended before
	classNoOutput   = "no_output"    // the answer ended well and had no token
	classBroken     = "broken"       // the answer broke off
	classNoStream   = "not_a_stream" // the answer is something else, such as a page of HTML
	classError      = "error_event"  // the server reported an error within the stream
)

// answer is what one request came to.
type answer struct {
	first                     pool.Instant
	generated, prompt, cached int32
	token                     string // value of the session header
	class, message            string
}

func (a *answer) fail(class, format string, args ...any) {
	a.class, a.message = class, fmt.Sprintf(format, args...)
}

// body is the request: as many tokens as the workload says are generated, neither more nor less, where the server knows the
// parameters of vLLM.
type body struct {
	Model     string         `json:"model"`
	Messages  []message      `json:"messages"`
	MaxTokens int32          `json:"max_tokens"`
	MinTokens int32          `json:"min_tokens"`
	IgnoreEOS bool           `json:"ignore_eos"`
	Stream    bool           `json:"stream"`
	Options   map[string]any `json:"stream_options"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// event is what is read of a chunk.
type event struct {
	Choices []struct {
		Delta struct {
			Content   string          `json:"content"`
			Reasoning string          `json:"reasoning_content"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int32 `json:"prompt_tokens"`
		Out     int32 `json:"completion_tokens"`
		Details *struct {
			Cached int32 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (c *client) ask(ctx context.Context, number uint64, r *fleet.Request, token string) (a answer) {
	model := r.Model
	if model == "" {
		model = c.o.Model
	}
	text, err := json.Marshal(body{
		Model: model, Messages: []message{{"user", Prompt(number, r, c.o.Source.BlockTokens())}}, MaxTokens: r.Output, MinTokens: r.Output, IgnoreEOS: true,
		Stream: true, Options: map[string]any{"include_usage": true},
	})
	if err != nil {
		a.fail(classConnection, "%v", err)
		return a
	}
	limited, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, strings.TrimSuffix(c.o.URL, "/")+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		a.fail(classConnection, "%v", err)
		return a
	}
	req.Header.Set("content-type", "application/json")
	if c.o.Key != "" {
		req.Header.Set("authorization", "Bearer "+c.o.Key)
	}
	if c.o.SessionHeader != "" && token != "" {
		req.Header.Set(c.o.SessionHeader, token)
	}
	res, err := c.o.Client.Do(req)
	if err != nil {
		a.fail(c.failure(ctx, limited, classConnection), "%v", err)
		return a
	}
	defer res.Body.Close()
	if c.o.SessionHeader != "" {
		a.token = res.Header.Get(c.o.SessionHeader)
	}
	if res.StatusCode != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(res.Body, maxMessage)) // what came says enough
		a.fail("http_"+strconv.Itoa(res.StatusCode), "%s: %s", res.Status, detail)
		return a
	}
	if kind := res.Header.Get("content-type"); !strings.HasPrefix(kind, "text/event-stream") {
		detail, _ := io.ReadAll(io.LimitReader(res.Body, maxMessage))
		a.fail(classNoStream, "content-type %q: %s", kind, detail)
		return a
	}
	c.read(ctx, limited, res.Body, &a)
	return a
}

// failure is the class of an error: the run's end and the request's time count before what came of them.
func (c *client) failure(run, limited context.Context, otherwise string) string {
	switch {
	case run.Err() != nil:
		return classCancelled
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return classTimeout
	}
	return otherwise
}

// maxLine bounds a line of a stream.
const maxLine = 4 << 20

// read reads the stream to its end. What came of one that breaks off is kept.
func (c *client) read(run, limited context.Context, from io.Reader, a *answer) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	var partial strings.Builder
	chunks := int32(0)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			if a.generated == 0 {
				a.generated = chunks
			}
			if chunks == 0 {
				a.fail(classNoOutput, "the answer ended without a token")
			}
			return
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			a.fail(classBroken, "event %q after %d: %v", data[:min(len(data), 80)], chunks, err)
			a.generated = chunks
			return
		}
		if len(e.Error) > 0 {
			a.fail(classError, "%s", e.Error)
			a.generated = chunks
			return
		}
		for i := range e.Choices {
			d := &e.Choices[i].Delta
			if d.Content == "" && d.Reasoning == "" && len(d.ToolCalls) == 0 {
				continue // a role alone is no token
			}
			if chunks == 0 {
				a.first = c.now()
			}
			chunks++
			if partial.Len() < maxMessage {
				partial.WriteString(d.Content)
			}
		}
		if u := e.Usage; u != nil {
			a.prompt, a.generated = u.Prompt, u.Out
			if u.Details != nil {
				a.cached = u.Details.Cached
			}
		}
	}
	a.generated = chunks
	why := "the stream ended without [DONE]"
	if err := lines.Err(); err != nil {
		why = err.Error()
	}
	a.fail(c.failure(run, limited, classBroken), "%s after %d chunks: %s", why, chunks, partial.String())
}

// bytesPerToken is how many bytes of text stand for a token, as in the scheduler and in the simulated engines.
const bytesPerToken = 4

// Prompt is the text of a request: a piece for each block, the same for blocks of one name, and one of its own for what no
// block names. A token is four bytes.
func Prompt(number uint64, r *fleet.Request, blockTokens int32) string {
	var b strings.Builder
	b.Grow(int(r.Prompt) * bytesPerToken)
	full := min(int(r.Prompt/blockTokens), len(r.Hashes))
	for _, h := range r.Hashes[:full] {
		piece(&b, h, int(blockTokens)*bytesPerToken)
	}
	piece(&b, number^0x6a09e667f3bcc908, int(r.Prompt)*bytesPerToken-b.Len())
	return b.String()
}

// piece writes n bytes of words that follow from a name.
func piece(b *strings.Builder, name uint64, n int) {
	const letters = "abcdefghijklmnopqrstuvwxyz012345"
	for i := 0; i < n; i += 8 {
		name += 0x9e3779b97f4a7c15
		z := (name ^ name>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for k := i; k < min(i+8, n); k++ {
			if k == i+7 {
				b.WriteByte(' ')
				continue
			}
			b.WriteByte(letters[z&31])
			z >>= 5
		}
	}
}
