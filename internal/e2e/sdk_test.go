//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// sdkSaw is what a script under testdata prints.
type sdkSaw struct {
	Version                                           string
	Models                                            []string
	Chat, Stream, Completion, UnknownModel, PodFails  string
	ChatUsage, StreamUsage, StreamChunks, LargeChunks int
	Left                                              bool
	Bodies                                            []struct{ Sent, Arrived string }
}

// TestSDKs: the official SDKs for Python and Node say through the gateway what they say to a pod alone, and what they send
// arrives byte for byte.
func TestSDKs(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		for name, command := range map[string][]string{
			"Python": {python, "sdk.py"},
			"Node":   {"node", "sdk.js"},
		} {
			t.Run(name+" "+config, func(t *testing.T) {
				w := newWorld(t, options{envoy: config})
				w.store(events(2000))
				run := func(base string) (saw sdkSaw) {
					t.Helper()
					script, err := filepath.Abs(filepath.Join("testdata", command[1]))
					if err != nil {
						t.Fatal(err)
					}
					cmd := exec.Command(command[0], script, base, modelName, sdks)
					var out, errs bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &errs
					if err := cmd.Run(); err != nil {
						t.Fatalf("%v: %s", err, errs.String())
					}
					if err := json.Unmarshal(out.Bytes(), &saw); err != nil {
						t.Fatal(err)
					}
					return saw
				}
				through := run(w.url)
				w.booksZero(time.Now(), 200*time.Millisecond) // it aborted at its end, and the process itself takes a moment to go
				alone := run("http://" + w.fleet.Addrs()[0].String())
				t.Logf("SDK %s, %d chunks", through.Version, through.StreamChunks)
				for _, b := range through.Bodies {
					bodies.same(t, "a body of the SDK", b.Sent, b.Arrived)
				}
				if len(through.Bodies) < 4 {
					t.Errorf("%d bodies were heard of", len(through.Bodies))
				}
				for what, pair := range map[string][2]string{
					"chat": {alone.Chat, through.Chat}, "stream": {alone.Stream, through.Stream}, "completion": {alone.Completion, through.Completion},
				} {
					bodies.same(t, "the text of a "+what, pair[0], pair[1])
				}
				if through.LargeChunks != alone.LargeChunks || alone.LargeChunks < 10 {
					t.Errorf("%d chunks of an answer to 20 MiB; alone %d", through.LargeChunks, alone.LargeChunks)
				}
				if through.Chat == "" || through.Chat != through.Stream || through.ChatUsage != 24 || through.StreamUsage != 24 {
					t.Errorf("chat %q with %d tokens, stream %q with %d", through.Chat, through.ChatUsage, through.Stream, through.StreamUsage)
				}
				if !slices.Equal(through.Models, []string{modelName}) || through.UnknownModel != "model_not_found" || through.PodFails != "503" || !through.Left {
					t.Errorf("models %v, an unknown model %q, a failing pod %q, left %v", through.Models, through.UnknownModel, through.PodFails, through.Left)
				}
			})
		}
	}
}
