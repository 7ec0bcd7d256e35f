// Package cli is the command line: one small file per subcommand.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// errReported ends a command with exit code 1 whose output has said everything.
var errReported = errors.New("reported")

// Main runs the command line and returns the exit code: 0, 1 for a failure that was printed, 2 for a wrong use.
func Main(entries []plugins.Entry, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process where it stands
	root := rootCommand(entries)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errReported), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 1
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "fairlead: %v\n", err)
		return 2
	}
	fmt.Fprintf(os.Stderr, "fairlead: %v\n", err)
	return 1
}

// usageError is a wrong use of the command line.
type usageError struct{ error }

func rootCommand(entries []plugins.Entry) *cobra.Command {
	root := &cobra.Command{
		Use:   "fairlead",
		Short: "Pick the model server for LLM requests behind an Envoy gateway",
		Long: "Fairlead is an endpoint picker: for every LLM request that passes an Envoy gateway, or its own embedded proxy, it scores\n" +
			"the model servers by queue, KV cache and cached prefix, chooses and books one, and can tell why.",
		SilenceUsage: true, SilenceErrors: true,
	}
	group(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(
		serveCommand(entries, "epp"), serveCommand(entries, "gateway"),
		explainCommand(entries), configCommand(entries), pluginsCommand(entries),
		simCommand(), demoCommand(), benchCommand(), versionCommand(), docsCommand(entries),
	)
	refuseWrongArguments(root)
	return root
}

// group makes c a command of which only subcommands do something: alone it prints its help, and a name that none of them
// has is a wrong use.
func group(c *cobra.Command) {
	c.DisableFlagsInUseLine, c.SuggestionsMinimumDistance = true, 2
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return &usageError{fmt.Errorf("there is no command %q; did you mean %q?", c.CommandPath()+" "+args[0], near[0])}
		}
		return &usageError{fmt.Errorf("there is no command %q; see %s --help", c.CommandPath()+" "+args[0], c.CommandPath())}
	}
}
