package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a problem keeps a file from loading.
type Severity uint8

// The severities. A warning tells of something that has no effect, is deprecated, or is done in another way than written.
const (
	Error Severity = iota
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText writes the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Codes of problems: stable, for programs that read them.
const (
	CodeSyntax           = "syntax"            // no YAML
	CodeSeveralDocuments = "several-documents" // one file, one configuration
	CodeVersion          = "version"           // apiVersion or kind is missing, or none of ours
	CodeUnknownField     = "unknown-field"     // a field that the schema does not have
	CodeUnknownParameter = "unknown-parameter" // a parameter that the plugin does not have
	CodeDuplicateKey     = "duplicate-key"     // one field given twice
	CodeWrongType        = "wrong-type"        // a text for a number, a list for a table, nothing at all
	CodeMissing          = "missing"           // a required field
	CodeOutOfBounds      = "out-of-bounds"     // a value of the right type that is too small, too large or not in the list
	CodeUnknownType      = "unknown-type"      // a plugin type that nobody knows
	CodeNotAvailable     = "not-available"     // a plugin type of other pickers
	CodeUnsupported      = "unsupported"       // a section, gate or parameter of other pickers without counterpart
	CodeUndefined        = "undefined"         // a reference to nothing
	CodeWrongRole        = "wrong-role"        // a reference to a plugin that cannot do this
	CodeDuplicateName    = "duplicate-name"    // two things of one name
	CodeConflict         = "conflict"          // two settings that exclude each other
	CodeNoEffect         = "no-effect"         // accepted, and nothing changes by it
	CodeDeprecated       = "deprecated"        // an old name
	CodeBuild            = "build"             // the plugins do not fit together
	CodeTooLarge         = "too-large"         // more text or more nodes than the bound
	CodeUnreadable       = "unreadable"        // no file, or none that may be read
)

// Problem is one thing that is wrong with a configuration, or worth knowing.
type Problem struct {
	File       string   `json:"file"`
	Line       int      `json:"line,omitempty"`   // from 1; 0: the problem has no place in the text
	Column     int      `json:"column,omitempty"` // from 1, in characters; 0 with Line 0
	Severity   Severity `json:"severity"`
	Code       string   `json:"code"`
	Message    string   `json:"message"`              // where and what, with the value
	Suggestion string   `json:"suggestion,omitempty"` // what to do; may be empty
}

// Error returns "file:line:column: message; suggestion"; a warning says so before the message.
func (p Problem) Error() string {
	severity := ""
	if p.Severity == Warning {
		severity = "warning: "
	}
	return p.line(severity)
}

// Report returns "file:line:column: severity[code]: message; suggestion", as config check prints it.
func (p Problem) Report() string { return p.line(fmt.Sprintf("%s[%s]: ", p.Severity, p.Code)) }

func (p Problem) line(severity string) string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		if b.Len() > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%d:%d", p.Line, max(p.Column, 1))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(severity)
	b.WriteString(p.Message)
	if p.Suggestion != "" {
		b.WriteString("; ")
		b.WriteString(p.Suggestion)
	}
	return b.String()
}

// HasErrors reports whether one of the problems is an error.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error })
}

// pos is a place in the text; the zero pos is nowhere.
type pos struct{ line, column int }

// maxProblems bounds how many problems of a file are told: more help nobody, and cost time to find.
const maxProblems = 100

// maxMessage bounds what is told of one problem, in bytes: a name may be as long as the file.
const maxMessage = 2048

// brief cuts out the middle of a message that is too long, since the end says what to do.
func brief(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	head, tail := message[:maxMessage*3/4], message[len(message)-maxMessage/4:]
	return strings.ToValidUTF8(head, "") + "…" + strings.ToValidUTF8(tail, "")
}

// log collects the problems of one file.
type log struct {
	file     string
	problems []Problem
	hints    []Problem // warnings that are worth telling only where there is no error: they may follow from one
}

func (l *log) errorf(at pos, code, suggestion, format string, args ...any) {
	l.add(at, Error, code, suggestion, fmt.Sprintf(format, args...))
}

func (l *log) warnf(at pos, code, suggestion, format string, args ...any) {
	l.add(at, Warning, code, suggestion, fmt.Sprintf(format, args...))
}

func (l *log) hintf(at pos, suggestion, format string, args ...any) {
	l.hints = append(l.hints, Problem{File: l.file, Line: at.line, Column: at.column,
		Severity: Warning, Code: CodeNoEffect, Message: brief(fmt.Sprintf(format, args...)), Suggestion: brief(suggestion)})
}

func (l *log) add(at pos, severity Severity, code, suggestion, message string) {
	if l.full() {
		return
	}
	if len(l.problems) == maxProblems {
		at, severity, code, suggestion, message = pos{}, Error, CodeTooLarge, "mend these first", fmt.Sprintf("more than %d problems", maxProblems)
	}
	l.problems = append(l.problems, Problem{File: l.file, Line: at.line, Column: at.column,
		Severity: severity, Code: code, Message: brief(message), Suggestion: brief(suggestion)})
}

// full reports whether more problems were found than are told.
func (l *log) full() bool { return len(l.problems) > maxProblems }

// sorted returns the problems in the order of the text; those without a place come last.
func (l *log) sorted() []Problem {
	if !HasErrors(l.problems) {
		l.problems, l.hints = append(l.problems, l.hints...), nil
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return l.problems
}
