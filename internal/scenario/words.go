package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// count reads "name=number"; without a number it is otherwise.
func count(word string, otherwise float64) (string, float64, error) {
	name, text, has := strings.Cut(word, "=")
	if name == "" {
		return "", 0, fmt.Errorf("%q has no name", word)
	}
	if !has {
		return name, otherwise, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%q: %q is no number", word, text)
	}
	return name, n, nil
}

// counts reads a list of such words; of one name the numbers add up.
func counts(words []string, otherwise float64) (map[string]float64, error) {
	out := map[string]float64{}
	for _, word := range words {
		name, n, err := count(word, otherwise)
		if err != nil {
			return nil, err
		}
		out[name] += n
	}
	return out, nil
}

// split parts names from fields.
func split(words []string) (names []string, fields map[string]float64, err error) {
	fields = map[string]float64{}
	for _, word := range words {
		if !strings.Contains(word, "=") {
			names = append(names, word)
			continue
		}
		name, n, err := count(word, 0)
		if err != nil {
			return nil, nil, err
		}
		fields[name] = n
	}
	return names, fields, nil
}

// one reads a single number.
func one[T any](words []string, into *T) error {
	if len(words) != 1 {
		return fmt.Errorf("it takes one number, and got %q", words)
	}
	if err := json.Unmarshal([]byte(words[0]), into); err != nil {
		return fmt.Errorf("%q is no number here", words[0])
	}
	return nil
}

// text writes counts in the order of names, as a script would.
func text(m map[string]float64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		words = append(words, name+"="+strconv.FormatFloat(m[name], 'g', -1, 64))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
