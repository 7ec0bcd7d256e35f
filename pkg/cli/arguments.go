package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseWrongArguments makes a wrong number of arguments, and flags with values that cannot be meant, anywhere below c, a
// wrong use that names the help.
func refuseWrongArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := checkFlagValues(c)
			if err == nil {
				if err = check(c, args); err == nil {
					return nil
				}
				if len(args) > 0 && check(c, nil) == nil {
					err = tooMany(c, args[len(args)-1])
				}
			}
			return &usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
		}
	}
	for _, sub := range c.Commands() {
		refuseWrongArguments(sub)
	}
}

// tooMany tells of an argument that there is no place for. A switch takes its value behind "=" alone, so that a value of its
// own is left over.
func tooMany(c *cobra.Command, arg string) error {
	if arg == "true" || arg == "false" {
		given := ""
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				given = f.Name
			}
		})
		if given != "" {
			return fmt.Errorf("%q is one argument too many; the value of a switch is joined to it: --%s=%s", arg, given, arg)
		}
	}
	return fmt.Errorf("%q is one argument too many", arg)
}

// multiline are flags whose value is a text of several lines.
var multiline = []string{"config-text"}

// checkFlagValues refuses values of flags that are the next flag, whose own value is then an argument too many, and values
// with a space or line end at either end, as files edited under Windows and templates leave them.
func checkFlagValues(c *cobra.Command) error {
	var err error
	look := func(name, value string) {
		if err != nil {
			return
		}
		flag, _, _ := strings.Cut(strings.TrimLeft(value, "-"), "=")
		switch {
		case strings.HasPrefix(value, "-") && c.Flags().Lookup(flag) != nil:
			err = fmt.Errorf("--%s has no value: %q, which follows it, is a flag", name, value)
		case strings.TrimSpace(value) != value && !slices.Contains(multiline, name):
			err = fmt.Errorf("--%s is %q, with a space or line end too many; remove it", name, value)
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range list.GetSlice() {
				look(f.Name, value)
			}
		} else if f.Value.Type() == "string" {
			look(f.Name, f.Value.String())
		}
	})
	return err
}
