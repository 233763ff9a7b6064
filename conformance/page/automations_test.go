package page_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// gitHubIssue posts what GitHub says of an issue that was opened, signed.
func (s *story) gitHubIssue(to, secret, title, label string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"action":"opened","issue":{"id":1,"number":1,"title":%q,"state":"open","html_url":"https://github.com/octocat/hello/issues/1",`+
		`"user":{"login":"octocat","type":"User"},"labels":[{"name":%q}],"created_at":"2026-10-02T07:00:00Z","updated_at":"2026-10-02T08:00:00Z","body":"It does not work."},`+
		`"repository":{"id":1,"full_name":"octocat/hello","html_url":"https://github.com/octocat/hello","default_branch":"trunk"},"sender":{"login":"octocat","type":"User"}}`, title, label)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": "issues", "X-GitHub-Delivery": "delivery " + title,
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("a delivery was answered %s", response.Status)
	}
}

// TestATriggerIsMadeByForm: an automation and its trigger are made by forms,
// what GitHub posts then is an event that begins a run, before one's eyes, and
// one that does not match says why.
func TestATriggerIsMadeByForm(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")
	owner.goTo("/automations")
	owner.fill("form[data-form=automation] [name=name]", "form-triage")
	owner.fill("[name=instructions]", "Label the new issue.\nSay who should look at it.")
	owner.click("Create automation")
	owner.sees("form-triage", "Say who should look at it.", "does not run yet")

	owner.click("Add trigger")
	owner.sees("Choose a service", "Schedule")
	owner.photo("trigger-providers")
	owner.clickOn(`a.tile[href*="provider=github"]`)
	owner.clickOn(`a.tile[href*="type=issue"]`)
	form := owner.within("form[data-form=trigger]")
	form.fill(`[name="config.repositories"]`, "not a repository")
	form.fill(`[name="config.labels"]`, "bug")
	form.clickOn(`[name="config.actions"] input[value=opened]`)
	form.click("Create trigger")
	owner.shows(`[name="config.repositories"][aria-invalid]`)
	owner.waitFor(`document.querySelector('[name="config.repositories"]').closest("label").nextElementSibling.matches(".error:not([hidden])")`, "the error beside its field")
	owner.photo("trigger-refused")
	form.fill(`[name="config.repositories"]`, "octocat/hello")
	form.click("Create trigger")

	owner.shows("#secret-once")
	owner.sees("shown only once", "Payload URL", "No events yet")
	var secret, url string
	owner.eval(`document.querySelector("#trigger-secret").textContent`, &secret)
	owner.eval(`document.querySelector("#trigger-url").textContent`, &url)
	owner.photo("trigger-made")

	s.gitHubIssue(url, secret, "It is broken", "bug")
	s.gitHubIssue(url, secret, "It is slow", "question")
	owner.within("#trigger-events").sees("It is broken", "Matched.", "queued", "It is slow", "no match", `The event does not match labels (["bug"])`)
	owner.within("#trigger-deliveries").sees("completed")
	owner.photo("trigger-events")
	owner.phone()
	owner.fits()
	owner.photo("trigger-events-phone")
	owner.desk()
	owner.dark()
	owner.photo("trigger-events-dark")
	owner.light()
	owner.reload()
	owner.hides("#secret-once")

	s.worked(owner)
}

// worked has a run worked on, while its page is looked at.
func (s *story) worked(owner *window) {
	s.t.Helper()
	owner.within("#trigger-events").click("Run")
	owner.sees("It is broken", "queued", "form-triage")
	var claimed struct {
		Run struct {
			ID string `json:"id"`
		} `json:"run"`
		Session struct {
			ID    string `json:"id"`
			Token string `json:"token"`
		} `json:"session"`
		Claim string `json:"claim_id"`
	}
	s.must("POST", "/api/v1/runs/claim", args{"automation": "form-triage"}, &claimed)
	owner.within("#run").sees("claimed")
	agent := s.agentOf(claimed.Session.ID, claimed.Session.Token)
	agent.call("demo_write", args{"text": "a label"})
	held := agent.held()
	owner.within("#run").sees("needs a human", "Pending approvals", "write")
	owner.within("#run-calls").sees("pending")
	owner.click("Show full agent input")
	owner.within(".whole").sees("It does not work.")
	owner.photo("run-needs-human")
	if owner.count(`#held a[href="/invocations/`+held+`"]`) != 1 {
		s.t.Error("the run does not lead to the call that is held")
	}
	owner.click("Cancel")
	owner.fill("#cancel [name=reason]", "By hand.")
	owner.click("Cancel run")
	owner.confirm()
	owner.within("#run").sees("failed", "cancelled")
	owner.within("#run-timeline").sees("Cancelled", "Olga Owner")
	owner.click("Redrive")
	owner.confirm()
	owner.within("#run").sees("queued")
	owner.within("#run-timeline").sees("Queued again")

	owner.goTo("/runs?automation=" + "form-triage")
	owner.sees("It is broken", "queued")
	owner.photo("runs")
	owner.goTo("/events?status=skipped")
	owner.within("#event-list").sees("It is slow", "no match")
	owner.within("#event-list").misses("It is broken")
}

// TestAScheduleSaysItsTimes: the next five are shown while one types.
func TestAScheduleSaysItsTimes(t *testing.T) {
	s := begin(t)
	s.must("POST", "/api/v1/automations", args{"name": "morning-digest"}, nil)
	owner := s.person("owner")
	owner.goTo("/schedules?automation=morning-digest")
	form := owner.within("form[data-form=schedule]")
	form.fill("[name=automation]", s.automation("morning-digest"))
	form.fill("[name=timezone]", "Asia/Tokyo")
	form.fill("[name=cron_expression]", "61 9 * *")
	form.within("[data-times]").sees("Invalid schedule")
	form.fill("[name=cron_expression]", "30 9 * * 1-5")
	form.within("[data-times]").sees("The next 5 times, in Asia/Tokyo", "09:30")
	owner.waitFor(`document.querySelectorAll("[data-times] li").length === 5`, "five times")
	owner.photo("schedule-times")
	form.fill("[name=timezone]", "Mars/Olympus")
	form.click("Create schedule")
	owner.shows("[name=timezone][aria-invalid]")
	form.fill("[name=timezone]", "Asia/Tokyo")
	form.click("Create schedule")
	owner.within("#schedule-list").sees("30 9 * * 1-5", "morning-digest", "Asia/Tokyo", "No runs yet")
	owner.photo("schedules")
	member := s.person("member")
	member.goTo("/schedules")
	member.sees("30 9 * * 1-5")
	member.hides("form[data-form]")
	member.within("main").hides("button")
}

// automation is the id of one.
func (s *story) automation(name string) string {
	s.t.Helper()
	var a struct {
		ID string `json:"id"`
	}
	s.must("GET", "/api/v1/automations/"+name, nil, &a)
	return a.ID
}

// TestADeliveryIsRedriven: what cannot be read says why, and is worked off
// again when a person says so.
func TestADeliveryIsRedriven(t *testing.T) {
	s := begin(t)
	s.must("POST", "/api/v1/automations", args{"name": "deploys"}, nil)
	owner := s.person("owner")
	owner.goTo("/triggers/new?provider=custom&automation=deploys")
	form := owner.within("form[data-form=trigger]")
	form.fill("[name=name]", "deploy hook")
	form.fill(`[name="config.verification.scheme"]`, "header")
	form.fill(`[name="config.match"]`, `{"/status": `)
	form.click("Create trigger")
	form.shows(`[name="config.match"][aria-invalid]`)
	form.fill(`[name="config.match"]`, `{"/status": "failed"}`)
	form.fill(`[name="config.event_path"]`, "/kind")
	form.click("Create trigger")
	owner.shows("#secret-once")
	owner.within("#secret-once").click("Copy the secret")
	// The notice hides after 6 s, which a busy machine may take to look; its text stays.
	owner.waitFor(`document.querySelector("#notice").textContent === "Copied"`, "the notice that it is copied")
	var secret, url, commands string
	owner.eval(`document.querySelector("#trigger-secret").textContent`, &secret)
	owner.eval(`document.querySelector("#trigger-url").textContent`, &url)
	owner.eval(`document.querySelector("#sample").textContent`, &commands)
	if !strings.Contains(commands, "X-Webhook-Token: $WEBHOOK_SECRET") || strings.Contains(commands, secret) {
		t.Errorf("the commands are %s", commands)
	}
	owner.photo("trigger-custom")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("no JSON"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Webhook-Token", secret)
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("a delivery was answered %v, %v", response, err)
	}
	owner.goTo("/deliveries?status=failed")
	owner.sees("deploy hook", "body is not JSON")
	owner.photo("deliveries")
	before := s.deliveryEnded()
	owner.within("#delivery-list").click("Redrive")
	owner.confirm()
	await(t, "the delivery to be worked off again", func() bool { return s.deliveryEnded() > before })

	member := s.person("member")
	member.goTo("/triggers")
	member.click("deploy hook")
	member.sees("/kind", "Recent events")
	member.hides("main form, main [data-call], main [data-press]:not([data-press=copy]), #deliveries")
}

// deliveryEnded is when the failed delivery was last worked off.
func (s *story) deliveryEnded() string {
	s.t.Helper()
	var list struct {
		Items []struct {
			Ended string `json:"processed_at"`
		} `json:"items"`
	}
	s.must("GET", "/api/v1/deliveries?provider=custom", nil, &list)
	if len(list.Items) == 0 {
		return ""
	}
	return list.Items[0].Ended
}
