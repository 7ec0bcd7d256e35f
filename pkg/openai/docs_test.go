package openai

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The table in docs/requests.md has every kind once, with paths that are of that kind and the shape of its errors.
func TestTheTableOfKindsIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Kinds")
	table, _, _ = strings.Cut(table, "\nEach of several")
	paths := regexp.MustCompile("`([^`]+)`")
	shapes := map[string]dialect{"OpenAI": openaiDialect, "Anthropic": anthropicDialect, "gRPC": grpcDialect}
	found := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 9 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if found[name] {
			t.Errorf("%s stands twice", name)
		}
		found[name] = true
		method := "POST"
		for _, word := range regexp.MustCompile("GET|POST|`[^`]+`").FindAllString(cells[2], -1) {
			if !strings.HasPrefix(word, "`") {
				method = word
				continue
			}
			path := strings.ReplaceAll(paths.FindStringSubmatch(word)[1], "…", "/team/a")
			api := ClassifyPath(method, path)
			if api.String() != name {
				t.Errorf("%s %s is %v, not %s", method, path, api, name)
			}
			shape, ok := shapes[strings.TrimSpace(cells[7])]
			if !ok || kinds[api].errors != shape {
				t.Errorf("the errors of %s are not those of %s", name, cells[7])
			}
			body := strings.TrimSpace(cells[3])
			want := map[form]string{anyForm: "JSON if it says so", jsonForm: "JSON", uploadForm: "multipart/form-data", vllmForm: "a gRPC message", httpBodyForm: "a gRPC message with JSON inside, or JSON", noForm: "none"}[kinds[api].form]
			if body != want && !(api == Images && body == "JSON or multipart/form-data") {
				t.Errorf("the body of %s is %s, not %s", name, want, body)
			}
		}
	}
	for _, a := range APIs() {
		if !found[a.String()] {
			t.Errorf("%v is missing", a)
		}
	}
}
