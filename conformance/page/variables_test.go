package page_test

import (
	"bytes"
	"strings"
	"testing"
)

// theValue is what a person enters: it may be in the sandbox's answer, and
// nowhere else.
const theValue = "sk-test-a-value-that-nobody-reads"

// TestVariablesForAnAgent: a person is told who will read what he enters, gives
// one request what it asks for, takes a suggestion, and refuses another.
func TestVariablesForAnAgent(t *testing.T) {
	s := begin(t)
	axe := axe(t)
	owner := s.person("owner")
	agent := s.agent("Run the <b>checkout</b> tests")
	ask := func(keys ...any) string {
		t.Helper()
		call := agent.call("request_env_variables", args{"keys": keys})
		if text := call.text(); call.result().IsError {
			t.Fatal(text)
		}
		return s.variables(agent.Session)
	}
	id := ask(
		args{"key": "STRIPE_KEY", "type": "secret", "description": "The tests <i>call</i> Stripe."},
		args{"key": "STRIPE_MODE", "suggestions": []any{args{"label": "Test mode", "value": "test"}}},
		args{"key": "PROXY", "required": false},
	)
	owner.sees("3 environment variables", "Run the <b>checkout</b> tests")
	owner.goTo("/env-requests/" + id)
	card := owner.within("#env-" + id)
	card.sees("The agent can read what you enter here", "STRIPE_KEY", "The tests <i>call</i> Stripe.", "optional")
	owner.usable(axe)
	owner.photo("variables")
	owner.dark()
	owner.usable(axe, "color-contrast")
	owner.photo("variables-dark")
	owner.light()
	owner.phone()
	owner.fits()
	owner.photo("variables-phone")
	owner.desk()

	card.fill(`[name="v.STRIPE_KEY"]`, theValue)
	card.click("The agent suggests")
	card.click("Use")
	owner.photo("variables-entered")
	card.click("Send to agent")
	card.sees("Answered by", "The sandbox has not retrieved the values yet")
	owner.missesValue()

	refused := ask(args{"key": "PROD_KEY", "type": "secret"})
	owner.goTo("/")
	card = owner.within("#env-" + refused)
	card.click("Refuse…")
	card.fill("[name=reason]", "Use the test account.")
	card.click("Refuse")
	owner.hides("#env-" + refused)
	owner.goTo("/env-requests/" + refused)
	owner.sees("Refused by", "Use the test account.")

	pulled := s.pulls(agent)
	if pulled.Values["STRIPE_KEY"] != theValue || pulled.Values["STRIPE_MODE"] != "test" || len(pulled.Values) != 2 {
		t.Errorf("the sandbox got %v", pulled.Values)
	}
	if len(pulled.Refused) != 1 || pulled.Refused[0].Reason != "Use the test account." {
		t.Errorf("the sandbox was told of %v", pulled.Refused)
	}
	if again := s.pulls(agent); len(again.Values) != 0 {
		t.Error("the values were handed out twice")
	}
	owner.goTo("/env-requests/" + id)
	owner.sees("The sandbox retrieved the values", "they are no longer stored")
	owner.photo("variables-taken")
	for _, path := range []string{"/env-requests/" + id, "/", "/activity", "/audit", "/settings"} {
		owner.goTo(path)
		owner.missesValue()
	}
	if bytes.Contains(s.logged(), []byte(theValue)) {
		t.Error("the gateway's log has the value")
	}
	member := s.person("member")
	member.goTo("/env-requests/" + ask(args{"key": "ANOTHER"}))
	member.sees("Only owners and admins can respond")
	member.offersNothing()
}

// missesValue fails the story when what was entered is anywhere in the page, or
// in what the browser keeps.
func (w *window) missesValue() {
	w.t.Helper()
	var all string
	w.eval(`document.documentElement.outerHTML + [...document.querySelectorAll("input, textarea")].map((f) => f.value) + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)`, &all)
	if strings.Contains(all, theValue) {
		w.t.Errorf("%s has the value", w.path())
	}
}

// variables is the id of the newest request of a session.
func (s *story) variables(session string) string {
	s.t.Helper()
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	s.must("GET", "/api/v1/env-requests?status=pending&session="+session, nil, &list)
	if len(list.Items) == 0 {
		s.t.Fatal("no request for variables waits")
	}
	return list.Items[0].ID
}

type pulled struct {
	Values  map[string]string `json:"values"`
	Refused []struct {
		Reason string `json:"reason"`
	} `json:"refused"`
}

// pulls takes, as the agent's sandbox, what people entered.
func (s *story) pulls(a *agent) (got pulled) {
	s.t.Helper()
	(&api{t: s.t, url: s.URL, key: a.Token}).must("POST", "/api/v1/sessions/"+a.Session+"/env/pull", nil, &got)
	return got
}
