package models_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/models"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

func build(pools ...plugins.PoolSpec) (*plugins.Built, error) {
	for i := range pools {
		pools[i].Profiles, pools[i].Handler = []string{"default"}, "single"
	}
	return plugins.Build(plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "model-resolver", Type: "model-resolver", Construct: func() (any, error) { return models.NewResolver(), nil }},
			{Name: "single", Type: "single-profile-handler", Construct: func() (any, error) { return profiles.NewSingle(), nil }},
			{Name: "random", Type: "random-picker", Construct: func() (any, error) { return pickers.NewRandom(), nil }},
		},
		Profiles: []plugins.ProfileSpec{{Name: "default", Plugins: []plugins.RefSpec{{Ref: "random"}}}},
		Pools:    pools,
		Stages:   []string{"model-resolver"},
	}, nil)
}

var (
	single = []plugins.PoolSpec{{Name: "default"}}
	listed = []plugins.PoolSpec{{Name: "small", Models: []plugins.Model{{Name: "llama-8b", Aliases: []string{"llama", "gpt-3.5"}}}}}
	two    = append(slices.Clone(listed), plugins.PoolSpec{Name: "large", Models: []plugins.Model{{Name: "llama-70b"}, {Name: `odd"name`, Aliases: []string{"odd"}}}})
)

// scan reads a body as the exchange does.
func scan(t *testing.T, body string) *openai.Summary {
	t.Helper()
	if body == "" {
		return nil
	}
	sc := openai.NewScanner(openai.ChatCompletions)
	if err := sc.Feed([]byte(body)); err != nil {
		t.Fatal(err)
	}
	s, err := sc.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResolver(t *testing.T) {
	long := "x" + strings.Repeat("é", 200)
	for _, r := range []struct {
		name  string
		pools []plugins.PoolSpec
		api   openai.API
		body  string
		want  string // pool and model, a refusal, or "reply"
		sent  string // the body as the engine gets it, if it differs
	}{
		{"a single pool without models takes any", single, openai.ChatCompletions, `{"model":"anything"}`, "default/anything", ""},
		{"a single pool takes a request without a model", single, openai.ChatCompletions, `{}`, "default/", ""},
		{"a single pool takes a request without a body", single, openai.Other, "", "default/", ""},
		{"without a table GET /v1/models is forwarded", single, openai.Models, "", "default/", ""},
		{"a listed model", listed, openai.ChatCompletions, `{"model":"llama-8b"}`, "small/llama-8b", ""},
		{"an alias is replaced in the body, and nothing else is", listed, openai.ChatCompletions, `{"n":1, "model" : "llama","x":[1]}`, "small/llama-8b", `{"n":1, "model" : "llama-8b","x":[1]}`},
		{"an escaped alias is the same alias", listed, openai.ChatCompletions, `{"model":"ll\u0061ma"}`, "small/llama-8b", `{"model":"llama-8b"}`},
		{"the last of two models counts", listed, openai.ChatCompletions, `{"model":"no","model":"llama"}`, "small/llama-8b", `{"model":"no","model":"llama-8b"}`},
		{"an unlisted model is not found where one pool lists its models", listed, openai.ChatCompletions, `{"model":"gpt-4"}`, `model_not_found: "gpt-4" is none of the 1 models that GET /v1/models lists`, ""},
		{"the only pool takes a request without a model", listed, openai.ChatCompletions, `{}`, "small/", ""},
		{"GET /v1/models is answered from the table", listed, openai.Models, "", "reply", ""},
		{"the second pool's model", two, openai.ChatCompletions, `{"model":"llama-70b"}`, "large/llama-70b", ""},
		{"a name that JSON must escape", two, openai.ChatCompletions, `{"model":"odd"}`, `large/odd"name`, `{"model":"odd\"name"}`},
		{"no model, two pools", two, openai.ChatCompletions, `{}`, "model_required: 3 models are served here", ""},
		{"an empty model is none", two, openai.ChatCompletions, `{"model":""}`, "model_required: 3 models are served here", ""},
		{"no body, two pools", two, openai.Other, "", "model_required: 3 models are served here", ""},
		{"names are compared as they are written", two, openai.ChatCompletions, `{"model":"Llama-70B"}`, `model_not_found: "Llama-70B" is none of the 3 models that GET /v1/models lists`, ""},
		{"a long name is cut between characters", two, openai.ChatCompletions, `{"model":"` + long + `"}`, `model_not_found: "` + long[:127] + `…" is none of the 3 models that GET /v1/models lists`, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			b, err := build(slices.Clone(r.pools)...)
			if err != nil {
				t.Fatal(err)
			}
			var q plugins.Request
			q.Prepare(b, nil)
			q.API, q.Body = r.api, scan(t, r.body)
			v := b.Enter(reason.Discard{}, plugins.AtResolve, 0, &q)
			var got string
			switch {
			case v.Refusal != nil:
				got = v.Refusal.Error()
			case v.Reply != nil:
				got = "reply"
			default:
				got = q.Target.Pool + "/" + q.Target.Model
			}
			if got != r.want {
				t.Fatalf("got %s, want %s", got, r.want)
			}
			if v.Refusal != nil || v.Reply != nil {
				return
			}
			if q.PoolIndex != b.PoolIndex(q.Target.Pool) {
				t.Errorf("pool index %d, want that of %s", q.PoolIndex, q.Target.Pool)
			}
			var out plugins.Outgoing
			b.Plans[q.PoolIndex].Commit(reason.Discard{}, &q, nil, &out)
			sent := r.body
			for _, e := range slices.Backward(out.Edits) {
				sent = sent[:e.Span.Start] + string(e.New) + sent[e.Span.End:]
			}
			if want := r.sent; want == "" && sent != r.body || want != "" && sent != want {
				t.Errorf("the engine gets %s, want %s", sent, r.sent)
			}
		})
	}
}

func TestModelsListsNamesWithoutAliases(t *testing.T) {
	b, err := build(slices.Clone(two)...)
	if err != nil {
		t.Fatal(err)
	}
	var q plugins.Request
	q.Prepare(b, nil)
	q.API, q.Since = openai.Models, 1_790_000_000
	reply := b.Enter(reason.Discard{}, plugins.AtResolve, 0, &q).Reply
	var list struct {
		Data []struct {
			ID      string
			Created int64
		}
	}
	if err := json.Unmarshal(reply.Body, &list); err != nil || reply.Status != 200 {
		t.Fatalf("status %d, %v: %s", reply.Status, err, reply.Body)
	}
	if got := fmt.Sprint(list.Data); got != `[{llama-8b 1790000000} {llama-70b 1790000000} {odd"name 1790000000}]` {
		t.Errorf("lists %s", got)
	}
}

func TestAnEditStandsAmongOthersInOrder(t *testing.T) {
	b, err := build(slices.Clone(listed)...)
	if err != nil {
		t.Fatal(err)
	}
	var q plugins.Request
	q.Prepare(b, nil)
	q.Body = scan(t, `{"a":1,"model":"llama","b":2}`)
	if v := b.Enter(reason.Discard{}, plugins.AtResolve, 0, &q); !v.Passes() {
		t.Fatal(v.Refusal)
	}
	out := plugins.Outgoing{Edits: []openai.Edit{{Span: openai.Span{Start: 5, End: 6}}, {Span: openai.Span{Start: 27, End: 28}}}}
	b.Plans[0].Commit(reason.Discard{}, &q, nil, &out)
	var starts []int64
	for _, e := range out.Edits {
		starts = append(starts, e.Span.Start)
	}
	if !slices.Equal(starts, []int64{5, 15, 27}) {
		t.Errorf("edits start at %v, want 5, 15, 27", starts)
	}
}

func TestProvisionRefuses(t *testing.T) {
	for _, r := range []struct {
		name  string
		pools []plugins.PoolSpec
		want  string
	}{
		{"two pools of which one lists nothing", append(slices.Clone(listed), plugins.PoolSpec{Name: "rest"}), `pool "rest" lists no models; with 2 pools each must`},
		{"one name in two pools", append(slices.Clone(listed), plugins.PoolSpec{Name: "b", Models: []plugins.Model{{Name: "x", Aliases: []string{"llama"}}}}),
			`model name "llama" stands for "llama-8b" of pool "small" and for "x" of pool "b"; a name leads to one model`},
		{"an alias that is its model's name", []plugins.PoolSpec{{Name: "a", Models: []plugins.Model{{Name: "m", Aliases: []string{"m"}}}}}, `model name "m" stands for "m" of pool "a" and for "m" of pool "a"`},
		{"an empty name", []plugins.PoolSpec{{Name: "a", Models: []plugins.Model{{Name: ""}}}}, `pool "a" has a model with an empty name or alias`},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := build(r.pools...)
			if err == nil || !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}

func TestReads(t *testing.T) {
	for _, r := range []struct {
		name  string
		pools []plugins.PoolSpec
		want  plugins.Reads
	}{
		{"one pool that takes any model needs no body", single, plugins.ReadsHeaders},
		{"a table needs the model", listed, plugins.ReadsModel},
		{"several pools need the model", two, plugins.ReadsModel},
	} {
		t.Run(r.name, func(t *testing.T) {
			b, err := build(slices.Clone(r.pools)...)
			if err != nil {
				t.Fatal(err)
			}
			if b.Reads != r.want {
				t.Errorf("got %d, want %d", b.Reads, r.want)
			}
		})
	}
}
