// Package compatibility holds docs/compatibility.md to the names of other pickers and to the code. It has tests alone.
package compatibility
