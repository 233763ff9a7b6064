package sources_test

import (
	"encoding/json"
	"errors"
	"testing"

	"sallyport/action"
	"sallyport/sources"
)

func TestInteger(t *testing.T) {
	for text, want := range map[string]sources.Integer{"12": 12, "12.0": 12, "1.2e1": 12, "-3": -3, "0": 0} {
		var n sources.Integer
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != want {
			t.Errorf("%s is %s, %v", text, n, err)
		}
	}
	for _, text := range []string{"1.5", "1e30", `"1"`, "true"} {
		var n sources.Integer
		if err := json.Unmarshal([]byte(text), &n); err == nil {
			t.Errorf("%s is taken for %s", text, n)
		}
	}
}

func TestNothingDone(t *testing.T) {
	unknown := action.Errorf(action.ErrOutcomeUnknown, "upstream_timeout", "It did not answer.")
	err := sources.AsNotExecuted(unknown)
	if !errors.Is(err, action.ErrUnavailable) || errors.Is(err, action.ErrOutcomeUnknown) || action.Public(err).Code != "upstream_timeout" {
		t.Errorf("got %v", err)
	}
	refusal := &sources.Refusal{Code: "no"}
	for _, as := range []error{nil, refusal, action.Errorf(action.ErrUnavailable, "a", "b")} {
		if got := sources.AsNotExecuted(as); !errors.Is(got, as) {
			t.Errorf("%v became %v", as, got)
		}
	}
}

func TestEncode(t *testing.T) {
	raw, err := sources.Encode(map[string]string{"a": "<b> & c"})
	if err != nil || string(raw) != `{"a":"<b> & c"}` {
		t.Errorf("got %s, %v", raw, err)
	}
}
