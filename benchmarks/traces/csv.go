package traces

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

// table reads the columns of a CSV file without quotes, by their names in the first line.
type table struct {
	lines   *lines
	columns map[string]int
	fields  [][]byte
	want    []string
}

func (t *table) next() error {
	if t.columns == nil {
		header, err := t.lines.next()
		if err != nil {
			return err
		}
		t.columns = map[string]int{}
		for i, name := range strings.Split(strings.TrimPrefix(string(header), "\ufeff"), ",") {
			t.columns[strings.TrimSpace(name)] = i
		}
		for _, name := range t.want {
			if _, ok := t.columns[name]; !ok {
				return t.lines.wrong("no column %q; the first line names the columns, and has %q", name, header)
			}
		}
	}
	line, err := t.lines.next()
	if err != nil {
		return err
	}
	t.fields = t.fields[:0]
	for {
		field, rest, more := bytes.Cut(line, []byte{','})
		t.fields = append(t.fields, field)
		if !more {
			break
		}
		line = rest
	}
	if len(t.fields) < len(t.columns) {
		return t.lines.wrong("%d fields, want %d", len(t.fields), len(t.columns))
	}
	return nil
}

func (t *table) text(column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	return string(bytes.TrimSpace(t.fields[i]))
}

func (t *table) tokens(column string) (int32, error) {
	n, err := strconv.ParseInt(t.text(column), 10, 32)
	if err != nil {
		return 0, t.lines.wrong("%s is %q; it must be a whole number", column, t.text(column))
	}
	return int32(n), nil
}

// azure reads the traces of Azure/AzurePublicDataset (LLM inference 2023 and 2024): wall time and token counts.
type azure struct {
	table
	row   Row
	first time.Time
	begun bool
}

func newAzure(r io.Reader) Reader {
	return &azure{table: table{lines: newLines(r), want: []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}}}
}

func (a *azure) Read() (*Row, error) {
	if err := a.next(); err != nil {
		return nil, err
	}
	var at time.Time
	var err error
	for _, layout := range [...]string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano} {
		if at, err = time.Parse(layout, a.text("TIMESTAMP")); err == nil {
			break
		}
	}
	if err != nil {
		return nil, a.lines.wrong("TIMESTAMP is %q; want such as 2023-11-16 18:17:03.9799600", a.text("TIMESTAMP"))
	}
	if !a.begun {
		a.first, a.begun = at, true
	}
	a.row = Row{At: at.Sub(a.first)}
	if a.row.Prompt, err = a.tokens("ContextTokens"); err != nil {
		return nil, err
	}
	if a.row.Output, err = a.tokens("GeneratedTokens"); err != nil {
		return nil, err
	}
	return &a.row, a.lines.check(&a.row)
}

// burstGPT reads the traces of HPMLL/BurstGPT: seconds, session where there is one, model, token counts. Rows of failed
// requests have 0 response tokens.
type burstGPT struct {
	table
	row Row
}

func newBurstGPT(r io.Reader) Reader {
	return &burstGPT{table: table{lines: newLines(r), want: []string{"Timestamp", "Request tokens", "Response tokens"}}}
}

func (b *burstGPT) Read() (*Row, error) {
	if err := b.next(); err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseFloat(b.text("Timestamp"), 64)
	if err != nil {
		return nil, b.lines.wrong("Timestamp is %q; want seconds", b.text("Timestamp"))
	}
	b.row = Row{
		At: time.Duration(seconds * float64(time.Second)), Session: b.text("Session ID"), Model: b.text("Model"), Kind: b.text("Log Type"),
	}
	if b.row.Prompt, err = b.tokens("Request tokens"); err != nil {
		return nil, err
	}
	if b.row.Output, err = b.tokens("Response tokens"); err != nil {
		return nil, err
	}
	return &b.row, b.lines.check(&b.row)
}
