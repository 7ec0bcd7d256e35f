package traces

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
)

// decisions reads the decision log of Fairlead: a record per line as /debug/decisions/ID serves it, bare or under "record"
// with its configuration. Requests that were refused count too: they were offered. Block hashes are taken where the decision
// was sampled, and name blocks of the producer that made them; their size is worked out from the prompt.
type decisions struct {
	lines *lines
	row   Row
	first time.Time
	begun bool
}

func newDecisions(r io.Reader) Reader { return &decisions{lines: newLines(r)} }

type decisionLine struct {
	Record *decisionRecord `json:"record"`
	decisionRecord
}

type decisionRecord struct {
	At     time.Time `json:"at"`
	Target struct {
		Model string `json:"model"`
	} `json:"target"`
	PromptTokens int64 `json:"promptTokens"`
	Profiles     []struct {
		RequestFacts map[string]json.RawMessage `json:"requestFacts"`
	} `json:"profiles"`
	Outcome *struct {
		Prompt int64 `json:"promptTokens"`
		Out    int64 `json:"completionTokens"`
	} `json:"outcome"`
}

// Read returns the next record. A request whose output nobody knows has Output 0.
func (d *decisions) Read() (*Row, error) {
	text, err := d.lines.next()
	if err != nil {
		return nil, err
	}
	var line decisionLine
	if err := json.Unmarshal(text, &line); err != nil {
		return nil, d.lines.wrong("%v", err)
	}
	rec := &line.decisionRecord
	if line.Record != nil {
		rec = line.Record
	}
	if rec.At.IsZero() {
		return nil, d.lines.wrong("no member \"at\"; want a decision record")
	}
	if !d.begun {
		d.first, d.begun = rec.At, true
	}
	d.row = Row{At: rec.At.Sub(d.first), Model: rec.Target.Model}
	prompt := rec.PromptTokens
	if o := rec.Outcome; o != nil {
		if o.Prompt >= 0 {
			prompt = o.Prompt
		}
		d.row.Output = tokens(o.Out)
	}
	d.row.Prompt = tokens(prompt)
	for _, p := range rec.Profiles {
		if raw, ok := p.RequestFacts["block-hashes"]; ok {
			d.row.Blocks = hashes(raw)
		}
	}
	return &d.row, d.lines.check(&d.row)
}

// tokens is n within what a request can have, 0 for unknown.
func tokens(n int64) int32 { return int32(min(max(n, 0), 1<<30)) }

// hashes reads a list of whole numbers of 64 bits; nil for anything else.
func hashes(raw json.RawMessage) []uint64 {
	list := strings.Trim(string(raw), "[] \n")
	if list == "" {
		return nil
	}
	var out []uint64
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
