package plugins

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type paramShared struct {
	Shared int32 `json:"shared" schema:"min=1,max=9"`
}

type paramGroup struct {
	Mode  string  `json:"mode" schema:"enum=fast|slow"`
	Share float64 `json:"share" schema:"min=0,max=1"`
}

type paramPlugin struct {
	paramShared

	On      bool           `json:"on"`
	Full    int32          `json:"full" schema:"min=1,max=1000,was=limit|cap"`
	Port    uint16         `json:"port"`
	Share   float64        `json:"share" schema:"min=0,max=1"`
	Label   string         `json:"label" schema:"required,min=1"`
	Wait    time.Duration  `json:"wait" schema:"min=1ms,max=1m"`
	Size    Quantity       `json:"size" schema:"min=1Ki,max=1Gi"`
	Addr    netip.Addr     `json:"addr"`
	Group   paramGroup     `json:"group"`
	Perhaps *int32         `json:"perhaps" schema:"min=0"`
	Nested  *paramGroup    `json:"nested"`
	Names   []string       `json:"names" schema:"max=2,enum=a|b|c"`
	Groups  []paramGroup   `json:"groups"`
	Weights map[string]int `json:"weights"`

	Handle  EndpointValues[int32] `json:"handle"` // a handle is no parameter, whatever its tag
	Untold  int
	private int
}

func newParamPlugin() *paramPlugin {
	return &paramPlugin{Full: 128, Share: 0.5, Wait: time.Second, Size: 1 << 20, Group: paramGroup{Mode: "fast"}, paramShared: paramShared{Shared: 1}, private: 3}
}

func param(t *testing.T, of any, name string) Param {
	t.Helper()
	for _, p := range Params(of) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no parameter %q", name)
	return Param{}
}

func TestParamsDescribesTheTaggedFieldsInOrder(t *testing.T) {
	var got []string
	for _, p := range Params(newParamPlugin()) {
		got = append(got, p.Name)
	}
	want := []string{"shared", "on", "full", "port", "share", "label", "wait", "size", "addr", "group", "perhaps", "nested", "names", "groups", "weights"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	full := param(t, newParamPlugin(), "full")
	if full.Min != "1" || full.Max != "1000" || len(full.Was) != 2 || full.Text() != "128" {
		t.Errorf("full is described as %+v with default %s", full, full.Text())
	}
	if !param(t, newParamPlugin(), "label").Required {
		t.Error("label is required by its tag")
	}
}

func TestParamsOfWhatHasNoParameters(t *testing.T) {
	for _, v := range []any{nil, 3, paramGroup{}, func() {}, (*paramPlugin)(nil), &struct{ X int }{}} {
		if got := Params(v); got != nil {
			t.Errorf("Params(%T) has %d parameters, want none", v, len(got))
		}
	}
}

func TestParamSetters(t *testing.T) {
	rows := []struct {
		name, param string
		set         func(Param) error
		want        string // the error, or the text afterwards
	}{
		{"a number within its bounds", "full", func(p Param) error { return p.SetInt(1000) }, "1000"},
		{"a number below its bound", "full", func(p Param) error { return p.SetInt(-3) }, "full is -3; at least 1"},
		{"a number above its bound", "full", func(p Param) error { return p.SetInt(1001) }, "full is 1001; at most 1000"},
		{"a number beyond the type", "full", func(p Param) error { return p.SetInt(1 << 40) }, "full is 1099511627776; at most 1000"},
		{"a negative number for an unsigned one", "port", func(p Param) error { return p.SetInt(-1) }, "port is -1; at least 0"},
		{"a port beyond the type", "port", func(p Param) error { return p.SetInt(70000) }, "port is 70000; at most 65535"},
		{"the largest port", "port", func(p Param) error { return p.SetInt(65535) }, "65535"},
		{"a fraction for a whole number", "full", func(p Param) error { return p.SetFloat(1.5) }, "full is 1.5; write a whole number"},
		{"a text for a whole number", "full", func(p Param) error { return p.SetString("12") }, `full is the text "12"; write a whole number, without quotes`},
		{"a whole number for a number", "share", func(p Param) error { return p.SetInt(1) }, "1"},
		{"not a number", "share", func(p Param) error { var zero float64; return p.SetFloat(zero / zero) }, "share is NaN; write a finite number"},
		{"a share above one", "share", func(p Param) error { return p.SetFloat(1.25) }, "share is 1.25; at most 1"},
		{"true", "on", func(p Param) error { return p.SetBool(true) }, "true"},
		{"a text for a switch", "on", func(p Param) error { return p.SetString("yes") }, `on is the text "yes"; write true or false, without quotes`},
		{"a text", "label", func(p Param) error { return p.SetString("zone") }, "zone"},
		{"an empty text where one is needed", "label", func(p Param) error { return p.SetString("") }, `label is ""; at least 1 bytes long`},
		{"a number for a text", "label", func(p Param) error { return p.SetInt(8000) }, `label is the number 8000; write it in quotes: "8000"`},
		{"a duration", "wait", func(p Param) error { return p.SetString("150ms") }, "150ms"},
		{"a duration without unit", "wait", func(p Param) error { return p.SetInt(5) }, "wait is 5; write a duration with its unit, such as 500ms or 2m"},
		{"a duration above its bound", "wait", func(p Param) error { return p.SetString("2m") }, "wait is 2m; at most 1m"},
		{"a quantity", "size", func(p Param) error { return p.SetString("64Mi") }, "64Mi"},
		{"a quantity as a number", "size", func(p Param) error { return p.SetInt(2048) }, "2Ki"},
		{"a quantity above its bound", "size", func(p Param) error { return p.SetString("2Gi") }, "size is 2Gi; at most 1Gi"},
		{"a quantity that is none", "size", func(p Param) error { return p.SetString("much") }, `size is "much"; write a quantity, such as 64, 512Mi or 2G`},
		{"an address", "addr", func(p Param) error { return p.SetString("::1") }, "::1"},
		{"an address that is none", "addr", func(p Param) error { return p.SetString("here") }, `addr is "here"; ParseAddr("here"): unable to parse IP`},
		{"one that may be unset", "perhaps", func(p Param) error { return p.SetInt(0) }, "0"},
		{"one that may be unset, out of bounds", "perhaps", func(p Param) error { return p.SetInt(-1) }, "perhaps is -1; at least 0"},
		{"an embedded struct's", "shared", func(p Param) error { return p.SetInt(10) }, "shared is 10; at most 9"},
		{"a value for a group", "group", func(p Param) error { return p.SetBool(true) }, "group is true; write a group of parameters"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := param(t, newParamPlugin(), row.param)
			before := p.Text()
			got := ""
			if err := row.set(p); err != nil {
				got = err.Error()
				if p.Text() != before {
					t.Errorf("a refused value changed %s to %s", before, p.Text())
				}
			} else {
				got = p.Text()
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestParamGroupsListsAndTables(t *testing.T) {
	v := newParamPlugin()
	for _, f := range param(t, v, "group").Fields() {
		if f.Name == "mode" {
			if err := f.SetString("swift"); err == nil || err.Error() != `group.mode is "swift"; one of fast, slow` {
				t.Errorf("mode swift: %v", err)
			}
		}
	}
	nested := param(t, v, "nested")
	if !nested.Absent() {
		t.Error("nested is absent before it is opened")
	}
	nested.Fields()
	if v.Nested == nil {
		t.Error("Fields makes a group present")
	}

	names := param(t, v, "names")
	names.Clear()
	if names.Absent() || v.Names == nil {
		t.Error("a cleared list is empty, not absent")
	}
	names.Append(func(item Param) { must(t, item.SetString("a")) })
	names.Append(func(item Param) {
		must(t, item.SetString("b"))
		if err := item.SetString("z"); err == nil || err.Error() != `names[1] is "z"; one of a, b, c` {
			t.Errorf("z: %v", err)
		}
	})
	must(t, names.Check())
	names.Append(func(item Param) { must(t, item.SetString("c")) })
	if err := names.Check(); err == nil || err.Error() != "names is 3 items long; at most 2 items" {
		t.Errorf("three names: %v", err)
	}

	groups := param(t, v, "groups")
	groups.Append(func(item Param) {
		for _, f := range item.Fields() {
			if f.Path != "groups[0]."+f.Name {
				t.Errorf("path is %s", f.Path)
			}
			if f.Name == "share" {
				must(t, f.SetFloat(0.25))
			}
		}
	})
	weights := param(t, v, "weights")
	weights.Clear()
	for _, k := range []string{"b", "a"} {
		weights.Put(k, func(item Param) { must(t, item.SetInt(int64(len(weights.Path)))) })
	}
	var seen []string
	for k, item := range weights.Items {
		seen = append(seen, k+"="+item.Text())
	}
	if got := strings.Join(seen, " "); got != "a=7 b=7" {
		t.Errorf("weights are %s", got)
	}
	if diff := cmp.Diff([]paramGroup{{Share: 0.25}}, v.Groups); diff != "" {
		t.Error(diff)
	}
}

func TestParamDefaultsAreHeldAgainstTheirBounds(t *testing.T) {
	v := newParamPlugin()
	v.Full = 0
	if err := param(t, v, "full").Check(); err == nil || err.Error() != "full is 0; at least 1" {
		t.Errorf("full 0: %v", err)
	}
	v.Group.Mode = "other"
	if err := param(t, v, "group").Check(); err == nil || !strings.Contains(err.Error(), "group.mode") {
		t.Errorf("mode other: %v", err)
	}
}

func TestMistakesInATagAreTheProgramsOwn(t *testing.T) {
	for name, v := range map[string]any{
		"a bound that is no number": &struct {
			X int `json:"x" schema:"min=many"`
		}{},
		"an unknown word": &struct {
			X int `json:"x" schema:"least=1"`
		}{},
		"a type that cannot be written down": &struct {
			X chan int `json:"x"`
		}{},
		"a bound on a switch": &struct {
			X bool `json:"x" schema:"min=1"`
		}{},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, ".X:") {
					t.Errorf("panic %q does not name the field", p)
				}
			}()
			Params(v)
			t.Error("no panic")
		})
	}
}

func TestQuantity(t *testing.T) {
	for text, want := range map[string]Quantity{"0": 0, "64": 64, "1k": 1000, "1Ki": 1024, "2G": 2e9, "2GiB": 2 << 30, "1.5Ki": 1536, "-1M": -1e6, "12B": 12} {
		if got, err := ParseQuantity(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "1.3", "1KiB2", "9999999P", "0x10", "NaN", "1 k", "1e400"} {
		if got, err := ParseQuantity(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		q := Quantity(rapid.Int64().Draw(t, "q"))
		if back, err := ParseQuantity(q.String()); err != nil || back != q {
			t.Fatalf("%d prints as %s and is read as %d, %v", q, q, back, err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A duration without bounds of its own stays within what can be added to an instant; one with bounds has these.
func TestDurationsHaveABound(t *testing.T) {
	var v struct {
		Free  time.Duration `json:"free"`
		Bound time.Duration `json:"bound" schema:"min=-1000000h,max=1000000h"`
	}
	params := Params(&v)
	for _, r := range []struct {
		param int
		to    string
		want  string
	}{
		{0, "175200h", ""}, {0, "-175200h", ""},
		{0, "175201h", "free is 175201h; at most 175200h"}, {0, "-175201h", "free is -175201h; at least -175200h"},
		{0, "2562047h", "free is 2562047h; at most 175200h"},
		{1, "900000h", ""}, {1, "-900000h", ""}, {1, "1000001h", "bound is 1000001h; at most 1000000h"},
	} {
		got := ""
		if err := params[r.param].SetString(r.to); err != nil {
			got = err.Error()
		}
		if got != r.want {
			t.Errorf("%s: %q, want %q", r.to, got, r.want)
		}
	}
}
