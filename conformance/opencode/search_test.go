package opencode_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestFiveHundredToolsAreSearched has a model find the one tool that it needs
// without being shown the others.
func TestFiveHundredToolsAreSearched(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--tool-list", "search")
	tools := []tool{{Name: "set_thermostat", Description: "Sets the temperature of a room.", Does: "set "}}
	for n := range 499 {
		tools = append(tools, tool{Name: fmt.Sprintf("lamp_%03d", n), Description: fmt.Sprintf("Switches lamp %d.", n), Does: "switched "})
	}
	home := startUpstream(tools...)
	t.Cleanup(home.close)
	if err := s.connects("home", home); err != nil {
		t.Fatal(err)
	}
	const wanted = "home_set_thermostat"
	model := s.model(
		call("sallyport_actions_search", args{"query": "room temperature"}),
		call("sallyport_actions_describe", args{"tool": wanted}),
		call("sallyport_actions_call", args{"tool": wanted, "arguments": args{"text": "21"}}),
		say("It is warm now."),
	)
	run := s.opencode(model).run("Make it warm.")
	s.approve(s.held())
	run.ends()

	first := model.turn(0)
	first.has("sallyport_actions_search", "sallyport_actions_describe", "sallyport_actions_call", "sallyport_invocation_wait")
	if more := append(first.offers("sallyport_home_"), first.offers("sallyport_demo_")...); len(more) != 0 {
		t.Errorf("the model was offered %q beside", more)
	}
	if !strings.Contains(first.system(), "actions_search") {
		t.Errorf("the system prompt does not tell of actions_search:\n%s", first.system())
	}
	if found := model.result(1); !strings.Contains(found, wanted) || strings.Contains(found, "lamp_") {
		t.Errorf("the search found:\n%s", found)
	}
	model.sees(2, wanted, "Sets the temperature of a room.", `"required"`)
	if got := model.result(3); got != "set 21" {
		t.Errorf("the model saw %q", got)
	}
	if i := s.only(); i.Action != "set_thermostat" || i.Status != "completed" {
		t.Errorf("the call ended as %+v", i)
	}
	raw, err := json.Marshal(first.Tools)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the list that the model was sent has %d bytes, OpenCode's own tools among them", len(raw))
}
