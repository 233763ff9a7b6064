package clients_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/conformance/harness"
)

const modelKey = "sk-canary-5e0f1d2c3b4a"

// TestModelsThroughGateway runs each client without a key of a provider: its model is
// reached with the session's token, its tokens are counted, and a used-up budget is said
// to its user at once.
func TestModelsThroughGateway(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := harness.Alone(t, nil)
		m := harness.NewModel(t, c.dialect, harness.Say("I looked after them."))
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			headers := fmt.Sprint(r.Header)
			if !strings.Contains(headers, modelKey) || strings.Contains(headers, s.Token) {
				t.Errorf("the provider was sent %s", headers)
			}
			m.ServeHTTP(w, r)
		}))
		t.Cleanup(provider.Close)
		dialect := map[string]string{"Claude Code": "anthropic", "Codex": "openai", "Gemini CLI": "google"}[c.name]
		s.Must(t, "PUT", "/api/v1/secrets/models", args{"value": modelKey, "host": strings.TrimPrefix(provider.URL, "http://")}, nil)
		s.Must(t, "PUT", "/api/v1/models/providers/"+dialect, args{"url": provider.URL, "secret": "models"}, nil)

		start := func() *harness.Process {
			a := c.install(t, s, &harness.Model{Server: &httptest.Server{URL: s.URL + "/llm/" + dialect}})
			a.Env = append(a.Env, "ANTHROPIC_API_KEY=", "ANTHROPIC_AUTH_TOKEN="+s.Token, "MODEL_KEY="+s.Token, "GEMINI_API_KEY="+s.Token)
			return a.Start(append(c.ask, "Look after my notes.")...)
		}
		if said := start().Succeeds(); !strings.Contains(said, "I looked after them.") {
			t.Errorf("the client said %s", said)
		}
		var usage struct {
			Items []struct {
				Requests int
				Input    int `json:"input_tokens"`
				Output   int `json:"output_tokens"`
			}
		}
		s.Must(t, "GET", "/api/v1/models/usage?by=session&session="+s.ID, nil, &usage)
		if len(usage.Items) != 1 || usage.Items[0].Requests == 0 || usage.Items[0].Input == 0 || usage.Items[0].Output == 0 {
			t.Errorf("the usage is %+v", usage)
		}
		s.Must(t, "PUT", "/api/v1/models/limits", args{"scope": "organization", "tokens": 1}, nil)
		if said := start().Ends(); !strings.Contains(said, "budget for models of organization is used up") {
			t.Errorf("over its budget, the client said %s", said)
		}
	})
}
