package server

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Without a token only a listener on loopback tells its metrics.
func TestMetricsNeedATokenOffLoopback(t *testing.T) {
	t.Parallel()
	g := everyPart(t)
	for _, row := range []struct {
		listen, token, sent string
		status              int
		public              string
	}{
		{"127.0.0.1:0", "", "", 200, ""},
		{"0.0.0.0:0", "", "", 403, ""},
		{"0.0.0.0:0", "", "secret", 403, ""},
		{"0.0.0.0:0", "secret", "", 401, ""},
		{"0.0.0.0:0", "secret", "secret", 200, ""},
		{"127.0.0.1:0", "secret", "", 401, ""},
		{"127.0.0.1:0", "", "", 200, "http://localhost:8787"},
		{"127.0.0.1:0", "", "", 403, "https://gate.example.com"},
		{"127.0.0.1:0", "secret", "secret", 200, "https://gate.example.com"},
	} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", row.listen)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		one := &Gateway{Options: g.Options, listener: listener, gate: g.gate, DB: g.DB, catalog: g.catalog, coord: g.coord, counts: newServerMetrics(), log: slog.New(slog.NewTextHandler(&log, nil))}
		one.Options.Listen, one.Options.MetricsToken, one.Options.PublicURL = row.listen, row.token, row.public
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		if row.sent != "" {
			r.Header.Set("Authorization", "Bearer "+row.sent)
		}
		w := httptest.NewRecorder()
		one.metrics().ServeHTTP(w, r)
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		said := strings.Contains(log.String(), "--metrics-token")
		if w.Code != row.status || said != (row.status == 403) || row.status == 403 && !strings.Contains(w.Body.String(), "--metrics-token") {
			t.Errorf("%+v: %d %.100s, and the log %q", row, w.Code, w.Body, log.String())
		}
	}
}
