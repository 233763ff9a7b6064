package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

// These are the stories of the gateway's own tools: a whole gateway, its rows in
// a file or at a server, and agents who speak MCP or HTTP.

// servedOnBoth plays a story on both databases.
func servedOnBoth(t *testing.T, story func(*testing.T, *premises)) {
	t.Run("SQLite", func(t *testing.T) { story(t, serveHouse(t)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		story(t, serveHouse(t, func(o *Options) { o.DatabaseURL = postgresTables(t) }))
	})
}

// toolAnswer is what a stub is answered: of its call, or a problem.
type toolAnswer struct {
	status     int
	retryAfter string
	Success    bool
	Result     string
	Data       map[string]any
	Invocation string
	Code       string
	Field      string
	Detail     string
}

// stub calls a tool as a stub in the sandbox does.
func (p *premises) stub(s testSession, tool, id, params string) (a toolAnswer) {
	p.t.Helper()
	body := fmt.Sprintf(`{"session_id":%q,"tool_call_id":%q,"params":%s}`, s.ID, id, params)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.URL+"/internal/tools/"+tool, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		p.t.Fatalf("%s: %v in %s", tool, err, text)
	}
	a.status, a.retryAfter = response.StatusCode, response.Header.Get("Retry-After")
	return a
}

// startedRun is a run that a worker has, and the session of its agent.
func (p *premises) startedRun(t *testing.T) (work, testSession) {
	t.Helper()
	_, trigger := p.triage(t)
	if got := p.tells(trigger.URL, trigger.Secret, "d-1", opened(10, "Login fails")); got != http.StatusOK {
		t.Fatalf("delivered: %d", got)
	}
	p.run(event.RunQueued)
	var job work
	p.must("POST", "/runs/claim", map[string]any{}, &job)
	return job, testSession{ID: job.Session.ID, Token: job.Session.Token}
}

func (a *visitor) lists(tool string) bool {
	a.t.Helper()
	for one, err := range a.Tools(a.t.Context(), nil) {
		if err != nil {
			a.t.Fatal(err)
		}
		if one.Name == tool {
			return true
		}
	}
	return false
}

func TestAgentCompletesItsRun(t *testing.T) {
	servedOnBoth(t, func(t *testing.T, p *premises) {
		job, session := p.startedRun(t)
		a := p.attend(session)
		if !a.lists("automation_complete") || a.lists("automation.complete") || a.lists("save_env_files") {
			t.Error("a session of a run is not shown what is for it, and that alone")
		}
		waits := a.call("github_create_issue", answerIssue)
		p.held()

		if wrong := p.stub(session, "automation_complete", "call-0", `{"run_id":"other","completion_id":"done-1","outcome":"failed"}`); wrong.status != 200 || wrong.Success || wrong.Data["code"] != "other_run" {
			t.Errorf("the run of somebody else: %+v", wrong)
		}
		if bad := p.stub(session, "automation_complete", "call-0b", `{"completion_id":"done-1","outcome":"fine"}`); bad.status != 400 || bad.Field != "/params/outcome" {
			t.Errorf("an outcome that there is not: %+v", bad)
		}
		params := `{"completion_id":"done-1","outcome":"succeeded","summary_markdown":"Answered with ghp_0123456789abcdefghijklmnopqrstuvwxyzAB.","citations":["https://example.com/1"],"run_id":"` + job.Run.ID + `"}`
		first := a.answered(a.call("automation.complete", params), false, "recorded as succeeded")
		a.answered(waits, true, "withdrawn")

		done := p.run(event.RunSucceeded)
		if done.ID != job.Run.ID || !strings.Contains(string(done.Result), "https://example.com/1") || strings.Contains(string(done.Result)+done.Message, "ghp_0123") {
			t.Errorf("what is kept of it: %q, %s", done.Message, done.Result)
		}
		// Again, by whatever way, with whatever else: the same answer.
		a.answered(a.call("automation_complete", params), false, first)
		other := p.attend(session) // that lost its connection
		other.answered(other.call("automation_complete", `{"completion_id":"done-1","outcome":"failed"}`), false, first)
		again := p.stub(session, "automation.complete", "call-1", params)
		if again.status != 200 || !again.Success || again.Result != first || again.Data["run_id"] != job.Run.ID || again.Data["outcome"] != "succeeded" {
			t.Errorf("over HTTP: %+v", again)
		}
		t.Setenv("SALLYPORT_URL", p.URL)
		t.Setenv("SALLYPORT_TOKEN", session.Token)
		for _, name := range []string{"automation_complete", "automation.complete"} {
			var out, errs bytes.Buffer
			if status := executeCommand(t.Context(), []string{"actions", "run", "platform", name, "--params", params}, nil, &out, &errs); status != command.ExitOK || !strings.Contains(out.String(), first) {
				t.Errorf("from a shell, as %s: status %d, %s%s", name, status, out.String(), errs.String())
			}
		}
		var errs bytes.Buffer
		if status := executeCommand(t.Context(), []string{"actions", "run", "github", "create_issue", "--params", answerIssue}, nil, &errs, &errs); status != command.ExitDenied || !strings.Contains(errs.String(), "is complete") {
			t.Errorf("something else from a shell: status %d, %s", status, errs.String())
		}
		if no := p.stub(session, "automation_complete", "call-2", `{"completion_id":"done-2","outcome":"failed"}`); no.status != 409 || no.Code != "already_done" || !strings.Contains(no.Detail, "succeeded") {
			t.Errorf("another completion: %+v", no)
		}
		// Nothing else is done any more.
		other.answered(other.call("github_create_issue", answerIssue), true, "is complete")
		other.answered(other.call("grant_request", `{"tool":"github_create_issue","reason":"x"}`), true, "is complete")
		holder := *p
		holder.key = session.Token
		// And nothing else is listed.
		if !other.lists("automation_complete") || other.lists("github_create_issue") || other.lists("verify") || other.lists("grant_request") || !other.lists("invocation_wait") {
			t.Error("a session that is done lists what it would be refused, or not what is answered again")
		}
		var left struct{ Items []struct{ Action string } }
		holder.must("GET", "/sessions/"+session.ID+"/actions/available", nil, &left)
		if got := fmt.Sprint(left.Items); got != "[{automation_complete}]" {
			t.Errorf("over HTTP it may still call %s", got)
		}
		holder.refused(409, "session_completed", "POST", "/sessions/"+session.ID+"/actions/invoke", map[string]any{"source": "github", "action": "create_issue", "params": json.RawMessage(answerIssue)})
		holder.refused(409, "session_completed", "POST", "/sessions/"+session.ID+"/actions/grants", map[string]any{"source": "github", "action": "create_issue"})
		p.must("DELETE", "/sessions/"+session.ID, nil, nil)
		p.dead(job.Session)
	})
}

func TestSixtyFourCompletions(t *testing.T) {
	t.Parallel()
	servedOnBoth(t, func(t *testing.T, p *premises) {
		_, session := p.startedRun(t)
		var group sync.WaitGroup
		answers := make([]toolAnswer, 64)
		for i := range answers {
			group.Go(func() {
				answers[i] = p.stub(session, "automation_complete", "call-1", `{"completion_id":"done","outcome":"succeeded"}`)
			})
		}
		group.Wait()
		called := 0
		for _, a := range answers {
			if a.status == 429 && a.Code == "rate_limited" {
				continue // 60 a minute
			}
			called++
			if !a.Success || a.Invocation != answers[0].Invocation && answers[0].status == 200 {
				t.Errorf("answered %+v", a)
			}
		}
		if called < 50 {
			t.Errorf("%d were answered", called)
		}
		var page api.List[action.Invocation]
		p.must("GET", "/invocations?session="+session.ID, nil, &page)
		if len(page.Items) != 1 {
			t.Errorf("%d invocations", len(page.Items))
		}
		p.run(event.RunSucceeded)
	})
}

func TestSetupIsSavedAndReadBack(t *testing.T) {
	t.Parallel()
	servedOnBoth(t, func(t *testing.T, p *premises) {
		var session, coding testSession
		p.must("POST", "/workspaces", map[string]any{"name": "shop"}, nil)
		p.must("POST", "/sessions", map[string]any{"type": "setup", "workspace": "shop"}, &session)
		p.must("POST", "/sessions", map[string]any{}, &coding)
		a := p.attend(session)
		if !a.lists("save_service_commands") || p.attend(coding).lists("save_service_commands") {
			t.Error("setup tools are not those of setup sessions alone")
		}
		a.answered(a.call("save_service_commands", `{"commands":[{"name":"web","command":"pnpm dev","cwd":"apps/web"}]}`), false, "Saved 1 command")
		files := `{"files":[{"path":".env","format":"dotenv","mode":"secret","keys":[{"key":"DATABASE_URL","required":true}]}]}`
		if saved := p.stub(session, "save_env_files", "call-1", files); saved.status != 200 || !saved.Success || saved.Data["file_count"] != 1.0 || saved.Data["workspace_id"] == "" {
			t.Errorf("saved: %+v", saved)
		}
		var setup struct {
			ServiceCommands json.RawMessage `json:"service_commands"`
			EnvFiles        json.RawMessage `json:"env_files"`
			By              string          `json:"set_up_by"`
		}
		p.must("GET", "/workspaces/shop", nil, &setup)
		if string(setup.ServiceCommands) != `[{"command":"pnpm dev","cwd":"apps/web","name":"web"}]` || !bytes.Contains(setup.EnvFiles, []byte("DATABASE_URL")) || setup.By != session.ID {
			t.Errorf("read back: %+v", setup)
		}
		for name, call := range map[string]struct {
			tool, params, field string
		}{
			"a path that leads out": {"save_env_files", strings.Replace(files, `".env"`, `"a/../../.env"`, 1), "/params/files/0/path"},
			"an absolute path":      {"save_env_files", strings.Replace(files, `".env"`, `"/etc/passwd"`, 1), "/params/files/0/path"},
			"a backslash":           {"save_env_files", strings.Replace(files, `".env"`, `"a\\b"`, 1), "/params/files/0/path"},
			"a control character":   {"save_env_files", strings.Replace(files, `".env"`, `"a\u0007b"`, 1), "/params/files/0/path"},
			"a long path":           {"save_env_files", strings.Replace(files, `".env"`, `"`+strings.Repeat("a", 501)+`"`, 1), "/params/files/0/path"},
			"another format":        {"save_env_files", strings.Replace(files, `dotenv`, `json`, 1), "/params/files/0/format"},
			"a workspace outside":   {"save_env_files", strings.Replace(files, `"format"`, `"workspacePath":"../x","format"`, 1), "/params/files/0/workspacePath"},
			"no key":                {"save_env_files", strings.Replace(files, `{"key":"DATABASE_URL","required":true}`, ``, 1), "/params/files/0/keys"},
			"a folder outside":      {"save_service_commands", `{"commands":[{"name":"web","command":"x","cwd":"/root"}]}`, "/params/commands/0/cwd"},
			"a secret":              {"save_service_commands", `{"commands":[{"name":"web","command":"GITHUB_TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB x"}]}`, "/params/commands/0/command"},
			"no commands":           {"save_service_commands", `{"commands":[]}`, "/params/commands"},
			"eleven commands":       {"save_service_commands", `{"commands":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a","command":"b"},`, 11), ",") + `]}`, "/params/commands"},
		} {
			if got := p.stub(session, call.tool, "bad "+name, call.params); got.status != 400 || got.Field != call.field {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if no := p.stub(session, "save_env_files", "call-1", strings.Replace(files, "DATABASE_URL", "OTHER", 1)); no.status != 409 || no.Code != "tool_call_reused" {
			t.Errorf("an id that was used: %+v", no)
		}
		if no := p.stub(coding, "save_env_files", "call-1", files); no.status != 403 || no.Code != "denied" {
			t.Errorf("from a coding session: %+v", no)
		}
		if no := p.stub(testSession{ID: session.ID, Token: coding.Token}, "save_env_files", "call-9", files); no.status != 403 || no.Code != "other_session" {
			t.Errorf("for another session: %+v", no)
		}
		if no := p.stub(session, "save_env_file", "call-9", files); no.status != 404 || !strings.Contains(no.Detail, "Did you mean save_env_files") {
			t.Errorf("a tool that there is not: %+v", no)
		}
		if same := p.stub(session, "save_env_files", "call-1", fmt.Sprintf("%q", files)); !same.Success {
			t.Errorf("params in a string: %+v", same)
		}
		for params, why := range map[string]string{`"[]"`: "a string that does not hold one", `"{\"files\":"`: "params must be a JSON object"} {
			if no := p.stub(session, "save_env_files", "call-9", params); no.status != 400 || no.Field != "/params" || !strings.Contains(no.Detail, why) {
				t.Errorf("params %s: %+v", params, no)
			}
		}
		another := func(i int) string { return strings.Replace(files, "DATABASE_URL", fmt.Sprint("KEY_", i), 1) } // the same would join one that is not known to be delivered
		for i := 2; i <= 10; i++ {
			if ok := p.stub(session, "save_env_files", fmt.Sprint("call-", i), another(i)); !ok.Success {
				t.Errorf("call %d: %+v", i, ok)
			}
		}
		if no := p.stub(session, "save_env_files", "call-11", another(11)); no.status != 429 || no.Code != "quota_reached" || no.retryAfter == "" {
			t.Errorf("over the quota: %+v", no)
		}
		a.answered(a.call("save_env_files", another(12)), true, "save_env_files 10 times in an hour", "Try again in")
		if ok := p.stub(session, "save_env_files", "call-5", another(5)); !ok.Success {
			t.Errorf("a repeat is not free: %+v", ok)
		}
	})
}

// A sixth request for variables is refused by a limit, and not by policy, which
// nobody needs to change for it.
func TestOneRequestForVariablesTooMany(t *testing.T) {
	t.Parallel()
	p := serveHouse(t)
	var session testSession
	p.must("POST", "/sessions", map[string]any{}, &session)
	a := p.attend(session)
	for i := range 5 {
		a.answered(a.call("request_env_variables", fmt.Sprintf(`{"keys":[{"key":"KEY_%d"}]}`, i)), false, "env pull")
	}
	a.answered(a.call("request_env_variables", `{"keys":[{"key":"KEY_5"}]}`), true, "reached a limit of the gateway", "already has 5 pending requests")
	if inv := p.ended(session.ID, "request_env_variables"); inv.Status != action.StatusDenied || inv.DeniedReason != action.DeniedQuota {
		t.Errorf("%s %s (%s)", inv.Status, inv.DeniedReason, inv.DeniedNote)
	}
}

// What an organization holds is done once a person approved it, and not at all
// when its session was revoked before.
func TestToolIsHeld(t *testing.T) {
	t.Parallel()
	servedOnBoth(t, func(t *testing.T, p *premises) {
		p.mode("platform:save_service_commands", action.ModeRequireApproval)
		params := `{"commands":[{"name":"web","command":"pnpm dev"}]}`
		p.must("POST", "/workspaces", map[string]any{"name": "shop"}, nil)
		for _, revoked := range []bool{false, true} {
			var session testSession
			p.must("POST", "/sessions", map[string]any{"type": "setup", "workspace": "shop"}, &session)
			waits := p.stub(session, "save_service_commands", "call-1", params)
			if waits.status != http.StatusAccepted || waits.Success {
				t.Fatalf("not held: %+v", waits)
			}
			if revoked {
				p.must("DELETE", "/sessions/"+session.ID, nil, nil)
				p.refused(409, "withdrawn", "POST", "/invocations/"+waits.Invocation+"/approve", map[string]any{})
				if after := p.stub(session, "save_service_commands", "call-1", params); after.status != 401 {
					t.Errorf("after its session was revoked: %+v", after)
				}
				continue
			}
			p.approve(waits.Invocation)
			p.eventually("it is done", func() bool { return p.stub(session, "save_service_commands", "call-1", params).Success })
		}
		if status, _ := p.do("GET", "/workspaces/shop", nil); status != 200 {
			t.Errorf("the workspace: %d", status)
		}
	})
}

// A pause refuses what is new and keeps what is held: its callers wait on, and it
// runs when a person approves it meanwhile, once.
func TestHeldBeforeAPauseRunsDuringIt(t *testing.T) {
	t.Parallel()
	servedOnBoth(t, func(t *testing.T, p *premises) {
		p.mode("platform:save_service_commands", action.ModeRequireApproval)
		var session testSession
		p.must("POST", "/workspaces", map[string]any{"name": "shop"}, nil)
		p.must("POST", "/sessions", map[string]any{"type": "setup", "workspace": "shop"}, &session)
		const params, another = `{"commands":[{"name":"web","command":"pnpm dev"}]}`, `{"commands":[{"name":"db","command":"up"}]}`
		a := p.attend(session)
		waits := a.call("save_service_commands", params)
		held := p.held()
		p.must("POST", "/sessions/"+session.ID+"/pause", map[string]any{}, nil)
		if no := p.stub(session, "save_service_commands", "call-2", another); no.status != 409 || no.Code != "session_paused" {
			t.Errorf("a new call: %+v", no)
		}
		a.answered(a.call("save_service_commands", another), true, "paused")
		if again := p.stub(session, "save_service_commands", "call-3", params); again.status != http.StatusAccepted || again.Invocation != held.ID {
			t.Errorf("the same call again: %+v", again)
		}
		p.approve(held.ID)
		a.answered(waits, false)
		if got := p.ended(session.ID, "save_service_commands"); got.ID != held.ID || got.Status != action.StatusCompleted {
			t.Errorf("the newest call is %s, %s; it was %s that was held", got.ID, got.Status, held.ID)
		}
		p.must("POST", "/sessions/"+session.ID+"/resume", map[string]any{}, nil)
		if next := p.stub(session, "save_service_commands", "call-2", another); next.status != http.StatusAccepted {
			t.Errorf("after the pause: %+v", next)
		}
	})
}

// overtaken is a ledger before which policy moves, and then the same call's end.
type overtaken struct {
	action.Ledger
	begun int
	ends  func()
}

func (l *overtaken) Begin(ctx context.Context, d *action.Draft) (*action.BeginResult, error) {
	if l.begun++; l.begun == 1 {
		return nil, action.ErrPolicyMoved
	}
	l.ends()
	return nil, action.Errorf(action.ErrConflict, action.CodeCompleted, "It is done.")
}

// The same call may end its session at any moment of this one: also in one that
// is tried anew for another reason.
func TestCompletedWhilePolicyMoves(t *testing.T) {
	t.Parallel()
	rows := &overtaken{}
	h := newHouse(t, func(c *gate.Config) {
		rows.Ledger = c.Ledger
		c.Ledger = rows
	})
	var kept *action.ToolReply
	rows.ends = func() { kept = &action.ToolReply{Invocation: "first", Text: "It is recorded."} }
	own := tool("done", action.RiskWrite, (&effects{}).run)
	own.Source, own.SourceName = action.Platform, action.Platform
	own.Platform = &action.PlatformTool{Replay: func(context.Context, *action.Session, string, json.RawMessage) (*action.ToolReply, error) {
		return kept, nil
	}}
	h.catalog.put(own)
	h.allow("done")
	call := h.call("done", `{}`)
	call.Source = action.Platform
	out, err := h.gate.Call(t.Context(), &call)
	if err != nil || !out.Repeated || out.Invocation.ID != "first" || rows.begun != 2 {
		t.Errorf("after %d tries: %+v, %v", rows.begun, out, err)
	}
}
