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
