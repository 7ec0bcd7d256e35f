// Package tidy holds the house rules as one test: which room may import which, what the core must not touch, what an
// adapter must not decide, and how files, comments and tests are kept. It reads the module's Go files and nothing else, so
// that "go test ./internal/tidy" takes a second and needs no tool.
//
// A rule is a function from a file to what is wrong in it. Every complaint names file and line, and what to write instead.
// Each rule is itself tried on a piece of bad code: a rule that cannot bite guards nothing.
package tidy
