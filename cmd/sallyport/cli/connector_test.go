package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	if status != command.ExitError || !strings.Contains(said.String(), "stopped before anybody signed in") || strings.Contains(said.String(), "9m") {
		t.Errorf("status %d: %s", status, said.String())
	}
	if want := "it leads to auth.example, for the authorization server https://id.example/o; go there only if you know it as the service's"; !strings.Contains(said.String(), want) {
		t.Errorf("it does not say where it leads: %s", said.String())
	}
}
