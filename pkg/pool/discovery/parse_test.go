package discovery

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairlead/fairlead/pkg/pool"
)

// ends is an endpoint as most rows want it.
func ends(name, addr string, change ...func(*Entry)) Entry {
	a := netip.MustParseAddrPort(addr)
	e := Entry{Endpoint: pool.Endpoint{Namespace: "default", Name: name, Addr: a, Metrics: a}}
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, file string
		want       []Entry
	}{
		{"none", "endpoints: []", nil},
		{"the least", "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n", []Entry{ends("a", "10.0.0.1:8000")}},
		{"as llm-d writes it", "endpoints:\n- name: a\n  namespace: ns\n  address: 10.0.0.1\n  port: \"8000\"\n  labels:\n    llm-d.ai/role: decode\n",
			[]Entry{ends("a", "10.0.0.1:8000", func(e *Entry) {
				e.Namespace, e.Labels = "ns", map[string]string{"llm-d.ai/role": "decode"}
			})}},
		{"everything", "endpoints:\n- name: a\n  address: 10.0.0.1\n  port: 8000\n  metricsPort: \"9000\"\n  labels: {version: 1.10, ready: yes, n: 0x10}\n  annotations: {fairlead.dev/draining: true}\n  node: w1\n  pool: llama\n",
			[]Entry{ends("a", "10.0.0.1:8000", func(e *Entry) {
				e.Metrics = netip.MustParseAddrPort("10.0.0.1:9000")
				e.Labels = map[string]string{"version": "1.10", "ready": "yes", "n": "0x10"}
				e.Annotations = map[string]string{"fairlead.dev/draining": "true"}
				e.Draining, e.Node, e.Pool = true, "w1", "llama"
			})}},
		{"JSON with tabs", "{\n\t\"endpoints\": [\n\t\t{\"name\": \"a\", \"address\": \"10.0.0.1\", \"port\": \"8000\", \"labels\": {}}\n\t]\n}\n",
			[]Entry{ends("a", "10.0.0.1:8000", func(e *Entry) { e.Labels = map[string]string{} })}},
		{"IPv6 bare and in brackets", "endpoints:\n- {name: a, address: 'fd00::1', port: 8000}\n- {name: b, address: '[fd00::2]', port: 8000}\n",
			[]Entry{ends("a", "[fd00::1]:8000"), ends("b", "[fd00::2]:8000")}},
		{"IPv4 in IPv6 is IPv4", "endpoints:\n- {name: a, address: '::ffff:10.0.0.1', port: 8000}\n", []Entry{ends("a", "10.0.0.1:8000")}},
		{"one of several ports is one endpoint", "endpoints:\n- {name: a, address: 10.0.0.1, ports: [8000], metricsPort: 9000}\n",
			[]Entry{ends("a", "10.0.0.1:8000", func(e *Entry) { e.Metrics = netip.MustParseAddrPort("10.0.0.1:9000") })}},
		{"several ports are ranks", "endpoints:\n- {name: a, address: 10.0.0.1, ports: [8000, '8001']}\n",
			[]Entry{ends("a-rank-0", "10.0.0.1:8000"), ends("a-rank-1", "10.0.0.1:8001", func(e *Entry) { e.Rank = 1 })}},
		{"the same in another namespace or pool", "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n- {name: a, namespace: b, address: 10.0.0.2, port: 8000}\n- {name: a, pool: p, address: 10.0.0.1, port: 8000}\n",
			[]Entry{ends("a", "10.0.0.1:8000"), ends("a", "10.0.0.2:8000", func(e *Entry) { e.Namespace = "b" }), ends("a", "10.0.0.1:8000", func(e *Entry) { e.Pool = "p" })}},
		{"carriage returns", "endpoints:\r\n- name: a\r\n  address: 10.0.0.1\r\n  port: 8000\r\n", []Entry{ends("a", "10.0.0.1:8000")}},
		{"a mark of UTF-8", "\ufeffendpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n", []Entry{ends("a", "10.0.0.1:8000")}},
		{"draining is the word true alone", "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000, annotations: {fairlead.dev/draining: 'no'}}\n",
			[]Entry{ends("a", "10.0.0.1:8000", func(e *Entry) { e.Annotations = map[string]string{"fairlead.dev/draining": "no"} })}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := Parse([]byte(tt.file), "f")
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Entry{}, "File", "Line", "Column"), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	entry := func(fields string) string { return "endpoints:\n- {" + fields + "}\n" }
	tests := []struct {
		name, file string
		want       string // all problems, joined by line feeds
	}{
		{"an empty file", "", "f: the file is empty; write endpoints: [] if there are none"},
		{"comments alone", "# nothing\n", "f: the file is empty; write endpoints: [] if there are none"},
		{"an empty document", "---\n", "f:2:1: the file is empty; write endpoints: and the list below it"},
		{"another kind of file", "just words", `f:1:1: the file is "just words"; write endpoints: and the list below it`},
		{"a bare list", "- name: a\n", "f:1:1: the file is a list; write endpoints: and the list below it"},
		{"no endpoints", "{}", "f:1:1: endpoints is missing; write endpoints: [] if there are none"},
		{"endpoints without a list", "endpoints:\n", "f:1:11: endpoints is empty; write a list, endpoints: [] if there are none"},
		{"a mapping of endpoints", "endpoints: {a: b}", "f:1:12: endpoints is a mapping; write a list, endpoints: [] if there are none"},
		{"a mistyped list", "endpoint:\n- {name: a, address: 10.0.0.1, port: 8000}\n", `f:1:1: unknown field "endpoint"; did you mean "endpoints"?`},
		{"no YAML", "endpoints: [\n", "f:2:1: no valid YAML: did not find expected node content; check indentation, quotes and brackets here and in the line before"},
		{"a tab that YAML does not take", "endpoints:\n\t- name: a\n", "f:2:1: found character that cannot start any token"},
		{"two documents", "endpoints: []\n---\nendpoints: []\n", "f:2:1: a second document begins here; an endpoint file has one"},
		{"a word for an endpoint", "endpoints: [10.0.0.1]", `f:1:13: an endpoint is "10.0.0.1"; write its fields, like {name: a, address: 10.0.0.1, port: 8000}`},

		{"a field with another case", entry("Name: a, address: 10.0.0.1, port: 8000"), `f:2:4: unknown field "Name"; did you mean "name"?`},
		{"a mistyped field", entry("name: a, adress: 10.0.0.1, port: 8000"), `f:2:13: unknown field "adress"; did you mean "address"?`},
		{"a field like none", entry("name: a, address: 10.0.0.1, port: 8000, weightiness: 3"),
			`f:2:44: unknown field "weightiness"; known are "name", "namespace", "address", "port", "ports", "metricsPort", "labels", "annotations", "node", "pool"`},
		{"a merged mapping", entry("name: a, address: 10.0.0.1, port: 8000, <<: {node: x}"),
			`f:2:44: unknown field "<<"; known are "name", "namespace", "address", "port", "ports", "metricsPort", "labels", "annotations", "node", "pool"`},
		{"a field twice", "endpoints:\n- name: a\n  address: 10.0.0.1\n  port: 8000\n  name: b\n", `f:5:3: field "name" was already given at line 2`},
		{"an alias", "endpoints:\n- {name: &n a, address: 10.0.0.1, port: 8000}\n- {name: *n, address: 10.0.0.2, port: 8000}\n", "f:3:10: name is an alias, which an endpoint file does not know; write a text"},

		{"no name", entry("address: 10.0.0.1, port: 8000"), "f:2:3: name is missing"},
		{"an empty name", entry("name: '', address: 10.0.0.1, port: 8000"), "f:2:10: name is empty; leave it out, or write a name"},
		{"a null name", entry("name: , address: 10.0.0.1, port: 8000"), "f:2:10: name is empty; write a text"},
		{"a name with a slash", entry("name: a/b, address: 10.0.0.1, port: 8000"), `f:2:10: name is "a/b"; a name has no blanks, slashes or control characters`},
		{"a long name", entry("name: " + strings.Repeat("x", 254) + ", address: 10.0.0.1, port: 8000"), "f:2:10: name has 254 bytes; at most 253"},
		{"no address", entry("name: a, port: 8000"), `f:2:3: endpoint "a": address is missing; write an IP address`},
		{"a host name", entry("name: a, address: pod-a.svc, port: 8000"), "f:2:22: address is \"pod-a.svc\"; names are not resolved, since their addresses may change unseen; write the IP address that `getent hosts` prints for it"},
		{"localhost", entry("name: a, address: localhost, port: 8000"), `f:2:22: address is "localhost"; write 127.0.0.1 or ::1: names are not resolved`},
		{"an address with its port", entry("name: a, address: '10.0.0.1:8000', port: 8000"), `f:2:22: address is "10.0.0.1:8000"; write the address alone, and the port in its own field`},
		{"a URL", entry("name: a, address: 'http://10.0.0.1', port: 8000"), `f:2:22: address is "http://10.0.0.1"; write the IP address alone, without a scheme`},
		{"an address of five parts", entry("name: a, address: 10.0.0.1.2, port: 8000"), `f:2:22: address is "10.0.0.1.2"; write an IP address, like 10.0.0.1 or fd00::1`},
		{"an address with blanks", entry("name: a, address: ' 10.0.0.1', port: 8000"), `f:2:22: address is " 10.0.0.1"; there are blanks around it; remove them`},
		{"IPv4 in brackets", entry("name: a, address: '[10.0.0.1]', port: 8000"), `f:2:22: address is "[10.0.0.1]"; brackets are for IPv6 addresses; leave them out`},
		{"a zone", entry("name: a, address: 'fe80::1%eth0', port: 8000"), `f:2:22: address is "fe80::1%eth0"; a gateway cannot reach an address with a zone; write one without`},
		{"all addresses", entry("name: a, address: 0.0.0.0, port: 8000"), `f:2:22: address is "0.0.0.0"; this stands for all addresses of a host; write the one that clients use`},
		{"many hosts", entry("name: a, address: 224.0.0.1, port: 8000"), `f:2:22: address is "224.0.0.1"; this is no address of one host`},
		{"no port", entry("name: a, address: 10.0.0.1"), `f:2:3: endpoint "a": port is missing; write the port of its API, like port: 8000`},
		{"port 0", entry("name: a, address: 10.0.0.1, port: 0"), `f:2:38: port is "0"; write a number from 1 to 65535`},
		{"a port too large", entry("name: a, address: 10.0.0.1, port: 65536"), `f:2:38: port is "65536"; write a number from 1 to 65535`},
		{"a port with a sign", entry("name: a, address: 10.0.0.1, port: +80"), `f:2:38: port is "+80"; write a number from 1 to 65535`},
		{"a named port", entry("name: a, address: 10.0.0.1, port: http"), `f:2:38: port is "http"; write a number from 1 to 65535`},
		{"a list as port", entry("name: a, address: 10.0.0.1, port: [80]"), `f:2:38: port is a list; write a number from 1 to 65535`},
		{"no ports", entry("name: a, address: 10.0.0.1, ports: []"), "f:2:39: ports is an empty list; write a list of ports, like [8000, 8001]"},
		{"port and ports", entry("name: a, address: 10.0.0.1, port: 80, ports: [81]"), "f:2:49: both port and ports are given; write one of them"},
		{"one page for several ranks", entry("name: a, address: 10.0.0.1, ports: [80, 81], metricsPort: 9000"),
			`f:2:62: endpoint "a": one page of metrics cannot tell the load of 2 ports apart; leave metricsPort out, or write an endpoint for each port`},
		{"a list of labels", entry("name: a, address: 10.0.0.1, port: 80, labels: [x]"), "f:2:50: labels is a list; write a mapping, like {gpu: h100}"},
		{"a label of lists", entry("name: a, address: 10.0.0.1, port: 80, labels: {x: [y]}"), "f:2:54: labels.x is a list; write a text"},
		{"a label twice", entry("name: a, address: 10.0.0.1, port: 80, labels: {x: y, x: z}"), `f:2:57: labels has the key "x" twice`},

		{"a name twice", "endpoints:\n- {name: a, address: 10.0.0.1, port: 80}\n- {name: b, address: 10.0.0.2, port: 80}\n- {name: a, address: 10.0.0.3, port: 80}\n",
			"f:4:3: endpoint default/a was already given at line 2; give it another name, or remove one of the two"},
		{"an address twice", "endpoints:\n- {name: a, address: 10.0.0.1, port: 80}\n- {name: b, address: '::ffff:10.0.0.1', port: 80}\n",
			"f:3:3: address 10.0.0.1:80 of endpoint default/b is that of default/a at line 2; remove one of the two"},
		{"a port twice", entry("name: a, address: 10.0.0.1, ports: [80, 80]"),
			"f:2:3: address 10.0.0.1:80 of endpoint default/a-rank-1 is that of default/a-rank-0 at line 2; remove one of the two"},
		{"a name that a rank has", "endpoints:\n- {name: a, address: 10.0.0.1, ports: [80, 81]}\n- {name: a-rank-1, address: 10.0.0.2, port: 80}\n",
			"f:3:3: endpoint default/a-rank-1 was already given at line 2; give it another name, or remove one of the two"},
		{"all that is wrong, at once", "endpoints:\n- {name: a, address: x, port: y}\n- {nam: b}\n",
			"f:2:22: address is \"x\"; names are not resolved, since their addresses may change unseen; write the IP address that `getent hosts` prints for it\n" +
				`f:2:31: port is "y"; write a number from 1 to 65535` + "\n" + `f:3:4: unknown field "nam"; did you mean "name"?`},
		{"a file that is too long", strings.Repeat("#", MaxFile+1), "f: the file has 1048577 bytes; at most 1048576"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Parse([]byte(tt.file), "f")
			var got []string
			for _, p := range problems {
				got = append(got, p.Error())
			}
			if g := strings.Join(got, "\n"); g != tt.want {
				t.Errorf("got\n%s\nwant\n%s", g, tt.want)
			}
		})
	}
}

func TestParseBoundsProblems(t *testing.T) {
	_, problems := Parse([]byte("endpoints:\n"+strings.Repeat("- {}\n", 100)), "f")
	if len(problems) != 21 || problems[20].Error() != "f: 80 more problems" {
		t.Errorf("%d problems, the last: %v", len(problems), problems[len(problems)-1])
	}
}

// TestFromURLRepeatsNoPassword: what is printed may be logged.
func TestFromURLRepeatsNoPassword(t *testing.T) {
	if _, err := FromURL("http://u:canary@127.0.0.1:8000"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestFromURL(t *testing.T) {
	tests := []struct{ url, want, problem string }{
		{"http://127.0.0.1:8000", "127.0.0.1:8000", ""},
		{"http://127.0.0.1:8000/", "127.0.0.1:8000", ""},
		{"http://[fd00::1]:8000", "[fd00::1]:8000", ""},
		{"http://127.0.0.1", "127.0.0.1:80", ""},
		{"127.0.0.1:8000", "", "this is no URL; write one like http://10.0.0.1:8000"},
		{"", "", "this is no URL; write one like http://10.0.0.1:8000"},
		{"http://127.0.0.1:8000 ", "", "this is no URL; write one like http://10.0.0.1:8000"},
		{"https://127.0.0.1:8000", "", `scheme is "https"; endpoints are reached by http`},
		{"http://localhost:8000", "", "write 127.0.0.1 or ::1: names are not resolved"},
		{"http://127.0.0.1:8000/v1", "", "paths come from the requests; end after the port"},
		{"http://127.0.0.1:8000?", "", "paths come from the requests; end after the port"},
		{"http://u:xxxxx@127.0.0.1:8000", "", "a user has no meaning here; leave it out"}, // any password is shown like this
		{"http://127.0.0.1:0", "", `port is "0"; write a number from 1 to 65535`},
		{"http://127.0.0.1:", "", `port is ""; write a number from 1 to 65535`},
		{"http://127.0.0.1:99999", "", `port is "99999"; write a number from 1 to 65535`},
		{"http://0.0.0.0:80", "", "this stands for all addresses of a host; write the one that clients use"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			e, err := FromURL(tt.url)
			if tt.problem != "" {
				if want := fmt.Sprintf("endpoint %q: %s", tt.url, tt.problem); err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil || e.Addr.String() != tt.want || e.Metrics != e.Addr || e.Name != tt.want || e.Namespace != "default" {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func FuzzEndpoints(f *testing.F) {
	for _, s := range []string{
		"", "endpoints: []", "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n",
		"{\"endpoints\": [{\"name\": \"a\", \"address\": \"[fd00::1]\", \"ports\": [\"8000\", 8001], \"labels\": {\"x\": \"y\"}}]}",
		"endpoints:\n- name: a\n  address: 10.0.0.1\n  port: '8000'\n  metricsPort: 9000\n  annotations: {fairlead.dev/draining: \"true\"}\n  node: n\n  pool: p\n",
		"endpoints: &a [*a]", "a: &a [x]\nb: *a\n? [c]\n: d\n", "endpoints:\n- {name: a, <<: {name: b}}\n---\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, problems := Parse(data, "f")
		for _, p := range problems {
			if p.Message == "" || p.File != "f" || p.Line < 0 || p.Column < 0 {
				t.Errorf("problem %+v", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		p := pool.New("default", nil)
		var own []Entry
		for _, e := range entries {
			if !e.Addr.IsValid() || e.Addr.Port() == 0 || e.Addr.Addr().Is4In6() || e.Name == "" || e.Namespace == "" || e.Metrics.Port() == 0 {
				t.Errorf("accepted %+v", e)
			}
			if e.Pool == "" {
				own = append(own, e)
			}
		}
		if problems := Apply(1, own, []*pool.Pool{p}); len(problems) > 0 {
			t.Errorf("parsed but not applied: %v", problems)
		}
		if got := len(p.Snapshot().Members); got != len(own) {
			t.Errorf("%d entries make %d members", len(own), got)
		}
	})
}
