package action_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sallyport/action"
)

// TestNeeds reads questions by exact names only, and none that another reader
// may take for something else.
func TestNeeds(t *testing.T) {
	const elicit, sample, roots = "elicitation/create", "sampling/createMessage", "roots/list"
	type want struct {
		kind action.AskKind
		f    action.ClientFeatures
	}
	form, link := want{action.AskElicitation, action.ClientElicitsForm}, want{action.AskURL, action.ClientElicitsURL}
	samples := want{action.AskSampling, action.ClientSamples}
	for _, test := range []struct {
		method, params string
		want           want // zero: nobody is asked
	}{
		{elicit, `{"message":"m","requestedSchema":{"type":"object","properties":{"URL":{},"url":{},"Mode":{}}}}`, form},
		{elicit, `{"mode":"form"}`, form},
		{elicit, ` { "tools":1, "includeContext":7, "mode" : "url" } `, link},
		{elicit, `{"mo\u0064e":"url"}`, link},
		{elicit, `{"mode":"url","_meta":{"Mode":"form"}}`, link},
		{elicit, `{"mode":"url","Mode":"form"}`, want{}},
		{elicit, `{"Mode":"form","mode":"url"}`, want{}},
		{elicit, `{"mode":"url","MODE":null}`, want{}},
		{elicit, `{"mode":"form","mode":"url"}`, want{}},
		{elicit, `{"Mode":"url"}`, want{}},
		{elicit, `{"mode":"url","url":"https://a","URL":"https://b"}`, want{}},
		{elicit, `{"message":"a","Message":"b"}`, want{}},
		{elicit, `{"message":"a","me\u017f\u017fage":"b"}`, want{}},
		{elicit, `{"requestedSchema":{},"requestedschema":{}}`, want{}},
		{elicit, `{"mode":"URL"}`, want{}},
		{elicit, `{"mode":["url"]}`, want{}},
		{elicit, `{"mode":null}`, want{}},
		{elicit, `[]`, want{}},
		{elicit, `{"mode":"form"`, want{}},
		{elicit, ``, form},
		{sample, `{"maxTokens":1}`, samples},
		{sample, `{"tools":[]}`, samples},
		{sample, `{"tools":[{}]}`, want{action.AskSampling, action.ClientSamples | action.ClientSamplesTools}},
		{sample, `{"tools":{"a":1}}`, want{action.AskSampling, action.ClientSamples | action.ClientSamplesTools}},
		{sample, `{"tools":[],"Tools":[{}]}`, want{}},
		{sample, `{"includeContext":"none","IncludeContext":"allServers"}`, want{}},
		{roots, ``, want{action.AskRoots, action.ClientListsRoots}},
		{roots, `{}`, want{action.AskRoots, action.ClientListsRoots}},
		{"Roots/list", `{}`, want{}},
	} {
		q := action.Question{Method: test.method, Params: json.RawMessage(test.params)}
		kind, f, ok := q.Needs()
		if got := (want{kind, f}); got != test.want || ok != (test.want != want{}) {
			t.Errorf("%s %s: needs %v, %t; want %v", test.method, test.params, got, ok, test.want)
		}
	}
}

func TestSpanNamesAWindow(t *testing.T) {
	for seconds, want := range map[int]string{
		1: "1 second", 45: "45 seconds", 60: "a minute", 90: "90 seconds", 300: "5 minutes", 3600: "an hour", 7200: "2 hours", 86400: "a day",
	} {
		if got := (action.Rate{Seconds: seconds}).Span(); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
}

// Every constant of a kind of policy event is among the kinds.
func TestEventKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "decision.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Error(err)
			}
			want = append(want, text)
		}
		return true
	})
	if got := action.EventKinds(); len(want) == 0 || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the kinds are %v, the constants %v", got, want)
	}
}

// TestErrorWithCause joins the message and the cause, as log lines show them.
func TestErrorWithCause(t *testing.T) {
	err := &action.Error{Code: "upstream_unreachable", Message: "The connection failed. Check the URL.", Err: errors.New("connection refused")}
	if got, want := err.Error(), "upstream_unreachable: The connection failed. Check the URL: connection refused"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
