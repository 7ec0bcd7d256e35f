package traces

import (
	"encoding/json"
	"io"
	"time"
)

// mooncake reads the traces of kvcache-ai/Mooncake (FAST25-release/traces): a JSON object per line with the arrival in
// milliseconds, token counts, and one id per block of 512 prompt tokens. Ids stand for everything up to the block's end;
// there are ceil(input_length/512), so that the last stands for a block that may not be full.
type mooncake struct {
	lines *lines
	row   Row
	raw   struct {
		Timestamp    float64  `json:"timestamp"`
		InputLength  int32    `json:"input_length"`
		OutputLength int32    `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}
}

func newMooncake(r io.Reader) Reader { return &mooncake{lines: newLines(r)} }

func (m *mooncake) Read() (*Row, error) {
	line, err := m.lines.next()
	if err != nil {
		return nil, err
	}
	m.raw.Timestamp, m.raw.InputLength, m.raw.OutputLength, m.raw.HashIDs = 0, -1, -1, m.raw.HashIDs[:0]
	if err := json.Unmarshal(line, &m.raw); err != nil {
		return nil, m.lines.wrong("%v", err)
	}
	m.row = Row{
		At:     time.Duration(m.raw.Timestamp * float64(time.Millisecond)),
		Prompt: m.raw.InputLength, Output: m.raw.OutputLength, Blocks: m.raw.HashIDs,
	}
	return &m.row, m.lines.check(&m.row)
}

// bailian reads the traces of alibaba-edu/qwen-bailian-usagetraces-anon: a JSON object per line with the arrival in seconds,
// token counts, conversation and turn, and one id per block of 16 prompt tokens.
type bailian struct {
	lines *lines
	row   Row
	raw   bailianLine
}

type bailianLine struct {
	ChatID       json.Number `json:"chat_id"`
	ParentChatID json.Number `json:"parent_chat_id"`
	Timestamp    float64     `json:"timestamp"`
	InputLength  int32       `json:"input_length"`
	OutputLength int32       `json:"output_length"`
	Type         string      `json:"type"`
	Turn         int32       `json:"turn"`
	HashIDs      []uint64    `json:"hash_ids"`
}

func newBailian(r io.Reader) Reader { return &bailian{lines: newLines(r)} }

func (b *bailian) Read() (*Row, error) {
	line, err := b.lines.next()
	if err != nil {
		return nil, err
	}
	b.raw = bailianLine{InputLength: -1, OutputLength: -1, HashIDs: b.raw.HashIDs[:0]}
	if err := json.Unmarshal(line, &b.raw); err != nil {
		return nil, b.lines.wrong("%v", err)
	}
	// A first turn has the parent -1, and begins a conversation; later ones name the turn before.
	session := b.raw.ParentChatID.String()
	if session == "" || session == "-1" {
		session = b.raw.ChatID.String()
	}
	b.row = Row{
		At:     time.Duration(b.raw.Timestamp * float64(time.Second)),
		Prompt: b.raw.InputLength, Output: b.raw.OutputLength, Blocks: b.raw.HashIDs,
		Session: session, Turn: b.raw.Turn, Kind: b.raw.Type,
	}
	return &b.row, b.lines.check(&b.row)
}
