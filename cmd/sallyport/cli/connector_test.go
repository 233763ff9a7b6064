package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// A canceled wait is reported as canceled, not as timed out.
func TestSignInCanceled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			begun = true
			fmt.Fprint(w, `{"authorize_url":"https://auth.example/","host":"auth.example","issuer":"https://id.example/o","known":false}`)
		case begun:
			stop()
			fallthrough
		default:
			fmt.Fprint(w, `{"name":"Linear","oauth":{"kind":"authorization_code"},"oauth_status":{"status":"not_connected"}}`)
		}
	}))
	defer server.Close()
	t.Setenv("SALLYPORT_API_KEY", "key")
	var out, said bytes.Buffer
	status := executeClient(ctx, []string{"connector", "sign-in", "Linear", "--wait", "9m", "--url", server.URL}, nil, &out, &said)
	if status != command.ExitError || !strings.Contains(said.String(), "stopped before the sign-in") || strings.Contains(said.String(), "9m") {
		t.Errorf("status %d: %s", status, said.String())
	}
	if want := "the URL leads to auth.example, for the authorization server https://id.example/o; open it only if you know that it belongs to the service"; !strings.Contains(said.String(), want) {
		t.Errorf("it does not say where it leads: %s", said.String())
	}
}

// A name takes precedence over patterns, a longer pattern over shorter ones, and
// each over --all-reads.
func TestOnboardModes(t *testing.T) {
	c := &connectorOnboard{AllReads: action.ModeAllow, Mode: map[string]action.Mode{
		"get_*": action.ModeRequireApproval, "get_secret_*": action.ModeDeny, "get_secret_name": action.ModeAllow, "*_all": action.ModeDeny, "a.c": action.ModeDeny,
	}}
	for tool, want := range map[string]action.Mode{
		"get_note": action.ModeRequireApproval, "get_secret_key": action.ModeDeny, "get_secret_name": action.ModeAllow, "wipe_all": action.ModeDeny, "list": action.ModeAllow, "abc": action.ModeAllow,
	} {
		if got := c.mode(&api.ReviewView{Tool: tool, Risk: action.RiskRead}); got != want {
			t.Errorf("%s gets %q, want %q", tool, got, want)
		}
	}
	if got := c.mode(&api.ReviewView{Tool: "add", Risk: action.RiskWrite}); got != "" {
		t.Errorf("a write gets %q", got)
	}
	tools := []api.ReviewView{{Tool: "get_note"}}
	if err := (&connectorOnboard{Mode: map[string]action.Mode{"get_*": action.ModeAllow}}).checkModes(tools); err != nil {
		t.Error(err)
	}
	if err := (&connectorOnboard{Mode: map[string]action.Mode{"set_*": action.ModeAllow}}).checkModes(tools); err == nil || !strings.Contains(err.Error(), "set_*") {
		t.Errorf("a pattern without a tool: %v", err)
	}
}
