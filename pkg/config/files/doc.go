// Package files reads configurations from the file system: bounded, with errors that say what to do, and again when they
// change.
package files
