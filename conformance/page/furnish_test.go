package page_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// furnish puts something of every kind into the house, so that no page is
// empty. Each text that somebody may choose goes through say.
func (s *story) furnish(say func(string) string) {
	s.t.Helper()
	s.calls(say)
	s.rules(say)
	s.inbound(say)
	s.must("PUT", "/api/v1/secrets/notes_token", args{"value": "key_0123456789", "host": "notes.example.com"}, nil)
	s.must("POST", "/api/v1/api-keys", args{"name": say("deploy script"), "role": "member"}, nil)
	s.must("POST", "/api/v1/users", args{"name": say("Ada Lovelace"), "role": "admin"}, nil)
}

// calls has agents call: some are held, some ended in every way.
func (s *story) calls(say func(string) string) {
	s.t.Helper()
	agent := s.agent(say("Fix the login page"))
	agent.call("demo_read", args{"text": say("the list")}).text()
	agent.call("demo_wipe", args{"text": say("everything")}).text()

	denied := agent.call("demo_write", args{"text": say("too much")})
	id := agent.held()
	s.must("POST", "/api/v1/invocations/"+id+"/deny", args{"reason": say("Use the staging project.")}, nil)
	denied.text()

	done := agent.call("demo_write", args{"text": say("milk"), "title": say("shopping")})
	id = agent.held()
	s.must("POST", "/api/v1/invocations/"+id+"/approve", args{"mode": "grant", "grant": args{"scope": "session", "max_calls": 5, "expires_in": "24h", "pin": []string{"/text"}}}, nil)
	done.text()

	wish := agent.call("grant_request", args{"tool": "demo_write", "max_calls": 3, "expires_in_seconds": 8 * 3600, "reason": say("Filing what the audit found.")})
	if text := wish.text(); wish.result().IsError {
		s.t.Fatal(text)
	}
	agent.call("demo_write", args{"text": strings.Repeat(say("a long paragraph of many words "), 12), "title": say("a plan"), "token": "ghp_0123456789abcdefghij0123456789abcdef"})
	id = agent.held()

	worker := s.agent(say("Nightly triage"), args{"kind": "unattended", "group": "developer", "task": tame(say("T-42"))})
	s.mode("demo:wipe", "require_approval")
	s.must("PUT", "/api/v1/capabilities/developer/demo", args{"level": "production", "required_gate": "deploy", "expires_in": "720h"}, nil)
	s.must("POST", "/api/v1/gates", args{"gate": "deploy", "group": "developer", "task": tame(say("T-42")), "expires_in": "8h"}, nil)
	worker.call("demo_wipe", args{"text": say("the staging notes")})
	worker.held(id)
}

// rules are those of policy that calls did not make.
func (s *story) rules(say func(string) string) {
	s.t.Helper()
	s.must("PUT", "/api/v1/policy/quotas/"+url.PathEscape("demo:write"), args{"per": "session", "calls": 20, "seconds": 3600}, nil)
	s.must("PUT", "/api/v1/capabilities/"+url.PathEscape(tame(say("designer")))+"/demo", args{"level": "read"}, nil)
	s.must("POST", "/api/v1/grants", args{"scope": "organization", "source": "demo", "action": "write", "pins": args{"/title": say("the weekly report")}, "max_calls": 50, "expires_in": "24h"}, nil)

	other := startUpstream(tool{Name: "list", Description: say("Lists the issues."), Risk: "read", Does: "listed"})
	s.t.Cleanup(other.close)
	var connector struct {
		ID string `json:"id"`
	}
	s.must("POST", "/api/v1/connectors", args{"name": tame(say("Issues")), "slug": "issues", "url": other.URL, "profile": "strict"}, &connector)
	other.has(tool{Name: "list", Description: say("Lists the issues, closed ones too."), Risk: "write", Params: []string{"state"}, Does: "listed"})
	s.must("POST", "/api/v1/connectors/"+connector.ID+"/validate", nil, nil)
}

// inbound has an event of GitHub start a run, and a schedule wait for its
// time.
func (s *story) inbound(say func(string) string) {
	s.t.Helper()
	automation := tame(say("triage"))
	s.must("POST", "/api/v1/automations", args{"name": automation, "instructions": say("Look into what came in.")}, nil)
	s.must("POST", "/api/v1/schedules", args{"automation": automation, "name": tame(say("every morning")), "cron_expression": "0 7 * * 1-5", "timezone": "Europe/Berlin"}, nil)
	var trigger struct {
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	s.must("POST", "/api/v1/triggers", args{"automation": automation, "provider": "github", "event_type": "issue", "name": tame(say("new issues"))}, &trigger)
	issue, err := json.Marshal(args{
		"action": "opened",
		"issue": args{
			"id": 1, "number": 1, "title": say("It is broken"), "state": "open", "html_url": "https://github.com/octocat/hello/issues/1",
			"user": args{"login": "octocat", "type": "User"}, "labels": []any{}, "body": say("It does not work."),
			"created_at": "2026-10-02T07:00:00Z", "updated_at": "2026-10-02T08:00:00Z",
		},
		"repository": args{"id": 1, "full_name": "octocat/hello", "html_url": "https://github.com/octocat/hello", "default_branch": "trunk"},
		"sender":     args{"login": "octocat", "type": "User"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.post(trigger.URL, trigger.Secret, string(issue))
	await(s.t, "the run of an event", func() bool {
		var runs struct {
			Items []args `json:"items"`
		}
		s.must("GET", "/api/v1/runs", nil, &runs)
		return len(runs.Items) > 0
	})
}

// tame leaves out what most names may not have:
// characters that nobody sees and words of several scripts. Markup stays.
func tame(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f || r == '*' || r == '/' {
			return -1
		}
		return r
	}, text)
}

// post delivers a webhook, signed as GitHub signs.
func (s *story) post(to, secret, body string) {
	s.t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header = http.Header{
		"X-Github-Event": {"issues"}, "X-Github-Delivery": {"72d3162e-cc78-11e3-81ab-000000000001"}, "Content-Type": {"application/json"},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("the delivery was answered %s", response.Status)
	}
}

// walk opens every page of the navigation, and of each kind of page that one
// leads to the first, and has look look at it. The name is good for a file.
func (w *window) walk(look func(name string)) {
	w.t.Helper()
	w.goTo("/")
	var paths []string
	w.eval(`[...document.querySelectorAll("nav a[href]")].map((a) => a.getAttribute("href"))`, &paths)
	if len(paths) < 8 {
		w.t.Fatalf("the navigation has but %q", paths)
	}
	known := map[string]bool{}
	for _, path := range paths {
		known[nameOf(path)] = true
	}
	for ; len(paths) > 0; paths = paths[1:] {
		w.goTo(paths[0])
		for _, path := range w.leads() {
			if name := nameOf(path); !known[name] {
				known[name] = true
				paths = append(paths, path)
			}
		}
		look(nameOf(paths[0]))
	}
}

// leads lists the pages that this one leads to.
func (w *window) leads() (paths []string) {
	w.t.Helper()
	w.eval(`[...document.querySelectorAll("main a[href^='/']:not([download])")].map((a) => new URL(a.href).pathname).filter((p) => !/^\/(api|assets)\//.test(p))`, &paths)
	return paths
}

// nameOf names the kind of page that is at an address.
func nameOf(path string) string {
	kind, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch {
	case kind == "":
		return "inbox"
	case rest == "":
		return kind
	case strings.HasPrefix(rest, "new"):
		return kind + "-new"
	}
	return kind + "-detail"
}
