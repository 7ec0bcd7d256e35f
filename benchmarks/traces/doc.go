// Package traces reads recorded request traces: Mooncake, Azure, BurstGPT, Qwen-Bailian, and the decision log of Fairlead
// itself. A reader yields one row at a time and holds no more than a line; a row that makes no sense is an error with its
// line number.
//
// The files are not part of the project. [Find] looks for them in $FAIRLEAD_TRACES and ../shared/traces.
package traces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Row is one request of a trace.
type Row struct {
	// At is when it arrived, since the trace began.
	At time.Duration

	// Prompt and Output are tokens.
	Prompt, Output int32

	// Blocks are identities of the prompt's blocks of Format.BlockTokens tokens, each for everything up to its end; the last one
	// may stand for a block that is not full. Nil where the trace does not tell. It is valid until the next row.
	Blocks []uint64

	// Session groups rows of one conversation, by any name; empty where the trace does not tell. Turn counts within it.
	Session string
	Turn    int32

	// Model and Kind are what the trace says, empty where it does not.
	Model, Kind string
}

// Reader yields the rows of a trace. The error after the last is io.EOF.
type Reader interface{ Read() (*Row, error) }

// maxLine bounds a line, in bytes: a prompt of a million tokens in blocks of 16 has 62,500 ids of up to ten digits.
const maxLine = 4 << 20

// ErrAbsent is what Find returns, wrapped, when the file is in none of the places.
var ErrAbsent = errors.New("the trace is not here")

// Find returns the path of a trace by its file name: the name itself if such a file exists, else below $FAIRLEAD_TRACES, else
// in ../shared/traces beside the working tree.
func Find(name string) (string, error) {
	places := []string{name}
	if dir := os.Getenv("FAIRLEAD_TRACES"); dir != "" {
		places = append(places, filepath.Join(dir, name))
	}
	if dir, err := os.Getwd(); err == nil {
		for range 6 { // from a package's folder up to the working tree, and beside it
			places = append(places, filepath.Join(dir, "shared", "traces", name))
			dir = filepath.Dir(dir)
		}
	}
	for _, at := range places {
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			return at, nil
		}
	}
	return "", fmt.Errorf("%s: %w; put it into a folder and name that in FAIRLEAD_TRACES", name, ErrAbsent)
}

// Format is one kind of file.
type Format struct {
	Name string

	// BlockTokens is the size of the blocks that rows name, in tokens; 0 where they name none.
	BlockTokens int32

	open func(io.Reader) Reader
}

// New returns a reader of the format.
func (f Format) New(r io.Reader) Reader { return f.open(r) }

// Formats returns the formats.
func Formats() []Format {
	return []Format{
		{"mooncake", 512, newMooncake},
		{"bailian", 16, newBailian},
		{"azure", 0, newAzure},
		{"burstgpt", 0, newBurstGPT},
		{"fairlead", 0, newDecisions},
	}
}

// FormatNamed returns a format by its name. The error names what there is.
func FormatNamed(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("no trace format %q; there are %v", name, names)
}

// lines yields lines with their numbers.
type lines struct {
	scan   *bufio.Scanner
	number int
}

func newLines(r io.Reader) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &lines{scan: s}
}

// next returns the next line that is not empty, without its end. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	for l.scan.Scan() {
		l.number++
		line := l.scan.Bytes()
		for len(line) > 0 && (line[len(line)-1] == '\r' || line[len(line)-1] == ' ') {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			return line, nil
		}
	}
	if err := l.scan.Err(); err != nil {
		return nil, fmt.Errorf("trace line %d: %w; a line may have %d bytes", l.number+1, err, maxLine)
	}
	return nil, io.EOF
}

func (l *lines) wrong(format string, args ...any) error {
	return fmt.Errorf("trace line %d: %s", l.number, fmt.Sprintf(format, args...))
}

// check refuses a row that no request can be.
func (l *lines) check(r *Row) error {
	switch {
	case r.Prompt < 0 || r.Output < 0:
		return l.wrong("%d prompt and %d output tokens; neither may be negative", r.Prompt, r.Output)
	case r.At < 0:
		return l.wrong("arrives at %v, before the first row", r.At)
	}
	return nil
}
