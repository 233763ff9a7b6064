package opencode_test

import (
	"net/http"
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

// TestARunIsCompleted has the agent of an automation's run end it.
func TestARunIsCompleted(t *testing.T) {
	t.Parallel()
	s := beginAlone(t, "--dispatch-every", "100ms")
	run := s.claims()
	model := s.model(
		harness.Call("sallyport_automation_complete", args{"completion_id": "done", "outcome": "succeeded", "summary_markdown": "All is well."}),
		harness.Say("I am done."),
	)
	s.opencode(model).run("Look into it.").Succeeds()
	model.Turn(0).Has("sallyport_automation_complete")
	if got := model.Result(1); !strings.Contains(got, "succeeded") {
		t.Errorf("the model saw %q", got)
	}
	var ended struct {
		Status string `json:"status"`
	}
	s.Must(t, "GET", "/api/v1/runs/"+run, nil, &ended)
	if ended.Status != "succeeded" {
		t.Errorf("the run is %q", ended.Status)
	}
}

// claims has an event start a run and goes on in its session. It returns the
// run's id.
func (s *story) claims() (run string) {
	s.T.Helper()
	s.Must(s.T, "POST", "/api/v1/automations", args{"name": "triage", "instructions": "Look into it."}, nil)
	var trigger struct {
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	s.Must(s.T, "POST", "/api/v1/triggers", args{"automation": "triage", "provider": "custom", "config": args{"verification": args{"scheme": "header"}}}, &trigger)
	event, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, trigger.URL, strings.NewReader(`{"title":"It broke"}`))
	if err != nil {
		s.T.Fatal(err)
	}
	event.Header.Set("Content-Type", "application/json")
	event.Header.Set("X-Webhook-Token", trigger.Secret)
	answer, err := http.DefaultClient.Do(event)
	if err != nil {
		s.T.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		s.T.Fatalf("the webhook was answered %s", answer.Status)
	}
	var claimed struct {
		Run     struct{ ID string }
		Session struct{ ID, Token string }
	}
	harness.Await(s.T, "a run to claim", func() bool {
		_ = s.Send(s.T.Context(), "POST", "/api/v1/runs/claim", nil, &claimed) // there may be none yet
		return claimed.Run.ID != ""
	})
	s.ID, s.Token = claimed.Session.ID, claimed.Session.Token
	return claimed.Run.ID
}
