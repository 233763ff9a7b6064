package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"sallyport/action"
	"sallyport/api"
	"sallyport/client"
)

// serve answers each request with h and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &client.Client{Base: base, Key: "spk_test", HTTP: s.Client()}
}

// A request has its parameters where the tags of the input say, and nothing of
// what is not set.
func TestRequest(t *testing.T) {
	var got *http.Request
	var body string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r, string(raw)
		_, _ = io.WriteString(w, `{}`)
	})
	for _, row := range []struct {
		name, want, body string
		send             func() error
	}{
		{"path and optional body", "POST /api/v1/triggers/a%2Fb/rotate", "", func() error {
			_, err := client.Do(t.Context(), c, api.RotateTrigger, api.ByIDWith[*api.Rotation]{ByID: api.ByID{ID: "a/b"}})
			return err
		}},
		{"lists and embedded parameters", "GET /api/v1/invocations?limit=5&person=me&status=failed%2Cdenied", "", func() error {
			in := api.ListInvocationsInput{Paging: api.Paging{Limit: 5}, CallerFilters: api.CallerFilters{Person: "me"}}
			in.Status = []action.Status{action.StatusFailed, action.StatusDenied}
			_, err := client.Do(t.Context(), c, api.ListInvocations, in)
			return err
		}},
		{"body", "PATCH /api/v1/automations/nightly", `{"enabled":false}`, func() error {
			in := api.ByAutomationWith[api.AutomationChange]{ByAutomation: api.ByAutomation{Automation: "nightly"}, Body: api.AutomationChange{Enabled: new(false)}}
			_, err := client.Do(t.Context(), c, api.UpdateAutomation, in)
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := row.send(); err != nil {
				t.Fatal(err)
			}
			if line := got.Method + " " + got.URL.RequestURI(); line != row.want || body != row.body {
				t.Errorf("sent %s %s, want %s %s", line, body, row.want, row.body)
			}
			if got.Header.Get("Authorization") != "Bearer spk_test" {
				t.Errorf("sent the credential %q", got.Header.Get("Authorization"))
			}
		})
	}
	in := api.CreateSessionInput{Key: "once", Body: api.NewSession{Kind: "interactive"}}
	if _, err := client.Do(t.Context(), c, api.CreateSession, in); err != nil || got.Header.Get("Idempotency-Key") != "once" {
		t.Errorf("sent the headers %v: %v", got.Header, err)
	}
}

// A refusal is told with its code; what is no answer of the API is an error of
// another kind.
func TestRefusal(t *testing.T) {
	status, text := http.StatusNotFound, `{"status":404,"code":"run_not_found","detail":"There is no such run."}`
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	_, err := client.Do(t.Context(), c, api.GetRun, api.ByID{ID: "r1"})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != "run_not_found" || refused.Error() != "There is no such run." {
		t.Errorf("refused with %v", err)
	}
	status, text = http.StatusBadGateway, "<html>"
	if _, err = client.Do(t.Context(), c, api.GetRun, api.ByID{ID: "r1"}); err == nil || errors.As(err, &refused) {
		t.Errorf("a proxy's page is told as %v", err)
	}
}
