// Describe prints what the source says of the plugins and of the configuration as a Go file, for the command line, the
// reference pages and the schema: the doc comments of their types and parameters, of the facts, and the reasons that each
// plugin gives. It is run by make generate; a test fails while its file is stale.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// output is the generated file, from the module's root.
var output = filepath.Join("pkg", "catalog", "descriptions.go")

func main() {
	text, err := describe(".")
	if err == nil {
		err = os.WriteFile(output, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "describe:", err)
		os.Exit(1)
	}
}
