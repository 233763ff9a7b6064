package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// These are the stories of inbound work: a whole gateway between GitHub, which
// tells of an issue, and the agent that works on it.

// opened is what GitHub tells of a new issue.
func opened(number int, title string) string {
	return fmt.Sprintf(`{"action":"opened","issue":{"id":%[1]d,"number":%[1]d,"title":%[2]q,"state":"open","html_url":"https://github.com/octocat/hello/issues/%[1]d","body":"It hurts.","user":{"login":"ada","type":"User"},"labels":[],"assignees":[],"created_at":"2026-11-22T00:00:00Z","updated_at":"2026-11-22T00:00:00Z"},"repository":{"id":1,"name":"hello","full_name":"octocat/hello","owner":{"login":"octocat"},"html_url":"https://github.com/octocat/hello","default_branch":"trunk"},"sender":{"login":"ada","type":"User"}}`, number, title)
}

// tells delivers as GitHub does, and returns what it is answered.
func (p *premises) tells(url, secret, delivery, body string) int {
	p.t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", "issues")
	request.Header.Set("X-GitHub-Delivery", delivery)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// run is the only run of a status.
func (p *premises) run(status event.RunStatus) (r api.RunView) {
	p.t.Helper()
	p.eventually("a run that is "+string(status), func() bool {
		var runs api.List[api.RunView]
		p.must("GET", "/runs?status="+string(status), nil, &runs)
		if len(runs.Items) > 1 {
			p.t.Fatalf("%d runs are %s", len(runs.Items), status)
		}
		for _, r = range runs.Items {
			return true
		}
		return false
	})
	return r
}

// work is what a worker gets with a run.
type work struct {
	Run        event.Run
	Automation struct{ Instructions string }
	Event      struct{ Context json.RawMessage }
	Session    workSession
	Claim      string `json:"claim_id"`
}

type workSession struct{ ID, Token string }

// triage is an automation that GitHub's issues start, and whose agents may use
// GitHub.
func (p *premises) triage(t *testing.T) (gitHub *service, trigger api.MintedTrigger) {
	t.Helper()
	gitHub = newService(t, likeGitHub(gitHubToken))
	p.connectTo(gitHub, "github", map[string]any{"kind": "api_key", "secret": gitHubToken})
	p.must("POST", "/automations", map[string]any{"name": "triage", "instructions": "Answer it."}, nil)
	p.must("PUT", "/automations/triage/connections", map[string]any{"connections": []string{"github"}}, nil)
	p.must("POST", "/triggers", map[string]any{"automation": "triage", "provider": "github", "event_type": "issue", "config": map[string]any{"actions": []string{"opened"}}}, &trigger)
	return gitHub, trigger
}

const answerIssue = `{"owner":"octocat","repo":"hello","title":"T"}`

// TestFromWebhookToFinishedRun is the whole story of an event.
func TestFromWebhookToFinishedRun(t *testing.T) {
	t.Parallel()
	p := serveHouse(t)
	gitHub, trigger := p.triage(t)
	p.mode("github:create_issue", action.ModeAllow) // which is not enough below

	// A forged delivery spoils nothing for the real one, which counts once.
	body := opened(10, "Login fails")
	for _, one := range []struct {
		secret string
		status int
	}{{"not the secret", 401}, {trigger.Secret, 200}, {trigger.Secret, 200}} {
		if got := p.tells(trigger.URL, one.secret, "d-1", body); got != one.status {
			t.Fatalf("delivered with %q: %d, want %d", one.secret, got, one.status)
		}
	}
	if made := p.run(event.RunQueued); made.Title == "" || made.AutomationName != "triage" {
		t.Errorf("the run: %+v", made)
	}

	// A worker, who can do nothing else, takes it.
	var key struct{ Key string }
	p.must("POST", "/api-keys", map[string]any{"name": "worker", "scope": "runs"}, &key)
	worker := *p
	worker.key = key.Key
	var job work
	worker.must("POST", "/runs/claim", map[string]any{}, &job)
	if job.Automation.Instructions != "Answer it." || !strings.Contains(string(job.Event.Context), "Login fails") {
		t.Errorf("claimed: %+v, context %s", job, job.Event.Context)
	}
	worker.must("POST", "/runs/"+job.Run.ID+"/renew", map[string]any{"claim_id": job.Claim}, nil)

	// The agent's write waits, though the organization lets it run, and so the run
	// needs a human.
	a := p.attend(testSession{ID: job.Session.ID, Token: job.Session.Token})
	gitHub.answers(likeGitHub(gitHubToken))
	done := a.call("github_create_issue", answerIssue)
	held := p.held()
	if needs := p.run(event.RunNeedsHuman); needs.ID != job.Run.ID || needs.Waiting != 1 {
		t.Errorf("while a call waits: %+v", needs)
	}
	var view struct {
		Event string `json:"event_id"`
		Run   string `json:"run_id"`
	}
	p.must("GET", "/invocations/"+held.ID, nil, &view)
	if view.Event != job.Run.Event || view.Run != job.Run.ID {
		t.Errorf("the call is of event %q and run %q", view.Event, view.Run)
	}
	if n := len(gitHub.requests("")); n != 0 {
		t.Errorf("%d requests before anybody approved", n)
	}
	p.approve(held.ID)
	a.answered(done, false, `"number":10`)
	if n := len(gitHub.requests("/repos/octocat/hello/issues")); n != 1 {
		t.Errorf("%d issues were created", n)
	}
	p.run(event.RunRunning)

	// The run ends, and its token with it.
	worker.must("POST", "/runs/"+job.Run.ID+"/finish", map[string]any{"claim_id": job.Claim, "status": "succeeded", "result": map[string]any{"answered": true}}, nil)
	p.run(event.RunSucceeded)
	p.dead(job.Session)
	p.counted(`sallyport_webhooks_total{provider="github",result="received"} 1`, `sallyport_webhooks_total{provider="github",result="repeated"} 1`, `sallyport_deliveries_total{provider="github",result="run"} 1`, "sallyport_deliveries_waiting 0", "sallyport_runs_undelivered 0", "sallyport_inbox_lag_seconds 0", "sallyport_outbox_lag_seconds 0")
}

// counted wants lines in what operators watch.
func (p *premises) counted(lines ...string) {
	p.t.Helper()
	recorder := httptest.NewRecorder()
	p.metrics().ServeHTTP(recorder, httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains(recorder.Body.String(), line+"\n") {
			p.t.Errorf("%s is not in the metrics", line)
		}
	}
}

// dead wants the token of a session to open nothing any more.
func (p *premises) dead(s workSession) {
	p.t.Helper()
	holder := *p
	holder.key = s.Token
	if status, answer := holder.do("GET", "/sessions/"+s.ID+"/actions/available", nil); status != http.StatusUnauthorized {
		p.t.Errorf("the token of a run that is over: %d %s", status, answer)
	}
}

// TestRunIsDelivered has a run posted to an endpoint, whose agent the automation
// lets write, and who ends it with the token of its session.
func TestRunIsDelivered(t *testing.T) {
	t.Parallel()
	p := serveHouse(t)
	gitHub, trigger := p.triage(t)
	p.must("PUT", "/policy/modes/github:create_issue", map[string]any{"mode": "allow", "automation": "triage"}, nil)
	runner := newService(t, func(w http.ResponseWriter, _ *asked) { w.WriteHeader(http.StatusAccepted) })
	var endpoint struct{ Secret string }
	p.must("PUT", "/run-endpoint", map[string]any{"url": runner.URL + "/runs"}, &endpoint)

	if got := p.tells(trigger.URL, trigger.Secret, "d-1", opened(10, "Login fails")); got != http.StatusOK {
		t.Fatalf("delivered: %d", got)
	}
	p.eventually("a delivery", func() bool { return len(runner.requests("/runs")) > 0 })
	sent := runner.requests("/runs")[0]
	if err := event.VerifyStandard(sent.Header, []byte(sent.Body), [][]byte{[]byte(endpoint.Secret)}, time.Now(), time.Minute); err != nil {
		t.Errorf("the delivery's signature: %v", err)
	}
	var notice struct {
		Type string
		Data work
	}
	if err := json.Unmarshal([]byte(sent.Body), &notice); err != nil || notice.Type != "run.created" {
		t.Fatalf("delivered %s: %v", sent.Body, err)
	}

	a := p.attend(testSession{ID: notice.Data.Session.ID, Token: notice.Data.Session.Token})
	gitHub.answers(likeGitHub(gitHubToken))
	a.answered(a.call("github_create_issue", answerIssue), false, `"number":10`)
	agent := *p
	agent.key = notice.Data.Session.Token
	agent.must("POST", "/runs/"+notice.Data.Run.ID+"/finish", map[string]any{"status": "succeeded"}, nil)
	p.run(event.RunSucceeded)
	p.dead(notice.Data.Session)
	if n := len(runner.requests("/runs")); n != 1 {
		t.Errorf("delivered %d times", n)
	}
}

// TestRunNobodyWorksOn is taken back when its worker is silent: its session ends,
// what it asked for is withdrawn, and another one gets it.
func TestRunNobodyWorksOn(t *testing.T) {
	t.Parallel()
	p := serveHouse(t, func(o *Options) { o.Intervals.RunSweepEvery = 100 * time.Millisecond })
	_, trigger := p.triage(t)
	told := make(chan action.Hint, 1000)
	defer p.coord.Subscribe(func(h action.Hint) { told <- h })()
	if got := p.tells(trigger.URL, trigger.Secret, "d-1", opened(10, "Login fails")); got != http.StatusOK {
		t.Fatalf("delivered: %d", got)
	}
	queued := p.run(event.RunQueued)
	var first, second work
	p.must("POST", "/runs/claim", map[string]any{"lease": "1s"}, &first)
	if first.Run.ID != queued.ID {
		t.Fatalf("claimed %s, want %s", first.Run.ID, queued.ID)
	}
	p.eventually("word to all who know the session", func() bool {
		select {
		case h := <-told:
			return h.Kind == action.HintSession && h.Session == first.Session.ID
		default:
			return false
		}
	})
	p.run(event.RunQueued)
	p.dead(first.Session)
	p.must("POST", "/runs/claim", nil, &second)
	if second.Run.ID != queued.ID || second.Run.Attempt != 2 || second.Session.ID == first.Session.ID {
		t.Errorf("claimed again: %+v", second.Run)
	}
	p.refused(409, "claim_lost", "POST", "/runs/"+queued.ID+"/renew", map[string]any{"claim_id": first.Claim})
	p.must("POST", "/runs/"+queued.ID+"/cancel", nil, nil)
	p.dead(second.Session)
}
