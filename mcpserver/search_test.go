package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"

	"sallyport/action"
	"sallyport/mcpserver"
	"sallyport/mcpserver/wire"
)

// members returns the members of a JSON object, in their order.
func members(raw []byte) (keys []string, values [][]byte, err error) {
	m := wire.Members{Text: raw}
	for m.Next() {
		keys, values = append(keys, string(m.Key)), append(values, m.Value)
	}
	return keys, values, m.Err
}

// wrapped is a message in which a call of a tool is one of actions_call, and the
// name of that tool; any other message is as it was.
func wrapped(body []byte) (out []byte, inner string) {
	keys, values, err := members(body)
	if err != nil || !bytes.Contains(body, []byte(`"tools/call"`)) || !wire.Valid(body) {
		return body, ""
	}
	for i, key := range keys {
		if key != "params" {
			continue
		}
		names, params, _ := members(values[i])
		at := slices.Index(names, "name")
		if at < 0 || json.Unmarshal(params[at], &inner) != nil || inner == "" {
			return body, ""
		}
		arguments := []byte(`{"tool":` + string(params[at]))
		b := []byte(`{"name":"actions_call"`)
		for j, name := range names {
			switch name {
			case "name":
			case "arguments":
				arguments = append(append(arguments, `,"arguments":`...), params[j]...)
			default:
				b = append(append(fmt.Appendf(b, ",%q:", name), params[j]...), ""...)
			}
		}
		b = append(append(append(b, `,"arguments":`...), arguments...), "}}"...)
		return bytes.Replace(body, values[i], b, 1), inner
	}
	return body, ""
}

// A call that comes through actions_call is that call: every conversation of
// testdata is the same, byte for byte, when all its calls do, with their holds,
// progress, questions, repeats, results and mistakes.
func TestWrappedCallsAreTheSame(t *testing.T) {
	differs := map[string]map[string]bool{
		"modern_bad": {
			// The header that mirrors an argument: a client of actions_call does
			// not know of it, so that one that is missing is not missed.
			"param-missing": true,
			"name-coded":    true, // the test does not look into a coded header
		},
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	calls := 0
	defer func() {
		if calls < 100 {
			t.Error("calls that were wrapped:", calls)
		}
	}()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				archive, err := txtar.ParseFile(file)
				if err != nil {
					t.Fatal(err)
				}
				p := newPlay(t)
				defer p.stop()
				p.wraps, p.differs = true, differs[name]
				p.play(archive)
				calls += p.wrapped
			})
		})
	}
}

// tracker is a service with a few tools.
func tracker() []*served {
	issue := &served{Action: action.Action{
		Tool: "linear_create_issue", Name: "create_issue", Source: "connector:1", SourceName: "Linear", Description: "Creates an issue.\n\nIn a team.\u202e",
		InputSchema: json.RawMessage(`{"type":"object","required":["title"],"properties":{"title":{"type":"string","description":"What it says"},"teamId":{"type":"string"}}}`),
		Definition:  json.RawMessage("{\"name\":\"linear_create_issue\", \"vendor\" :1.10,\n\"inputSchema\":{\"type\":\"object\"}}"),
	}, mode: action.ModeRequireApproval}
	listing := &served{Action: action.Action{Tool: "linear_list_issues", Name: "list_issues", Source: "connector:1", SourceName: "Linear", Description: "Lists issues."}}
	secret := &served{Action: action.Action{Tool: "linear_drop_team", Name: "drop_team", Source: "connector:1", SourceName: "Linear"}, mode: action.ModeDeny, hidden: true}
	verify := &served{Action: action.Action{Tool: "verify", Source: "platform", SourceName: "Sallyport", Description: "Uploads evidence."}}
	return []*served{issue, listing, secret, verify}
}

// asSearcher authenticates like always, and has sessions list as of says.
func asSearcher(of *atomic.Value) func(*mcpserver.Config) {
	return func(c *mcpserver.Config) {
		c.Authenticate = func(ctx context.Context, bearer string) (*action.Session, error) {
			s, err := authenticate(ctx, bearer)
			s.Tools, _ = of.Load().(action.ToolListing)
			return s, err
		}
	}
}

// A tool whose words or schema go on for ever is found by its name, and it is said
// that not all of it is searched.
func TestSearchOfHostileTools(t *testing.T) {
	var of atomic.Value
	of.Store(action.ListSearch)
	circle := json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"}}}}}`)
	for name, hostile := range map[string]action.Action{
		"schema": {Tool: "hostile", InputSchema: circle},
		"words":  {Tool: "hostile", Description: strings.Repeat("and so on ", 10_000)},
	} {
		g := newGate(read())
		s := newServer(t, g, &hints{}, asSearcher(&of))
		id := begin(t, s, "token-a")
		search := func() string {
			return serve(s, rpc("token-a", id, callBody(1, "actions_search", `,"arguments":{"query":"hostile read"}`))).Body.String()
		}
		if said := search(); strings.Contains(said, "too long to be searched") {
			t.Errorf("of a harmless list: %s", said)
		}
		g.add(&served{Action: hostile})
		if said := search(); !strings.Contains(said, "too long to be searched") || !strings.Contains(said, "- hostile (") || len(said) > 4000 {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Who sees no more than the gateway's own tools is not told of changes of others.
func TestChangesOfWhatIsListed(t *testing.T) {
	var of atomic.Value
	of.Store(action.ListSearch)
	g := newGate(read())
	s := newServer(t, g, &hints{}, asSearcher(&of))
	id := begin(t, s, "token-a")
	add := func(a action.Action) (announced string) {
		g.add(&served{Action: a})
		if said := serve(s, rpc("token-a", id, callBody(1, "actions_search", `,"arguments":{"query":"late"}`))).Body.String(); !strings.Contains(said, "- late (") {
			t.Errorf("the change is not to be found: %s", said)
		}
		return s.AnnouncedTools("acme")
	}
	first := add(action.Action{Tool: "late"})
	if second := add(action.Action{Tool: "later"}); first == "" || second != first {
		t.Errorf("announced: %q, then %q", first, second)
	}
	if third := add(action.Action{Tool: "ours", Source: action.Platform}); third == first {
		t.Error("a tool that is listed was not announced")
	}
}

func toolNames(t *testing.T, session *mcp.ClientSession) (names []string) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	return names
}

// textOf are the texts of a result.
func textOf(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if one, ok := c.(*mcp.TextContent); ok {
			all = append(all, one.Text)
		}
	}
	return strings.Join(all, "\n")
}

// In search mode the list is short, and everything else is found, described and
// called through it.
func TestSearchMode(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		var mode atomic.Value
		mode.Store(action.ListSearch)
		s := open(t, asSearcher(&mode), tracker()...)
		session := s.connect(t, "token-a", version, nil)
		if said := session.InitializeResult().Instructions; !strings.Contains(said, "actions_search") {
			t.Error("instructions:", said)
		}
		want := []string{"actions_call", "actions_describe", "actions_guide", "actions_search", "invocation_status", "invocation_wait", "verify"}
		if got := toolNames(t, session); !slices.Equal(got, want) {
			t.Error("listed:", got)
		}
		call := func(tool string, arguments any) *mcp.CallToolResult {
			t.Helper()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		found := textOf(call("actions_search", map[string]any{"query": "create an issue", "limit": 5}))
		wantFound := "2 of 2 matching tools, best first. actions_describe returns the arguments of a tool; actions_call calls it.\n" +
			"- linear_create_issue (Linear; needs a person's approval): Creates an issue. In a team.\\u{202E} Needs title.\n" +
			"- linear_list_issues (Linear; runs without approval): Lists issues."
		if found != wantFound {
			t.Errorf("found:\n%s", found)
		}
		s.gate.mu.Lock()
		s.gate.denied = []action.DeniedTools{{Source: "connector:1", SourceName: "Linear", Count: 2}}
		s.gate.mu.Unlock()
		res := call("actions_search", map[string]any{"query": "create", "limit": 1})
		const denied = "Policy denies this session 2 more tools that you do not see: 2 of Linear."
		structured, _ := json.Marshal(res.StructuredContent)
		if got := textOf(res); !strings.Contains(got, denied) || !strings.Contains(string(structured), denied) || !strings.Contains(string(structured), `"count":2`) {
			t.Errorf("denied tools are not told: %s\n%s", got, structured)
		}
		if got := textOf(call("actions_search", map[string]any{"query": "drop team"})); strings.Contains(got, "drop_team") {
			t.Error("a denied tool is found:", got)
		}
		// The definition is the bytes that its source wrote.
		if got := textOf(call("actions_describe", map[string]any{"tool": "linear_create_issue"})); !strings.Contains(got, "{\"name\":\"linear_create_issue\", \"vendor\" :1.10,\n") {
			t.Error("described:", got)
		}
		for tool, want := range map[string]string{"linear_drop_team": "Policy denies", "create_issue": "Did you mean linear_create_issue", "actions_search": "of the gateway itself"} {
			if got := textOf(call("actions_describe", map[string]any{"tool": tool})); !strings.Contains(got, want) {
				t.Errorf("%s: %s", tool, got)
			}
		}
		done := make(chan *mcp.CallToolResult, 1)
		go func() {
			res, err := session.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{
				Name: "actions_call", Arguments: map[string]any{"tool": "linear_create_issue", "arguments": `{"title":"Bug"}`, "idempotency_key": "k1"},
			})
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		eventually(t, "it is held", func() bool { return s.gate.status("inv-1") == action.StatusPending })
		s.gate.approve("inv-1")
		if res := <-done; res == nil || res.IsError {
			t.Error(res)
		}
		s.gate.mu.Lock()
		made := s.gate.records["inv-1"].call
		keys := s.gate.keys
		s.gate.mu.Unlock()
		if made.Source != "connector:1" || made.Action != "create_issue" || string(made.Params) != `{"title":"Bug"}` || !slices.Contains(keys, "k1") {
			t.Errorf("%+v", made)
		}
	})
}

// What is wrong with a wrapped call is told, and nothing runs.
func TestWrappedBadInput(t *testing.T) {
	g := newGate(tracker()...)
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	id := begin(t, s, "token-t1")
	for arguments, want := range map[string]string{
		`{}`:                                      "/tool: it must be the name of a tool",
		`{"tool":""}`:                             "/tool: it must be the name of a tool",
		`{"tool":3}`:                              "/tool: it must be a string, but it is a number",
		`{"tool":"actions_call"}`:                 "actions_call does not call itself",
		`{"tool":"verify","tool":"verify"}`:       "/tool: it is given twice",
		`{"tool":"verify","params":{}}`:           "/params: actions_call has no such argument",
		`{"tool":"verify","arguments":"x"}`:       "a string that does not hold one",
		`{"tool":"verify","arguments":"\"{}\""}`:  "a string that does not hold one",
		`{"tool":"verify","arguments":[]}`:        "it is an array",
		`{"tool":"verify","task":"t2"}`:           "works on the task t1",
		`{"tool":"verify","idempotency_key":1}`:   "/idempotency_key: it must be a string",
		`{"tool":"vreify"}`:                       "Did you mean verify",
		`[]`:                                      "it is an array",
		`"{\"tool\":\"verify\",\"arguments\":1}"`: "it is a number",
	} {
		text := serve(s, rpc("token-t1", id, callBody(1, "actions_call", `,"arguments":`+arguments))).Body.String()
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", arguments, text)
		}
	}
	header := rpc("token-t1", id, callBody(1, "actions_call", `,"arguments":{"tool":"verify","idempotency_key":"b"}`))
	header.Header.Set("Idempotency-Key", "a")
	if text := serve(s, header).Body.String(); !strings.Contains(text, "two that differ") {
		t.Error(text)
	}
	if n := len(g.ids()); n != 0 {
		t.Error("rows:", n)
	}
	if n := len(g.refusals); n != 15 {
		t.Errorf("%d refusals are counted, want all 15: %q", n, g.refusals)
	}
	for _, good := range []string{`{"tool":"verify","task":"t1","arguments":null,"idempotency_key":null}`, `"{\"tool\":\"verify\"}"`} {
		if text := serve(s, rpc("token-t1", id, callBody(1, "actions_call", `,"arguments":`+good))).Body.String(); strings.Contains(text, "isError") || strings.Contains(text, `"error"`) {
			t.Errorf("%s: %s", good, text)
		}
	}
	if n := len(g.ids()); n != 2 {
		t.Error("rows:", n)
	}
}

// A session that lists otherwise from now on is told so, and its calls go on.
func TestModeSwitches(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		var mode atomic.Value
		s := open(t, asSearcher(&mode), tracker()...)
		changed := make(chan struct{}, 10)
		session := s.connect(t, "token-a", version, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		})
		if got := toolNames(t, session); slices.Contains(got, "actions_search") || !slices.Contains(got, "linear_create_issue") {
			t.Error("listed:", got)
		}
		eventually(t, "its event stream is open", func() bool { return s.server.Streams() > 0 })
		mode.Store(action.ListSearch)
		s.hints.Publish(action.Hint{Kind: action.HintSession, Organization: "acme", Session: "session-a"})
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody was told")
		}
		if got := toolNames(t, session); !slices.Contains(got, "actions_search") || slices.Contains(got, "linear_create_issue") {
			t.Error("listed then:", got)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "linear_list_issues"})
		if err != nil || res.IsError {
			t.Error("by its name:", res, err)
		}
	})
}

// A gateway may have all sessions search that do not say.
func TestSearchModeSetting(t *testing.T) {
	s := open(t, func(c *mcpserver.Config) { c.Tools = action.ListSearch }, tracker()...)
	if got := toolNames(t, s.connect(t, "token-a", "2025-11-25", nil)); slices.Contains(got, "linear_create_issue") {
		t.Error("listed:", got)
	}
	if own := s.server.Listed(&action.Session{}); !slices.Contains(own, "actions_search") {
		t.Error(own)
	}
	if own := s.server.Listed(&action.Session{Tools: action.ListAll}); slices.Contains(own, "actions_search") {
		t.Error(own)
	}
}

// A long list says that there is another way.
func TestLongListsSuggestSearch(t *testing.T) {
	var many []*served
	for i := range 120 {
		many = append(many, &served{Action: action.Action{Tool: fmt.Sprintf("tool_%d", i)}})
	}
	for n, want := range map[int]bool{10: false, 120: true} {
		s := open(t, nil, many[:n]...)
		if said := s.connect(t, "token-a", "2025-11-25", nil).InitializeResult().Instructions; strings.Contains(said, "actions_search") != want {
			t.Errorf("%d tools: %s", n, said)
		}
	}
}

func atomicOf(mode action.ToolListing) *atomic.Value {
	var v atomic.Value
	v.Store(mode)
	return &v
}

// as lets everybody in as the session.
func as(who action.Session) func(*mcpserver.Config) {
	return func(c *mcpserver.Config) {
		c.Authenticate = func(context.Context, string) (*action.Session, error) { return &who, nil }
	}
}
