package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver"
)

// A state opens for those who have the key, until its time is over, and not
// when a bit of it is another.
func TestStates(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	want := mcpserver.Asked{Principal: []byte{1}, Call: []byte{2}, Invocation: "i", Round: "r", Keys: []string{"a/b", ""}, Until: now.Unix() + 10}
	text := mcpserver.SealState(clusterKey, &want)
	got, ok := mcpserver.OpenState(clusterKey, text, now)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("opened %v (-want +got):\n%s", ok, diff)
	}
	if again := mcpserver.SealState(clusterKey, &want); again == text {
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
		"too late":    {clusterKey, text, now.Add(10 * time.Second)},
		"another key": {bytes.Repeat([]byte("x"), 32), text, now},
		"empty":       {clusterKey, "", now},
		"cut":         {clusterKey, text[:len(text)-4], now},
		"longer":      {clusterKey, text + "AAAA", now},
		"broken":      {clusterKey, text + "\n", now},
		"endless":     {clusterKey, strings.Repeat("A", 1<<20), now},
	} {
		if _, ok := mcpserver.OpenState(test.key, test.text, test.now); ok {
			t.Error(name, "opens")
		}
	}
	for i := range text {
		for _, c := range []byte{'A', 'B'} {
			if other := []byte(text); other[i] != c {
				other[i] = c
				if _, ok := mcpserver.OpenState(clusterKey, string(other), now); ok {
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
		return bytes.Equal(mcpserver.CallDigest(x[0], x[1], []byte(x[2])), mcpserver.CallDigest(y[0], y[1], []byte(y[2])))
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

// A source names itself nowhere where its client looks for its name.
func TestQuestionSaysWhose(t *testing.T) {
	for _, test := range []struct{ method, params, want string }{
		{"roots/list", ``, `"method":"roots/list","params":{"_meta":{"sallyport/source":"De\"mo"}}`},
		{"roots/list", `{}`, `"method":"roots/list","params":{"_meta":{"sallyport/source":"De\"mo"}}`},
		{
			"elicitation/create", `{"message":"a","_meta":{"sallyport\u002fsource":"Bank","x":1.0},"message":"\u0062","url":"u"}`,
			`"method":"elicitation/create","params":{"message":"De\"mo asks: a","message":"De\"mo asks: b","url":"u","_meta":{"x":1.0,"sallyport/source":"De\"mo"}}`,
		},
		{"elicitation/create", `{"message":7}`, `"method":"elicitation/create","params":{"message":7,"_meta":{"sallyport/source":"De\"mo"}}`},
		{"sampling/createMessage", `{"message":"a","_meta":null}`, `"method":"sampling/createMessage","params":{"message":"a","_meta":{"sallyport/source":"De\"mo"}}`},
	} {
		if diff := cmp.Diff(test.want, string(mcpserver.Question(`De"mo`, &action.Question{Method: test.method, Params: json.RawMessage(test.params)}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.params, diff)
		}
	}
}

// Whatever a client hands back, nothing opens that was not sealed.
func FuzzState(f *testing.F) {
	now := time.Unix(1_000_000, 0)
	sealed := mcpserver.SealState(clusterKey, &mcpserver.Asked{Round: "r", Until: now.Unix() + 10})
	f.Add(sealed)
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := mcpserver.OpenState(clusterKey, text, now); ok && a.Round != "r" {
			t.Fatalf("%q opens: %+v", text, a)
		}
	})
}

// An id that we gave finds its question again; any other is none of ours.
func FuzzQuestionID(f *testing.F) {
	const round = "01920000-0000-7000-8000-000000000001"
	f.Add(round, "key", `"sallyport/a/b/c"`)
	f.Add(round, "", `"sallyport//"`)
	f.Add(round, "a/b\x00ü", `7`)
	f.Add("r", "a", `"sallyport/`+round+`"`)
	f.Fuzz(func(t *testing.T, round, key, raw string) {
		if json.Valid([]byte(raw)) && len(raw) > 0 && (raw[0] == '"' || raw[0] >= '0' && raw[0] <= '9') {
			mcpserver.ParseQuestionID([]byte(raw))
		}
		if strings.Contains(round, "/") || strings.ToValidUTF8(round+key, "") != round+key {
			return
		}
		id := jsonlex.Quote(nil, mcpserver.QuestionID(round, key))
		gotRound, gotKey, ok := mcpserver.ParseQuestionID(id)
		if want := len(round) == 36 && uuid.Validate(round) == nil; ok != want || ok && (gotRound != round || gotKey != key) {
			t.Fatalf("%q %q came back as %q %q %v", round, key, gotRound, gotKey, ok)
		}
	})
}
