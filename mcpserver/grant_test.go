package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/mcpserver"
	"sallyport/mcpserver/wire"
)

// asks has a session of token-a ask for grants; it returns what the agent is
// told.
func asks(t *testing.T, g *gate) func(arguments string) string {
	t.Helper()
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) { c.RequestGrant = g.RequestGrant })
	end(t, s)
	id := begin(t, s, "token-a")
	return func(arguments string) string {
		t.Helper()
		return serve(s, rpc("token-a", id, callBody(1, "grant_request", `,"arguments":`+arguments))).Body.String()
	}
}

// What a person is asked to read is bounded, and said in the words of the
// tool.
func TestGrantArguments(t *testing.T) {
	g := newGate(write(), read())
	ask := asks(t, g)
	pins := func(n int, value string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"/p%d":%s`, i, value)
		}
		return `{"tool":"write","pins":{` + strings.Join(list, ",") + `}}`
	}
	reason := func(n int) string { return `{"tool":"write","reason":"` + strings.Repeat("é", n) + `"}` }
	for i, test := range []struct{ arguments, says string }{
		{reason(2000), ""},
		{reason(2001), "at /reason: It must have at most 2000 characters."},
		{`{"tool":"write","reason":"\ud800"}`, ""}, // becomes a replacement character
		{pins(20, "1"), ""},
		{pins(21, "1"), "at /pins: There are 21 pins; at most 20 are allowed"},
		{pins(1, `"`+strings.Repeat("x", 8<<10)+`"`), "at /pins: The pins have 8202 bytes"},
		{`{"tool":"write","max_calls":1000000,"expires_in_seconds":60}`, ""},
		{`{"tool":"write","max_calls":1000001}`, "at /max_calls"},
		{`{"tool":"write","max_calls":"5"}`, "at /max_calls"},
		{`{"tool":"write","expires_in_seconds":59}`, "at /expires_in_seconds"},
		{`{"tool":"write","expires_in_seconds":2592001}`, "at /expires_in_seconds"},
		{`{"tool":"write","scope":null,"max_calls":null,"expires_in_seconds":null,"pins":null,"reason":null,"any":null}`, ""},
		{`{"tool":"write","a/b~":1}`, "at /a~1b~0: Unknown argument."},
		{`{"tool":"` + strings.Repeat("x", 5000) + `"}`, "at /tool: Unknown tool"},
		{`{"any":true,"source":"` + strings.Repeat("x", 5000) + `"}`, "at /source: You have no tools"},
	} {
		before := len(g.wishes())
		text := ask(test.arguments)
		if test.says == "" {
			if !strings.Contains(text, `"request_id"`) || len(g.wishes()) != before+1 {
				t.Errorf("%d is refused: %s", i, text)
			}
			g.requests = nil
			continue
		}
		if !strings.Contains(text, "Invalid params "+test.says) || len(g.wishes()) != before || len(text) > 1000 {
			t.Errorf("%d: %s", i, text)
		}
	}
}

// Who takes wishes speaks of terms, and the agent of arguments.
func TestGrantErrors(t *testing.T) {
	g := newGate(write())
	ask := asks(t, g)
	invalid := func(field string) error {
		return &action.Error{Kind: action.ErrInvalid, Code: "invalid_grant", Field: field, Message: "Not so."}
	}
	for _, test := range []struct {
		err  error
		says string
	}{
		{invalid("/action"), "Invalid params at /tool: Not so."},
		{invalid("/source_id"), "Invalid params at /source: Not so."},
		{invalid("/expires_at"), "Invalid params at /expires_in_seconds: Not so."},
		{invalid("/pins"), "Invalid params at /pins: Not so."},
		{action.Errorf(action.ErrNotFound, "action_not_found", "Demo has no action write."), "The tool no longer exists"},
		{action.Errorf(action.ErrTooMany, "too_many_requests", "10 wait."), "10 wait."},
		{action.Errorf(action.ErrUnavailable, "database_unavailable", "Try again in a few seconds."), "Try again in a few seconds."},
		{errors.New("secret-detail"), "-32603"},
	} {
		g.grantErr = test.err
		text := ask(`{"tool":"write"}`)
		if !strings.Contains(text, test.says) || strings.Contains(text, "secret-detail") || strings.Contains(text, "request_id") {
			t.Errorf("%v: %s", test.err, text)
		}
	}
	g.grantErr, g.listErr = nil, action.Errorf(action.ErrUnavailable, "unavailable", "The database is away.")
	if text := ask(`{"tool":"write"}`); !strings.Contains(text, "The database is away.") || len(g.wishes()) != 0 {
		t.Error("without a list:", text)
	}
}

// A service is named by its id or, where that is plain, by what people call it.
func TestGrantSource(t *testing.T) {
	tool := func(name, source, called string) *served {
		return &served{Action: action.Action{Tool: name, Source: source, SourceName: called}, mode: action.ModeRequireApproval}
	}
	g := newGate(tool("a", "connector:1", "Tickets"), tool("b", "connector:2", "Tickets"), tool("c", "linear", "Linear"), tool("d", "connector:3", "linear"))
	g.actions["d"].hidden = true
	ask := asks(t, g)
	for source, want := range map[string]string{
		"connector:1": `"source_id":"connector:1"`, "connector:2": `"source_id":"connector:2"`, "Linear": `"source_id":"linear"`, "linear": `"source_id":"linear"`,
		"Tickets": "Several services", "connector:3": "You have no tools", "*": "You have no tools",
	} {
		if text := ask(fmt.Sprintf(`{"any":true,"source":%q}`, source)); !strings.Contains(text, want) {
			t.Errorf("%s: %s", source, text)
		}
	}
}

// A gateway that stops writes nothing down, and says so.
func TestGrantRequestWhileDraining(t *testing.T) {
	g := newGate(write())
	s := newServer(t, g, &hints{}, func(c *mcpserver.Config) { c.RequestGrant = g.RequestGrant })
	id := begin(t, s, "token-a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Drain(ctx)
	text := serve(s, rpc("token-a", id, callBody(1, "grant_request", `,"arguments":{"tool":"write"}`))).Body.String()
	if !strings.Contains(text, "nothing was executed") || len(g.wishes()) != 0 {
		t.Error(text)
	}
}

// Without somebody who takes wishes there is no tool for them.
func TestNoGrants(t *testing.T) {
	s := newServer(t, newGate(write()), &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-a")
	if text := serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).Body.String(); strings.Contains(text, "grant_request") {
		t.Error(text)
	}
	if text := serve(s, rpc("token-a", id, callBody(1, "grant_request", `,"arguments":{"tool":"write"}`))).Body.String(); !strings.Contains(text, "Unknown tool") {
		t.Error(text)
	}
	if text := serve(s, rpc("token-a", "", initializeBody)).Body.String(); strings.Contains(text, "grant_request") || strings.Contains(text, "sallyport://capabilities") {
		t.Error(text)
	}
}

// FuzzGrantRequest: whatever an agent asks for names one thing, and is bounded.
func FuzzGrantRequest(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"tool":"write"}`, `{"any":true,"source":"x","scope":"organization"}`, `{"tool":"w","pins":{"/a":[1,{"b":2}]},"max_calls":3}`,
		`{"tool":"w","expires_in_seconds":9e9,"reason":"\u0000"}`, `{"any":1}`, `{"tool":null,"any":null}`, `{"tool":"w","pins":{"/a":1,"/\u0061":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !wire.Valid(raw) || !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
			return
		}
		w, err := mcpserver.ParseGrantArguments(raw)
		if err != nil {
			var e *action.Error
			if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Field == "" || e.Message == "" {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if w.Any == (w.Tool != "") || !w.Scope.Valid() || w.MaxCalls != nil && *w.MaxCalls < 1 || w.Duration < 0 || len(w.Pins) > 20 || len(w.Reason) > 8000 {
			t.Fatalf("%q became %+v", raw, w)
		}
		for pointer, value := range w.Pins {
			if !json.Valid(value) {
				t.Fatalf("%q pinned at %q", value, pointer)
			}
		}
	})
}
