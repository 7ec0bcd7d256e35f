package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/config/files"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func configCommand(entries []plugins.Entry) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check configuration files",
	}
	group(c)
	c.AddCommand(configCheckCommand(entries))
	return c
}

func configCheckCommand(entries []plugins.Entry) *cobra.Command {
	var effective bool
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Print every problem of configuration files, with file, line, column and what to write instead",
		Long: "Check loads each file (- is standard input) as the picker would, builds its plugins, and prints every problem as\n" +
			"file:line:column: message; suggestion. It fails if one of them is an error; warnings tell of what has no effect.\n" +
			"It checks EndpointPickerConfig files. An endpoint file is checked when --endpoints loads it, in the same form.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			bad := 0
			for _, path := range args {
				if !checkFile(c.OutOrStdout(), c.ErrOrStderr(), path, entries, effective) {
					bad++
				}
			}
			switch {
			case bad == 0:
				return nil
			case len(args) == 1:
				return errors.New("the configuration does not load")
			}
			return fmt.Errorf("%d of %d configurations do not load", bad, len(args))
		},
	}
	c.Flags().BoolVar(&effective, "effective", false, "print each configuration as it is understood, with all defaults filled in")
	return c
}

// checkFile prints the problems of one file to problems and what loaded to out, and reports whether it loads and builds.
func checkFile(out, problems io.Writer, path string, entries []plugins.Entry, effective bool) bool {
	data, err := files.Read(path)
	if err != nil {
		fmt.Fprintln(problems, err)
		return false
	}
	name := path
	if path == files.Stdin {
		name = "standard input"
	}
	file, found := config.Load(data, name, entries)
	if file != nil {
		_, more := file.Build()
		found = append(found, more...)
	}
	for _, p := range found {
		fmt.Fprintln(problems, p.Error())
	}
	if config.HasErrors(found) {
		return false
	}
	if effective {
		_, err = out.Write(file.Effective())
	} else {
		_, err = fmt.Fprintf(out, "%s: ok: %s, %s, %s, digest %s\n", name, count(len(file.Spec.Plugins), "plugin"),
			count(len(file.Spec.Profiles), "profile"), count(len(file.Spec.Pools), "pool"), file.Digest()[:12])
	}
	return err == nil
}

// count prints a number of things, "1 pool" or "2 pools".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
