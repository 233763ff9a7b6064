package sources_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sallyport/sources"
)

func TestReadDelivery(t *testing.T) {
	for body, good := range map[string]bool{
		`{"id":"a","more":[1]}`: true,
		`{"id":"a"} {}`:         false,
		`{"id":7}`:              false,
		``:                      false,
		`{"id":"a","more":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`: false,
	} {
		var v struct{ ID string }
		if err := sources.ReadDelivery([]byte(body), &v); (err == nil) != good || good && v.ID != "a" {
			t.Errorf("%.40s: %v, %q", body, err, v.ID)
		}
	}
}

func TestEventContext(t *testing.T) {
	if got := string(sources.EventContext(map[string]any{"a": "<b> & \xff"})); got != `{"a":"<b> & \ufffd"}` {
		t.Errorf("got %s", got)
	}
	if got := string(sources.EventContext(map[string]any{"a": json.RawMessage("\"\xff\"")})); got != "{\"a\":\"\ufffd\"}" {
		t.Errorf("got %s", got)
	}
	long := sources.EventContext(map[string]any{"id": "7", "body": strings.Repeat("é", 64<<10)})
	var v struct {
		ID        string
		Truncated bool `json:"_truncated"`
	}
	if err := json.Unmarshal(long, &v); err != nil || len(long) > 64<<10 || v.ID != "7" || !v.Truncated {
		t.Errorf("%d bytes, %+v, %v", len(long), v, err)
	}
	if got := string(sources.EventContext(map[string]any{"a": func() {}})); got != `{"_truncated":true}` {
		t.Errorf("got %s", got)
	}
}

func TestPasses(t *testing.T) {
	for _, tt := range []struct {
		filter, values []string
		want           bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, true},
		{[]string{"A", "b"}, []string{"", "B"}, true},
		{[]string{"a"}, []string{"ab"}, false},
		{[]string{"a"}, nil, false},
		{[]string{""}, []string{""}, false},
	} {
		if got := sources.MatchesFilter(tt.filter, tt.values...); got != tt.want {
			t.Errorf("%q of %q: %v", tt.filter, tt.values, got)
		}
	}
}

func TestPlainID(t *testing.T) {
	for id, plain := range map[string]bool{
		"Ev0PV52K21": true, "234d1a4e-b617-4388-90fe-adc3633d6b72": true, "a_b.c:D": true,
		"a b": false, "a\x00": false, "é": false, "a/b": false, strings.Repeat("a", 101): false,
	} {
		if got := sources.ValidID(id); (got == id) != plain || !plain && got != "" {
			t.Errorf("%q: got %q", id, got)
		}
	}
}

func TestEventTime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-07-23T20:12:30.5+02:00": time.Date(2026, 7, 23, 18, 12, 30, 5e8, time.UTC),
		"0001-01-01T00:00:00+01:00":   {}, // the year before the first
		"9999-12-31T23:59:59-01:00":   {},
		"2026-07-23":                  {},
		"":                            {},
	} {
		if got := sources.EventTime(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestWebURL(t *testing.T) {
	for text, good := range map[string]bool{
		"https://example.com/a?b#c": true, "http://localhost:8000/": true,
		"": false, "javascript:alert(1)": false, "https://user:pass@example.com/": false, "/relative": false, "https:opaque": false,
		"%zz": false, "https://example.com/" + strings.Repeat("x", 2000): false,
	} {
		if got := sources.WebURL(text); (got == text) != good && text != "" || !good && got != "" {
			t.Errorf("%.40q: got %q", text, got)
		}
	}
}
