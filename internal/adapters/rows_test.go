package adapters

import (
	"slices"
	"strings"
)

// The configurations of rows.
const (
	// defaultProfile is what applies where nobody configures, with stages that do what a request's headers ask of them.
	defaultProfile = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: max-score-picker
- type: headers-gate
- type: resolve-gate
- type: describe-gate
- type: admit-gate
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
`

	// faultyProfile has plugins that fail at request, beside some that change headers.
	faultyProfile = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: faulty-describer
- type: faulty-filter
- type: faulty-scorer
- type: faulty-picker
- type: faulty-hook
- type: header-hook
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: faulty-filter
  - pluginRef: faulty-scorer
  - pluginRef: faulty-picker
`

	// inOrder picks the members in their order, so that a row knows its primary and its fallbacks.
	inOrder = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: faulty-picker
- type: admit-gate
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: faulty-picker
`

	// sticky keeps sessions where they were, by a token in the answer.
	sticky = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: header-profile-handler
- type: session-affinity-filter
- type: destination-endpoint-served-verifier
- type: random-picker
schedulingProfiles:
- name: decode
  plugins: [{pluginRef: session-affinity-filter}, {pluginRef: random-picker}]
- name: any
  plugins: [{pluginRef: random-picker}]
`

	// oneTable is one pool with a table of models, whose decision needs the whole body.
	oneTable = inOrder + `pools:
- name: default
  models:
  - {name: meta-llama/Llama-3.1-8B-Instruct, aliases: [llama, ` + longAlias + `, "käse \"q\""]}
`

	// quick decides as soon as the model is known.
	quick = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: faulty-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: faulty-picker
pools:
- name: default
  models:
  - {name: m-base, aliases: [m]}
`

	// twoPools are chat and embeddings.
	twoPools = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: prefix-cache-scorer
- type: random-picker
- type: max-score-picker
schedulingProfiles:
- name: chat
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
- name: embeddings
  plugins:
  - {pluginRef: random-picker}
pools:
- name: llama
  models:
  - {name: m-base, aliases: [llama, chat]}
  profiles: [chat]
- name: embed
  models:
  - {name: BAAI/bge-m3, aliases: [embed]}
  profiles: [embeddings]
`

	// labelled keeps the endpoints whose label is LETTER.
	labelled = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: label-selector-filter
  parameters: {matchLabels: {letter: LETTER}}
- type: random-picker
- type: admit-gate
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: label-selector-filter
  - pluginRef: random-picker
`
)

const (
	chat      = "/v1/chat/completions"
	hello     = `{"model":"m-base","messages":[{"role":"user","content":"hello there"}]}`
	longAlias = `a-name-that-is-longer-than-the-one-of-the-model`
)

// watched is the default profile with a hook that wants to see something of answers.
func watched(hook string) string {
	return strings.Replace(defaultProfile, "- type: headers-gate\n", "- type: headers-gate\n- type: "+hook+"\n", 1)
}

// prompt is a chat completion whose message has n bytes.
func prompt(n int) string {
	return `{"model":"m-base","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", n/12+1)[:n] + `"}]}`
}

// rows are all rows.
func rows() []row {
	return slices.Concat(bodyRows(), answerRows(), refusalRows(), routeRows(), headerRows(), failureRows(), waitRows())
}
