package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// root is the module's.
var root = filepath.Join("..", "..")

func TestTheDescriptionsAreThoseOfTheSource(t *testing.T) {
	want, err := describe(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, output))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: make generate", output)
	}
}

// TestEveryPluginAndParameterIsDescribed: what a user can set has a comment, and so has what it is set on.
func TestEveryPluginAndParameterIsDescribed(t *testing.T) {
	texts := catalog.Descriptions()
	for _, e := range catalog.Builtin() {
		v := e.New()
		of := reflect.TypeOf(v)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if text := texts[plugins.TypeName(of)]; !strings.HasPrefix(text, of.Name()+" ") {
			t.Errorf("%s: the comment of %s does not begin with its name: %q", e.Type, of.Name(), text)
		}
		described(t, texts, e.Type, plugins.Params(v))
		reads, makes := e.Data()
		for _, fact := range append(reads, makes...) {
			family, _, _ := strings.Cut(fact.Name, ".")
			if texts["fact "+fact.Name] == "" && texts["fact "+family+"."] == "" {
				t.Errorf("%s: the fact %q has no comment", e.Type, fact.Name)
			}
		}
	}
}

func described(t *testing.T, texts map[string]string, where string, params []plugins.Param) {
	t.Helper()
	for _, p := range params {
		if texts[p.Owner+"."+p.Field] == "" {
			t.Errorf("%s: parameter %s (%s.%s) has no comment", where, p.Path, p.Owner, p.Field)
		}
		switch p.Kind {
		case plugins.ParamStruct:
			described(t, texts, where, p.Fields())
		case plugins.ParamList, plugins.ParamMap:
			described(t, texts, where, p.Elem().Fields())
		}
	}
}

// TestTheQueueNamesItsReasons: what a request that waits may meet is decided in other files than the plugin's own. What a plugin
// only compares with is none of its reasons.
func TestTheQueueNamesItsReasons(t *testing.T) {
	has := catalog.Reasons()
	for _, row := range []struct {
		plugin string
		named  bool
		ids    []reason.ID
	}{
		{"flow.Queue", true, []reason.ID{reason.QueueFull, reason.QueueTimeout, reason.NoEndpoint, reason.FlowsShared, reason.Evicted, reason.NotRevocable}},
		{"flow.Queue", false, []reason.ID{reason.AllFiltered, reason.Shed}},
		{"flow.Shed", true, []reason.ID{reason.Shed}},
		{"flow.Shed", false, []reason.ID{reason.QueueFull, reason.NotRevocable}},
		{"health.Filter", false, []reason.ID{reason.ClientAborted, reason.BookingExpired}},
	} {
		for _, id := range row.ids {
			if got := slices.Contains(has["github.com/fairlead/fairlead/pkg/"+row.plugin], id); got != row.named {
				t.Errorf("%s names %s: %v, want %v", row.plugin, id, got, row.named)
			}
		}
	}
}
