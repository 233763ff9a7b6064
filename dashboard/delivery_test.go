package dashboard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/internal/hangup"
	"sallyport/internal/hangup/hanguptest"
)

// eager is a client that leaves as soon as it has its answer, or whose
// connection fails at the end of it.
type eager struct {
	*httptest.ResponseRecorder
	leave func()
	err   error
}

func (w eager) FlushError() error {
	w.leave()
	return w.err
}

// A result, and a refusal too, is delivered if the client is connected when it
// is sent, however soon it leaves then, and not if it left before.
func TestDelivery(t *testing.T) {
	for name, c := range map[string]struct {
		action string
		status int
		left   bool
		fails  error
		want   int
	}{
		"leaves with the answer": {"list", http.StatusOK, false, nil, 1},
		"is refused":             {"drop", http.StatusForbidden, false, nil, 1},
		"left before it":         {"list", http.StatusOK, true, nil, 0},
		"cannot be written to":   {"list", http.StatusOK, false, io.ErrClosedPipe, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if c.left {
				ctx = hangup.ConnContext(ctx, hanguptest.Conn(t))
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/sessions/s1/actions/invoke", strings.NewReader(`{"source":"github","action":"`+c.action+`"}`))
			r.Host = "gate.test:8787"
			r.Header.Set("Authorization", "Bearer "+h.agent)
			r.Header.Set("Content-Type", "application/json")
			w := eager{httptest.NewRecorder(), leave, c.fails}
			h.srv.Handler().ServeHTTP(w, r)
			if got := h.gate.deliveries(); w.Code != c.status || got != c.want {
				t.Errorf("answered with %d, delivered %d times, want %d", w.Code, got, c.want)
			}
		})
	}
}
