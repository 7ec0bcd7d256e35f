package cli

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
)

// take parses a command line as the program does, up to where the command would run.
func take(args ...string) (*cobra.Command, error) {
	c, rest, err := rootCommand(catalog.Builtin()).Find(args)
	if err != nil {
		return nil, err
	}
	if err := c.ParseFlags(rest); err != nil {
		return nil, c.FlagErrorFunc()(c, err)
	}
	return c, c.ValidateArgs(c.Flags().Args())
}

func expectWrongUse(t *testing.T, want string, args ...string) {
	t.Helper()
	_, err := take(args...)
	var usage *usageError
	if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q: got %v\nwant %s", args, err, want)
	}
}

// The value of a flag that is the next flag is a value that is missing.
func TestC07AFlagWithoutValue(t *testing.T) {
	for _, row := range []struct {
		name, want string
		args       []string
	}{
		{"the flag after it is taken for its value", `--config-file has no value: "--grpc-port", which follows it, is a flag; see fairlead epp --help`,
			[]string{"epp", "--config-file", "--grpc-port", "9002"}},
		{"with the other's value joined", `--config-file has no value: "--grpc-port=9002", which follows it, is a flag`, []string{"epp", "--config-file", "--grpc-port=9002"}},
		{"of a flag that may be repeated", `--endpoint has no value: "--log-level", which follows it, is a flag`, []string{"gateway", "--endpoint", "--log-level", "debug"}},
		{"at the end", "flag needs an argument: --config-file; see fairlead epp --help", []string{"epp", "--config-file"}},
	} {
		t.Run(row.name, func(t *testing.T) { expectWrongUse(t, row.want, row.args...) })
	}
	for _, value := range []string{"-", "config.yaml", "--odd-name.yaml"} {
		if _, err := take("epp", "--config-file", value); err != nil {
			t.Errorf("%q is refused: %v", value, err)
		}
	}
	// A file and a text at once: the message has the flags by their names.
	f := serveFlags{}
	f.register(&cobra.Command{}, "epp")
	err := f.check(func(flag string) bool { return flag == "config-file" || flag == "config-text" })
	if err == nil || !strings.HasPrefix(err.Error(), "--config-file and --config-text are given") {
		t.Errorf("got %v", err)
	}
}

// An interval of scrapes that would flood engines, or is none, is refused by the flag's name; so it is in a configuration.
func TestC10ScrapeInterval(t *testing.T) {
	for value, want := range map[string]string{
		"1ms": "--refresh-metrics-interval is 1ms; at least 50ms", "0": "--refresh-metrics-interval is 0s; at least 50ms",
		"-5s": "--refresh-metrics-interval is -5s; at least 50ms", "50ms": "", "1s": "",
	} {
		f := serveFlags{}
		c := &cobra.Command{}
		f.register(c, "epp")
		if err := c.ParseFlags([]string{"--refresh-metrics-interval=" + value}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := f.check(c.Flags().Changed); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	expectWrongUse(t, `invalid argument "abc" for "--refresh-metrics-interval" flag`, "epp", "--refresh-metrics-interval=abc")
	for value, want := range map[string]string{"1ms": "interval is 1ms; at least 50ms", "0s": "interval is 0s; at least 50ms", "-5s": "interval is -5s; at least 50ms",
		"abc": `interval is "abc"; write a duration`, "2s": ""} {
		_, problems := config.Load([]byte("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins: [{type: queue-scorer}, {type: metrics-data-source, parameters: {interval: "+value+"}}]\n"),
			"f", catalog.Builtin())
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), want)) {
			t.Errorf("%s: got %v, want %q", value, problems, want)
		}
	}
}

// Each switch of each command is one token in a rendered manifest, and two are refused with what to write.
func TestC13SwitchesInManifests(t *testing.T) {
	found := 0
	for _, command := range []string{"epp", "gateway"} {
		c, err := take(command)
		if err != nil {
			t.Fatal(err)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "bool" || f.Name == "help" {
				return
			}
			found++
			for _, value := range []string{"true", "false"} {
				var args []string // as a container's args in a manifest
				if err := yaml.Unmarshal([]byte("- "+command+"\n- --"+f.Name+"="+value+"\n- --log-level=debug\n"), &args); err != nil {
					t.Fatal(err)
				}
				c, err := take(args...)
				if err != nil {
					t.Errorf("%q: %v", args, err)
					continue
				}
				if got := c.Flags().Lookup(f.Name).Value.String(); got != value {
					t.Errorf("%q: it is %s", args, got)
				}
				expectWrongUse(t, `"`+value+`" is one argument too many; the value of a switch is joined to it: --`+f.Name+"="+value, command, "--"+f.Name, value)
			}
		})
	}
	if found < 4 {
		t.Errorf("only %d switches found", found)
	}
}

// A configuration as JSON in an argument is the same bytes after the manifest's YAML and after a shell.
func TestC16QuotingOfJSONArguments(t *testing.T) {
	const text = `{"apiVersion":"fairlead.dev/v1alpha1","kind":"EndpointPickerConfig","plugins":[{"type":"queue-scorer","name":"it's \"a\" $HOME \\ name"}]}`
	arrives := func(layer string, args []string) {
		t.Helper()
		c, err := take(args...)
		if err != nil {
			t.Errorf("%s: %v", layer, err)
		} else if got := c.Flags().Lookup("config-text").Value.String(); got != text {
			t.Errorf("%s: it arrives as %s", layer, got)
		}
	}
	manifest, err := yaml.Marshal([]string{"epp", "--config-text", text})
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	if err := yaml.Unmarshal(manifest, &args); err != nil {
		t.Fatal(err)
	}
	arrives("a manifest", args)
	arrives("one token", []string{"epp", "--config-text=" + text})
	out, err := exec.Command("sh", "-c", `printf '%s\n' epp --config-text '`+strings.ReplaceAll(text, "'", `'\''`)+"'").Output()
	if err != nil {
		t.Fatal(err)
	}
	arrives("a shell", strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"))

	// What the argument holds is read as the file is: the name has spaces and is refused for that, not for its quoting.
	_, problems := config.Load([]byte(text), "--config-text", catalog.Builtin())
	if len(problems) != 1 || problems[0].Code != config.CodeOutOfBounds {
		t.Errorf("got %v", problems)
	}
}

// A value with a space or line end at its end is refused, whichever flag it is of; so is one in quotes in the file.
func TestX21StrayWhitespace(t *testing.T) {
	for _, row := range []struct {
		name, want string
		args       []string
	}{
		{"at the end", `--config-file is "config.yaml ", with a space or line end too many; remove it`, []string{"epp", "--config-file=config.yaml "}},
		{"at both ends", `--endpoints is " e.yaml "`, []string{"epp", "--endpoints", " e.yaml "}},
		{"a carriage return", `--listen is ":8080\r"`, []string{"gateway", "--listen=:8080\r"}},
		{"in a flag that may be repeated", `--endpoint is "http://192.0.2.1:8000\n"`, []string{"epp", "--endpoint", "http://192.0.2.1:8000\n"}},
		{"of a number", `invalid argument "9002 " for "--grpc-port" flag`, []string{"epp", "--grpc-port=9002 "}},
		{"of a switch", `invalid argument "false\r" for "--secure-serving" flag`, []string{"epp", "--secure-serving=false\r"}},
	} {
		t.Run(row.name, func(t *testing.T) { expectWrongUse(t, row.want, row.args...) })
	}
	if _, err := take("epp", "--config-text", "kind: EndpointPickerConfig\r\n"); err != nil {
		t.Errorf("a text of lines is refused: %v", err)
	}
	const head = "apiVersion: llm-d.ai/v1alpha1\r\nkind: EndpointPickerConfig\r\nplugins:\r\n- type: queue-scorer\r\n"
	for _, row := range []struct{ name, text, want string }{
		{"lines that end as under Windows", head, ""},
		{"a path with a space", head + "- {type: metrics-data-source, parameters: {path: '/metrics '}}\r\n",
			`f:5:50: plugin "metrics-data-source": path is "/metrics ", with a space or line end too many; remove it`},
		{"a name with a space", head + "schedulingProfiles:\r\n- {name: ' p ', plugins: [{pluginRef: queue-scorer}]}\r\n",
			`f:6:10: profile " p ": the name has a space or control character; use letters, digits and -`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, problems := config.Load([]byte(row.text), "f", catalog.Builtin())
			switch {
			case row.want == "" && len(problems) > 0, row.want != "" && (len(problems) != 1 || problems[0].Error() != row.want):
				t.Errorf("got %v\nwant %s", problems, row.want)
			}
		})
	}
}
