package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/config"
)

// buildWarnings loads and builds a text that has no errors, and returns what is said of it.
func buildWarnings(t *testing.T, text string) []string {
	t.Helper()
	file, problems := config.Load([]byte(text), "f", entries())
	if file == nil {
		t.Fatal(problems)
	}
	built, more := file.Build()
	if built == nil {
		t.Fatal(more)
	}
	var got []string
	for _, p := range append(problems, more...) {
		got = append(got, p.Error())
	}
	return got
}

func TestWarningsOfPluginsAreGivenTheirPlace(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"at the parameter that is spoken of", "plugins:\n- type: knobs-scorer\n  parameters:\n    mode: slow\n    inner: {ttl: 3s}\n",
			[]string{`f:7:12: warning: plugin "knobs-scorer": inner.ttl is 3s and has no effect with mode slow; remove it`}},
		{"not where the parameter keeps its default", "plugins:\n- type: knobs-scorer\n  parameters: {mode: slow}\n", nil},
		{"at a producer that nobody reads", "plugins:\n- type: queue-scorer\n- type: approx-prefix-cache-producer\n",
			[]string{`f:5:9: warning: plugin "approx-prefix-cache-producer": nobody reads what it makes; remove it, or add a plugin that reads what it makes`}},
		{"at the plugin", "plugins:\n- type: knobs-scorer\n  parameters: {full: 1000}\n",
			[]string{`f:4:9: warning: plugin "knobs-scorer": full 1000 is more than engines queue; lower it`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, buildWarnings(t, head+row.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A built-in plugin says of each parameter that counts only beside another when it does not.
func TestParametersWithoutEffectAreTold(t *testing.T) {
	for _, row := range []struct{ name, plugin, want string }{
		{"a scale without weight", "{type: prefix-cache-scorer, parameters: {matchLengthScaleTokens: 100}}", "matchLengthScaleTokens has no effect while matchLengthWeight is 0"},
		{"a scale with a weight", "{type: prefix-cache-scorer, parameters: {matchLengthScaleTokens: 100, matchLengthWeight: 1}}", ""},
		{"no weight of either latency", "{type: latency-scorer, parameters: {ttftWeight: 0, tpotWeight: 0}}", "ttftWeight is 0 and tpotWeight as well, so that the time to first token counts alone; give one of them a weight"},
		{"a weight of one latency", "{type: latency-scorer, parameters: {ttftWeight: 0}}", ""},
		{"nothing to stand in for predictions", "{type: latency-scorer, parameters: {compositeKVWeight: 0, compositeQueueWeight: 0, compositePrefixWeight: 0}}", "compositeKVWeight is 0 and so are the other two"},
		{"something to stand in", "{type: latency-scorer, parameters: {compositeKVWeight: 0, compositeQueueWeight: 0}}", ""},
		{"a throughput without a bound on its use", "{type: prefix-cache-affinity-filter, parameters: {maxTTFTPenaltyMs: 0, peakPrefillThroughput: 100}}", "peakPrefillThroughput has no effect while maxTTFTPenaltyMs is 0"},
		{"a filter that never filters", "{type: prefix-cache-affinity-filter, parameters: {explorationProbability: 1}}", "explorationProbability is 1 and every request passes unfiltered"},
		{"the other strategy's parameters", "{type: session-affinity-scorer, parameters: {sessionIdConfig: {maxSessions: 5}}}", "sessionIdConfig has no effect with strategy encoded_endpoint_header"},
		{"and the other way", "{type: session-affinity-scorer, parameters: {strategy: session_id, encodedEndpointHeaderConfig: {header: x-a}}}", "encodedEndpointHeaderConfig has no effect with strategy session_id"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := buildWarnings(t, head+"plugins:\n- "+row.plugin+"\n- type: queue-scorer\n")
			if row.want == "" && len(got) > 0 || row.want != "" && (len(got) != 1 || !strings.Contains(got[0], row.want)) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// Both bounds on a prefix at 0 mean none; a bound below one block, with which nothing would ever match, is refused; what has
// no effect is told.
func TestC06PrefixBounds(t *testing.T) {
	with := func(parameters string) string {
		return head + "plugins:\n- type: prefix-cache-scorer\n- type: approx-prefix-cache-producer\n  parameters: {" + parameters + "}\n"
	}
	const place = `plugin "approx-prefix-cache-producer": `
	for _, row := range []struct {
		name, parameters string
		want             []string
	}{
		{"both 0", "maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 0", nil},
		{"one block exactly", "blockSizeTokens: 64, maxPrefixTokensToMatch: 64", nil},
		{"a bound in blocks beside one in tokens", "maxPrefixBlocksToMatch: 10", []string{
			"f:6:40: warning: " + place + "maxPrefixBlocksToMatch is 10 and has no effect beside maxPrefixTokensToMatch 131072; set maxPrefixTokensToMatch to 0, or remove it"}},
		{"a bound in blocks alone", "maxPrefixBlocksToMatch: 10, maxPrefixTokensToMatch: 0", nil},
		{"blocks that are finer than any", "blockSizeTokens: 1", []string{
			"f:6:33: warning: " + place + "blockSizeTokens is 1 and counts as 64; write 64, or remove it"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, buildWarnings(t, with(row.parameters))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a bound below one block", func(t *testing.T) {
		file := load(t, with("blockSizeTokens: 64, maxPrefixTokensToMatch: 32"))
		built, problems := file.Build()
		want := "f:6:61: " + place + "maxPrefixTokensToMatch is 32, less than one block of 64 tokens, so that nothing would ever match; at least 64, or 0 for no bound"
		if built != nil || len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("got %v\nwant %s", problems, want)
		}
	})
}
