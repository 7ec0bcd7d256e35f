package cli_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/cli"
)

var update = flag.Bool("update", false, "write what the command line prints into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fairlead": func() { os.Exit(cli.Main(catalog.Builtin(), os.Args[1:])) },
	})
}

// TestScripts runs the command line as users see it: each file of testdata/script is a conversation with it. Beside what
// testscript knows, a script may use
//
//	exits CODE PROGRAM ARGS…    run a program that must end with this exit code
//	ports NAME…                 put free ports into environment variables
//	taken NAME                  put a port into an environment variable on which somebody listens until the script's end
//	get URL                     GET, repeated until it is answered with 200; the body is stdout
//	until URL PATTERN           GET, repeated until the body matches; the body is stdout
//	ask URL FILE                POST a file of JSON; status, headers and body are stdout, the decision's ID is $DECISION
//	tamper FILE PATH VALUE      set one value of a JSON file; PATH is its keys and indexes, joined by dots
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "ports": ports, "taken": taken, "get": get, "until": until, "ask": ask, "tamper": tamper,
		},
	})
}

// arguments checks how a command of a script is used.
func arguments(ts *testscript.TestScript, neg bool, args []string, least int) {
	if neg || len(args) < least {
		ts.Fatalf("see TestScripts for how this command is used")
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2)
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("it ended with exit code %d, want %d", got, want)
	}
}

func listen(ts *testscript.TestScript) (l net.Listener, port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err = net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	return l, port
}

func ports(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 1)
	for _, name := range args {
		l, port := listen(ts)
		defer l.Close() // when all have one, so that none gets the same
		ts.Setenv(name, port)
	}
}

func taken(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 1)
	l, port := listen(ts)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], port)
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 1)
	fetch(ts, args[0], regexp.MustCompile(""))
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2)
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	fetch(ts, args[0], pattern)
}

// fetch gets a page until it is answered with 200 and matches.
func fetch(ts *testscript.TestScript, url string, pattern *regexp.Regexp) {
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	why := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-retry.C {
		resp, err := http.Get(url)
		if err != nil {
			why = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if why = resp.Status + "\n" + string(body); err == nil && resp.StatusCode == http.StatusOK && pattern.Match(body) {
			_, err = ts.Stdout().Write(body)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("not within 20 s: %s", why)
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2)
	resp, err := http.Post(args[0], "application/json", strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	defer resp.Body.Close()
	ts.Setenv("DECISION", resp.Header.Get("X-Fairlead-Decision-Id"))
	ts.Check(resp.Write(ts.Stdout()))
}

func tamper(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 3)
	var document any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	d.UseNumber()
	ts.Check(d.Decode(&document))
	var value any
	ts.Check(json.Unmarshal([]byte(args[2]), &value))
	at, path := document, strings.Split(args[1], ".")
	for i, key := range path {
		last := i == len(path)-1
		switch v := at.(type) {
		case map[string]any:
			if _, has := v[key]; !has {
				ts.Fatalf("%s: there is no %q", args[1], key)
			}
			if at = v[key]; last {
				v[key] = value
			}
		case []any:
			n, err := strconv.Atoi(key)
			ts.Check(err)
			if at = v[n]; last {
				v[n] = value
			}
		default:
			ts.Fatalf("%s: %q is below a plain value", args[1], key)
		}
	}
	text, err := json.Marshal(document)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}
