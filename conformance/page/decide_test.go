package page_test

import (
	"slices"
	"testing"
)

// TestAgentWaitsForAPerson is the whole story of an approval: the call of an
// agent that waits appears live wherever somebody looks, is approved once, on
// a phone; the agent has its result, and the other windows say who decided.
func TestAgentWaitsForAPerson(t *testing.T) {
	s := begin(t)
	owner, admin := s.person("owner"), s.person("admin")
	tab, phone := owner.beside(), owner.anew()
	tab.goTo("/")
	phone.phone()
	agent := s.agent("Fix the login page")
	call := agent.call("demo_write", args{"text": "the shopping list", "title": "milk and bread"})
	card := "#inv-" + agent.held()

	for _, w := range []*window{owner, tab, phone, admin} {
		w.within(card).sees("Fix the login page", "Demo", "write", "the shopping list", "milk and bread")
	}
	owner.photo("approval-waits")
	phone.within(card).click("Approve")
	if got := call.text(); got != "wrote the shopping list" {
		t.Errorf("the agent was told %q", got)
	}
	for _, w := range []*window{owner, tab, phone, admin} {
		w.within(card).sees("Approved by", "Olga Owner", "completed")
		w.within(card).hides("button.approve")
	}
	admin.photo("approval-seen-by-another")
	did := slices.DeleteFunc(s.demo.did(), func(what string) bool { return what != "wrote the shopping list" })
	if len(did) != 1 {
		t.Errorf("the upstream did it %d times", len(did))
	}
}
