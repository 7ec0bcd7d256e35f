package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/config/files"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// stdinName is what problems call standard input.
const stdinName = "standard input"

func configCheckCommand(entries []plugins.Entry) *cobra.Command {
	var effective, strict bool
	var output string
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Print every problem of configuration files, with file, line, column and what to write instead",
		Long: "Check loads each file (- is standard input) as the picker would, builds its plugins, and prints every problem as\n" +
			"file:line:column: severity[code]: message; suggestion. It fails if one of them is an error; warnings tell of what has\n" +
			"no effect or is deprecated. Codes are stable.\n" +
			"It checks EndpointPickerConfig files. An endpoint file is checked when --endpoints loads it.",
		Example: "  fairlead config check config.yaml\n" +
			"  kubectl get configmap epp -o jsonpath='{.data.config\\.yaml}' | fairlead config check -\n" +
			"  fairlead config check --strict --output json config.yaml",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if effective && output == outputJSON {
				return &usageError{errors.New("--effective prints YAML, and --output is json: leave one out")}
			}
			report := checkReport{Files: []checked{}}
			for _, path := range args {
				report.add(check(path, entries), strict)
			}
			if output == outputJSON {
				if err := writeJSON(c.OutOrStdout(), report); err != nil {
					return err
				}
			} else if err := report.text(c.OutOrStdout(), c.ErrOrStderr(), effective); err != nil {
				return err
			}
			return report.verdict(strict)
		},
	}
	c.Flags().BoolVar(&effective, "effective", false, "print each configuration as it is understood, with all defaults filled in")
	c.Flags().BoolVar(&strict, "strict", false, "fail for warnings too")
	outputFlag(c, &output)
	return c
}

// checkReport is what config check found, as --output json prints it.
type checkReport struct {
	Files    []checked `json:"files"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`

	bad int // files that fail
}

// checked is one file. Digest is empty for one that does not load.
type checked struct {
	File     string           `json:"file"`
	Loads    bool             `json:"loads"`
	Digest   string           `json:"digest,omitempty"`
	Problems []config.Problem `json:"problems"`

	loaded *config.File
	built  *plugins.Built
}

// check reads, loads and builds one file.
func check(path string, entries []plugins.Entry) checked {
	c := checked{File: path, Problems: []config.Problem{}}
	if path == files.Stdin {
		c.File = stdinName
	}
	data, err := files.Read(path)
	if err != nil {
		message, suggestion, _ := strings.Cut(strings.TrimPrefix(err.Error(), c.File+": "), "; ")
		c.Problems = append(c.Problems, config.Problem{File: c.File, Severity: config.Error, Code: config.CodeUnreadable, Message: message, Suggestion: suggestion})
		return c
	}
	return c.load(config.Load(data, c.File, entries))
}

// checkDefault builds the configuration that applies where none is given.
func checkDefault(entries []plugins.Entry) checked {
	file, problems := config.Default(entries)
	return checked{File: "default configuration", Problems: []config.Problem{}}.load(file, problems)
}

// load builds what was loaded; file is nil if it did not load.
func (c checked) load(file *config.File, problems []config.Problem) checked {
	if file != nil {
		var more []config.Problem
		c.built, more = file.Build()
		problems = append(problems, more...)
	}
	c.Problems = append(c.Problems, problems...)
	if c.Loads = file != nil && c.built != nil; c.Loads {
		c.loaded, c.Digest = file, file.Digest()
	}
	return c
}

func (r *checkReport) add(c checked, strict bool) {
	r.Files = append(r.Files, c)
	for _, p := range c.Problems {
		if p.Severity == config.Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
	if !c.Loads || strict && len(c.Problems) > 0 {
		r.bad++
	}
}

// text prints problems to problems, and a line or the effective text of each file that loads to out.
func (r *checkReport) text(out, problems io.Writer, effective bool) error {
	for _, c := range r.Files {
		for _, p := range c.Problems {
			fmt.Fprintln(problems, p.Report())
		}
		if !c.Loads {
			continue
		}
		var err error
		if effective {
			_, err = out.Write(c.loaded.Effective())
		} else {
			_, err = fmt.Fprintf(out, "%s: ok%s: %s, %s, %s, digest %s\n", c.File, withWarnings(len(c.Problems)), count(len(c.loaded.Spec.Plugins), "plugin"),
				count(len(c.loaded.Spec.Profiles), "profile"), count(len(c.loaded.Spec.Pools), "pool"), c.Digest[:12])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func withWarnings(n int) string {
	if n == 0 {
		return ""
	}
	return ", with " + count(n, "warning")
}

// verdict is the error of the command, nil if every file passes.
func (r *checkReport) verdict(strict bool) error {
	switch {
	case r.bad == 0:
		return nil
	case r.Errors == 0:
		return fmt.Errorf("%s, and --strict takes warnings for errors", count(r.Warnings, "warning"))
	case len(r.Files) == 1:
		return errors.New("the configuration does not load")
	case strict:
		return fmt.Errorf("%d of %d configurations do not load, or load with warnings", r.bad, len(r.Files))
	}
	return fmt.Errorf("%d of %d configurations do not load", r.bad, len(r.Files))
}

// count prints a number of things, "1 pool" or "2 pools".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
