package dashboard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/internal/hangup"
	"sallyport/internal/hangup/hanguptest"
)

// eager is a client that leaves as soon as it has its answer.
type eager struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w eager) Flush() { w.leave() }

// A result is delivered to who is there when it goes out, however soon he
// leaves, and not to who left before.
func TestDelivery(t *testing.T) {
	for name, c := range map[string]struct {
		left bool
		want int
	}{"leaves with the answer": {false, 1}, "left before it": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if c.left {
				ctx = hangup.ConnContext(ctx, hanguptest.Conn(t))
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/sessions/s1/actions/invoke", strings.NewReader(`{"source":"github","action":"list"}`))
			r.Host = "gate.test:8787"
			r.Header.Set("Authorization", "Bearer "+h.agent)
			r.Header.Set("Content-Type", "application/json")
			w := eager{httptest.NewRecorder(), leave}
			h.srv.Handler().ServeHTTP(w, r)
			if got := h.gate.deliveries(); w.Code != http.StatusOK || got != c.want {
				t.Errorf("answered with %d, delivered %d times, want %d", w.Code, got, c.want)
			}
		})
	}
}
