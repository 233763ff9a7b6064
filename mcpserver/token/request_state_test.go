package token

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func requestStates(t testing.TB, key []byte) RequestStates {
	t.Helper()
	states, err := NewRequestStates(key)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

func sealState(t testing.TB, key []byte, a *RequestState) string {
	t.Helper()
	text, _ := requestStates(t, key).Seal(a)
	return text
}

func openState(t testing.TB, key []byte, text string, now time.Time) (RequestState, bool) {
	t.Helper()
	return requestStates(t, key).Open(text, now)
}

// A state opens for those who have the key, until its time is over, and not
// when a bit of it is another.
func TestRequestStates(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	want := RequestState{Principal: []byte{1}, Call: []byte{2}, Invocation: "i", Round: "r", Keys: []string{"a/b", ""}, Until: now.Unix() + 10}
	text := sealState(t, testKey(), &want)
	got, ok := openState(t, testKey(), text, now)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("opened %v (-want +got):\n%s", ok, diff)
	}
	if again := sealState(t, testKey(), &want); again == text {
		t.Error("a state is sealed twice in the same way")
	}
	if strings.Contains(text, "invocation") {
		t.Error("a state can be read:", text)
	}
	for name, test := range map[string]struct {
		key  []byte
		text string
		now  time.Time
	}{
		"too late":    {testKey(), text, now.Add(10 * time.Second)},
		"another key": {bytes.Repeat([]byte("x"), 32), text, now},
		"empty":       {testKey(), "", now},
		"cut":         {testKey(), text[:len(text)-4], now},
		"longer":      {testKey(), text + "AAAA", now},
		"broken":      {testKey(), text + "\n", now},
		"endless":     {testKey(), strings.Repeat("A", 1<<20), now},
	} {
		if _, ok := openState(t, test.key, test.text, test.now); ok {
			t.Error(name, "opens")
		}
	}
	for i := range text {
		for _, c := range []byte{'A', 'B'} {
			if other := []byte(text); other[i] != c {
				other[i] = c
				if _, ok := openState(t, testKey(), string(other), now); ok {
					t.Error("a changed state opens at", i)
				}
			}
		}
	}
}

// Two ways to write the same call are one, and nothing else is.
func TestCallDigest(t *testing.T) {
	same := func(a, b string) bool {
		x, y := strings.Split(a, "|"), strings.Split(b, "|")
		return bytes.Equal(CallDigest(x[0], x[1], []byte(x[2])), CallDigest(y[0], y[1], []byte(y[2])))
	}
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{`m|n|{"a":1,"b":[2]}`, `m|n|{ "b" : [2], "\u0061":1}`, true},
		{`m|n|{"a":1}`, `m|n|{"a":1.0}`, false},
		{`m|n|{}`, `m|o|{}`, false},
		{`m|n|{}`, `mn||{}`, false},
		{`m|n|{"a":1,"a":2}`, `m|n|{"a":1,"a":3}`, false}, // which nothing accepts
	} {
		if got := same(test.a, test.b); got != test.same {
			t.Errorf("%s and %s: %v", test.a, test.b, got)
		}
	}
}

// Whatever a client hands back, nothing opens that was not sealed.
func FuzzRequestState(f *testing.F) {
	now := time.Unix(1_000_000, 0)
	sealed := sealState(f, testKey(), &RequestState{Round: "r", Until: now.Unix() + 10})
	f.Add(sealed)
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := openState(t, testKey(), text, now); ok && a.Round != "r" {
			t.Fatalf("%q opens: %+v", text, a)
		}
	})
}
