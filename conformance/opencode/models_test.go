package opencode_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

// TestModelsThroughGateway: OpenCode reaches its model, and the small one that writes
// titles, with the session's token alone; a model that is not allowed is said at once.
func TestModelsThroughGateway(t *testing.T) {
	t.Parallel()
	const modelKey = "sk-canary-5e0f1d2c3b4a"
	s := beginAlone(t)
	m := s.model(harness.Say("I looked after them."))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headers := fmt.Sprint(r.Header); !strings.Contains(headers, modelKey) || strings.Contains(headers, s.Token) {
			t.Errorf("the provider was sent %s", headers)
		}
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(provider.Close)
	s.Must(t, "PUT", "/api/v1/secrets/models", args{"value": modelKey, "host": strings.TrimPrefix(provider.URL, "http://")}, nil)
	s.Must(t, "PUT", "/api/v1/models/providers/scripted", args{"url": provider.URL, "secret": "models"}, nil)
	through := func(config args) {
		config["provider"].(args)["scripted"].(args)["options"] = args{"baseURL": s.URL + "/llm/scripted/v1", "apiKey": "{env:SALLYPORT_TOKEN}"}
	}
	if said := s.opencode(m, through).run("Look after my notes.").Succeeds(); !strings.Contains(said, "I looked after them.") {
		t.Errorf("OpenCode said %s", said)
	}
	s.Must(t, "PUT", "/api/v1/models/limits", args{"scope": "organization", "models": []string{"scripted/title"}}, nil)
	if said := s.opencode(m, through).run("Look after my notes.").Ends(); !strings.Contains(said, "Policy does not allow model scripted/agent") {
		t.Errorf("with another model allowed, OpenCode said %s", said)
	}
}
