package event_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"sallyport/ingest/event"
)

// The vector that GitHub publishes for its own scheme.
const (
	secret    = "It's a Secret to Everybody"
	body      = "Hello, World!"
	signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

func TestVerifyHex(t *testing.T) {
	for _, test := range []struct {
		name      string
		signature string
		secrets   [][]byte
		body      string
		good      bool
	}{
		{"as published", signature, keys(secret), body, true},
		{"in capitals", "sha256=757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B043E17", keys(secret), body, true},
		{"the second of two secrets", signature, keys("new", secret), body, true},
		{"the first of two secrets", signature, keys(secret, "new"), body, true},
		{"another body", signature, keys(secret), body + " ", false},
		{"another secret", signature, keys("other"), body, false},
		{"no secret", signature, nil, body, false},
		{"no prefix", signature[len("sha256="):], keys(secret), body, false},
		{"cut", signature[:len(signature)-2], keys(secret), body, false},
		{"no hex", "sha256=zz" + signature[9:], keys(secret), body, false},
		{"nothing", "", keys(secret), body, false},
		// HMAC-SHA256 of the body under an empty key.
		{"an empty secret", "sha256=2bbcfa9524f3218c7a34b30e6936f8b1a4516cb097f1a85a1c7d98b5977ec769", keys(""), body, false},
	} {
		err := event.VerifyHex(test.signature, "sha256=", test.secrets, []byte(test.body))
		if (err == nil) != test.good || err != nil && !errors.Is(err, event.ErrSignature) {
			t.Errorf("%s: %v", test.name, err)
		}
		half := len(test.body) / 2
		if again := event.VerifyHex(test.signature, "sha256=", test.secrets, []byte(test.body[:half]), []byte(test.body[half:])); !errors.Is(again, err) {
			t.Errorf("%s in parts: %v, whole %v", test.name, again, err)
		}
	}
}

func TestDuplicateHeader(t *testing.T) {
	h := http.Header{}
	h.Add("X-Signature", "a")
	if v, ok := event.Header(h, "x-signature"); v != "a" || !ok {
		t.Errorf("got %q, %t", v, ok)
	}
	h.Add("X-Signature", "b")
	for _, name := range []string{"X-Signature", "X-Other"} {
		if v, ok := event.Header(h, name); v != "" || ok {
			t.Errorf("%s: got %q, %t", name, v, ok)
		}
	}
}

func TestWithin(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for away, good := range map[time.Duration]bool{
		0: true, time.Minute: true, -time.Minute: true, time.Minute + 1: false, -time.Minute - 1: false,
	} {
		if err := event.CheckTimestamp(now.Add(away), now, time.Minute); (err == nil) != good {
			t.Errorf("%s away: %v", away, err)
		}
	}
}
