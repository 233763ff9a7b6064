package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A gateway takes no webhooks, and says who does.
func TestGatewaysNameWhoTakesWebhooks(t *testing.T) {
	t.Parallel()
	v := openVaulted(t, Options{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	w := httptest.NewRecorder()
	v.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/direct/github/x", strings.NewReader("{}")))
	if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), "sallyport ingest") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

// A client that looks for an OAuth server does not get a page.
func TestOAuthProbesGetNoPage(t *testing.T) {
	t.Parallel()
	v := openVaulted(t, Options{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/mcp/.well-known/openid-configuration", "/register"} {
		w := httptest.NewRecorder()
		v.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("{}")))
		if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), `"error_description":"This gateway does not use OAuth`) {
			t.Errorf("%s answered %d %s", path, w.Code, w.Body)
		}
	}
}
