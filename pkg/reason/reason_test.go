package reason

import (
	"regexp"
	"testing"
)

func TestEveryRowIsWhole(t *testing.T) {
	code := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]ID{}
	for _, id := range All() {
		r := id.Row()
		if !code.MatchString(r.Code) {
			t.Errorf("row %d: code %q is no snake_case", id, r.Code)
		}
		if other, ok := seen[r.Code]; ok {
			t.Errorf("rows %d and %d have the code %q", other, id, r.Code)
		}
		seen[r.Code] = id
		if r.Means == "" || r.Remedy == "" {
			t.Errorf("%s: meaning or remedy is missing", r.Code)
		}
		if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
			t.Errorf("%s: status %d is no error", r.Code, r.Status)
		}
		if r.Status == 429 && r.RetryAfter == 0 {
			t.Errorf("%s: 429 without Retry-After", r.Code)
		}
		if r.RetryAfter != 0 && r.Status != 429 && r.Status != 503 {
			t.Errorf("%s: Retry-After with status %d", r.Code, r.Status)
		}
		if r.Dropped != "" && r.Status != 429 && r.Status != 503 {
			t.Errorf("%s: a dropped reason with status %d", r.Code, r.Status)
		}
		if got, ok := Parse(r.Code); !ok || got != id {
			t.Errorf("Parse(%q) = %d, %v; want %d", r.Code, got, ok, id)
		}
	}
}

func TestAnIDOutsideTheTableIsInternal(t *testing.T) {
	if got := ID(len(table)).Row(); got != table[Internal] {
		t.Errorf("got %+v", got)
	}
	if _, ok := Parse("no_such_code"); ok {
		t.Error("an unknown code is parsed")
	}
}

func TestARefusalNamesItsReasonAndDetail(t *testing.T) {
	if got := Refuse(BodyTooLarge, "%d bytes; at most %d", 7, 5).Error(); got != "body_too_large: 7 bytes; at most 5" {
		t.Errorf("got %q", got)
	}
	if got := (&Refusal{ID: ShuttingDown}).Error(); got != "shutting_down" {
		t.Errorf("got %q", got)
	}
}
