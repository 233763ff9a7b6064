package event_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
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

// The vector that Standard Webhooks publishes.
const (
	standardSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	standardAt        = 1614265330
	standardBody      = `{"test": 2432232314}`
	standardSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func standardHeader() http.Header {
	h := http.Header{}
	h.Set("webhook-id", standardID)
	h.Set("webhook-timestamp", strconv.Itoa(standardAt))
	h.Set("webhook-signature", standardSignature)
	return h
}

func TestVerifyStandard(t *testing.T) {
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) { h[http.CanonicalHeaderKey(name)] = values }
	}
	dotted := event.SignStandard("msg.1", time.Unix(standardAt, 0), []byte(standardBody), []byte("raw"))
	for _, test := range []struct {
		name    string
		change  func(http.Header)
		body    string
		secrets []string
		away    time.Duration
		want    error
	}{
		{name: "as published"},
		{name: "the second of two secrets", secrets: []string{"new", standardSecret}},
		{name: "the first of two secrets", secrets: []string{standardSecret, "new"}},
		{name: "padded", secrets: []string{standardSecret + "=="}},
		{name: "among others", change: set("webhook-signature", "v1a,AAAA v1,"+strings.Repeat("A", 43)+"=  "+standardSignature+" v2,x")},
		{name: "on the edge", away: 5 * time.Minute},
		{name: "before its time", away: -5 * time.Minute},
		{name: "stale", away: 5*time.Minute + 1, want: event.ErrStale},
		{name: "far ahead", away: -5*time.Minute - 1, want: event.ErrStale},
		{name: "wrong and stale", body: "{}", away: time.Hour, want: event.ErrSignature},
		{name: "another body", body: standardBody + " ", want: event.ErrSignature},
		{name: "another secret", secrets: []string{"whsec_AAAA"}, want: event.ErrSignature},
		{name: "the secret without its prefix", secrets: []string{strings.TrimPrefix(standardSecret, "whsec_")}, want: event.ErrSignature},
		{name: "no base64", secrets: []string{standardSecret + "!"}, want: event.ErrSignature},
		{name: "another id", change: set("webhook-id", "msg_2"), want: event.ErrSignature},
		{name: "another time", change: set("webhook-timestamp", strconv.Itoa(standardAt+1)), want: event.ErrSignature},
		{name: "no time", change: set("webhook-timestamp"), want: event.ErrSignature},
		{name: "a time in words", change: set("webhook-timestamp", "now"), want: event.ErrSignature},
		{name: "no id", change: set("webhook-id"), want: event.ErrSignature},
		{name: "an id with a full stop", change: func(h http.Header) {
			set("webhook-id", "msg.1")(h)
			set("webhook-signature", dotted)(h)
		}, secrets: []string{"raw"}, want: event.ErrSignature},
		{name: "no signature", change: set("webhook-signature"), want: event.ErrSignature},
		{name: "two signatures", change: set("webhook-signature", standardSignature, standardSignature), want: event.ErrSignature},
		{name: "two ids", change: set("webhook-id", standardID, standardID), want: event.ErrSignature},
		{name: "two times", change: set("webhook-timestamp", strconv.Itoa(standardAt), strconv.Itoa(standardAt)), want: event.ErrSignature},
		{name: "no version", change: set("webhook-signature", standardSignature[3:]), want: event.ErrSignature},
		{name: "another version", change: set("webhook-signature", "v2"+standardSignature[2:]), want: event.ErrSignature},
		{name: "cut", change: set("webhook-signature", "v1,g0hM9SsE"), want: event.ErrSignature},
	} {
		h, body := standardHeader(), standardBody
		if test.change != nil {
			test.change(h)
		}
		if test.body != "" {
			body = test.body
		}
		if test.secrets == nil {
			test.secrets = []string{standardSecret}
		}
		err := event.VerifyStandard(h, []byte(body), keys(test.secrets...), time.Unix(standardAt, 0).Add(test.away), 5*time.Minute)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// Anybody can sign with an empty key.
func TestEmptySecret(t *testing.T) {
	h := standardHeader()
	// HMAC-SHA256 of the published message under an empty key.
	h.Set("webhook-signature", "v1,woH/1mJtZGSMCmpFTxRYbStS24eLLD/oXIYr4PYyZ7g=")
	for _, secrets := range [][][]byte{nil, keys(""), keys("whsec_"), keys("whsec_="), keys("", "whsec_")} {
		if err := event.VerifyStandard(h, []byte(standardBody), secrets, time.Unix(standardAt, 0), time.Minute); !errors.Is(err, event.ErrSignature) {
			t.Errorf("%q: %v", secrets, err)
		}
	}
	for _, secret := range []string{"", "whsec_", "whsec_!"} {
		if s := event.SignStandard(standardID, time.Unix(standardAt, 0), []byte(standardBody), []byte(secret)); s != "" {
			t.Errorf("signed with %q: %s", secret, s)
		}
	}
}

func TestSignStandard(t *testing.T) {
	at := time.Unix(standardAt, 999)
	if s := event.SignStandard(standardID, at, []byte(standardBody), []byte(standardSecret)); s != standardSignature {
		t.Errorf("got %s", s)
	}
	h := standardHeader()
	h.Set("webhook-signature", event.SignStandard(standardID, at, []byte("any"), []byte("any secret")))
	if err := event.VerifyStandard(h, []byte("any"), keys("any secret"), at, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestEqualSecret(t *testing.T) {
	for _, test := range []struct {
		given   string
		secrets [][]byte
		equal   bool
	}{
		{"one", keys("one"), true},
		{"two", keys("one", "two"), true},
		{"one", keys("one", "two"), true},
		{"one", keys("one", "one"), true},
		{"on", keys("one"), false},
		{"one ", keys("one"), false},
		{"one", nil, false},
		{"", keys(""), false},
		{"", keys("one", ""), false},
	} {
		if got := event.EqualSecret(test.given, test.secrets); got != test.equal {
			t.Errorf("%q among %q: %t", test.given, test.secrets, got)
		}
	}
}

func FuzzVerifyStandard(f *testing.F) {
	f.Add(standardID, "1614265330", standardSignature, standardBody)
	f.Add("", "-1", "v1,", "")
	f.Add("a.b", "99999999999999999999", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE", "{")
	f.Fuzz(func(t *testing.T, id, at, signature, body string) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {at}, "Webhook-Signature": {signature}}
		err := event.VerifyStandard(h, []byte(body), keys(standardSecret), time.Unix(standardAt, 0), time.Minute)
		if err == nil && (id != standardID || body != standardBody) {
			t.Errorf("taken: %q %q %q", id, at, body)
		}
	})
}

func keys(list ...string) (all [][]byte) {
	for _, one := range list {
		all = append(all, []byte(one))
	}
	return all
}
