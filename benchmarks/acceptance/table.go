package acceptance

import (
	"fmt"
	"os"
	"strings"
)

// Row is a claim as docs/scheduling.md has it.
type Row struct {
	Claim, Asked string
	Test         string // a function of this package, or of the package whose path from the root stands before it: pkg/flow.TestX
	Figure       string
	Verdict      Verdict
}

// Command is what makes the figure.
func (r *Row) Command() string {
	if r.Package() == "" {
		return "make acceptance RUN=" + r.Test
	}
	return fmt.Sprintf("go test -run '^%s$' ./%s", r.Test[strings.LastIndexByte(r.Test, '.')+1:], r.Package())
}

// Package is the folder of the row's test, empty for this one.
func (r *Row) Package() string {
	if i := strings.LastIndexByte(r.Test, '.'); i >= 0 {
		return r.Test[:i]
	}
	return ""
}

// head begins the table of claims.
const head = "| claim | asked | test | figure | verdict |"

// Rows reads the table of claims from the page.
func Rows(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), head+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no table of claims: %s", path, head)
	}
	var out []Row
	for line := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 5 {
			return nil, fmt.Errorf("%s: a row of %d cells, want 5: %s", path, len(cells), line)
		}
		out = append(out, Row{cells[0], cells[1], strings.Trim(cells[2], "`"), cells[3], Verdict(strings.Trim(cells[4], "*"))})
	}
	return out, nil
}

func find(rows []Row, test string) *Row {
	for i := range rows {
		if rows[i].Test == test {
			return &rows[i]
		}
	}
	return nil
}

// line is a row as the page has it. What does not hold stands out.
func (r *Row) line() string {
	verdict := string(r.Verdict)
	if r.Verdict != Holds {
		verdict = "**" + verdict + "**"
	}
	return fmt.Sprintf("| %s | %s | `%s` | %s | %s |", r.Claim, r.Asked, r.Test, r.Figure, verdict)
}

// record writes a row into the page, in the place of the one with its test.
func record(path string, r *Row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "|") && strings.Contains(line, "| `"+r.Test+"` |") {
			lines[i] = r.line()
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}
