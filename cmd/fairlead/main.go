// Command fairlead picks the model server for LLM requests that pass an Envoy gateway, or its own embedded proxy.
package main

import (
	"os"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/cli"
)

func main() { os.Exit(cli.Main(catalog.Builtin(), os.Args[1:])) }
