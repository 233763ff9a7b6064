package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver"
)

// A source names itself nowhere where its client looks for its name.
func TestQuestionNamesItsSource(t *testing.T) {
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
