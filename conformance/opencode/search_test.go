package opencode_test

import (
	"fmt"
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

// TestFiveHundredToolsAreSearched has a model find the one tool that it needs
// without being shown the others.
func TestFiveHundredToolsAreSearched(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--tool-list", "search")
	tools := []harness.Tool{{Name: "set_thermostat", Description: "Sets the temperature of a room.", Does: "set "}}
	for n := range 499 {
		tools = append(tools, harness.Tool{Name: fmt.Sprintf("lamp_%03d", n), Description: fmt.Sprintf("Switches lamp %d.", n), Does: "switched "})
	}
	home := harness.StartUpstream(tools...)
	t.Cleanup(home.Close)
	if err := s.Connect("home", home); err != nil {
		t.Fatal(err)
	}
	const wanted = "home_set_thermostat"
	model := s.model(
		harness.Call("sallyport_actions_search", args{"query": "room temperature"}),
		harness.Call("sallyport_actions_describe", args{"tool": wanted}),
		harness.Call("sallyport_actions_call", args{"tool": wanted, "arguments": args{"text": "21"}}),
		harness.Say("It is warm now."),
	)
	run := s.opencode(model).run("Make it warm.")
	s.Approve(s.Held())
	run.Succeeds()

	first := model.Turn(0)
	first.Has("sallyport_actions_search", "sallyport_actions_describe", "sallyport_actions_call", "sallyport_invocation_wait")
	if more := append(first.Offers("sallyport_home_"), first.Offers("sallyport_demo_")...); len(more) != 0 {
		t.Errorf("the model was offered %q beside", more)
	}
	if !strings.Contains(first.System, "actions_search") {
		t.Errorf("the system prompt does not tell of actions_search:\n%s", first.System)
	}
	if found := model.Result(1); !strings.Contains(found, wanted) || strings.Contains(found, "lamp_") {
		t.Errorf("the search found:\n%s", found)
	}
	model.Sees(2, wanted, "Sets the temperature of a room.", `"required"`)
	if got := model.Result(3); got != "set 21" {
		t.Errorf("the model saw %q", got)
	}
	if i := s.Only(); i.Action != "set_thermostat" || i.Status != "completed" {
		t.Errorf("the call ended as %+v", i)
	}
}
