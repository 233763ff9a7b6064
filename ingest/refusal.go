package ingest

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer to a delivery that was not taken in.
type refusal struct {
	status  int
	count   string // as what it is counted
	message string
	retry   time.Duration // when to try again; zero: not said
}

func (r *refusal) Error() string { return r.message }

// notOurs is all that is said of an unknown URL, a wrong signature and an old
// one: more would help only those who try them out.
const notOurs = "Nothing takes this delivery. Compare the URL, the secret and how it signs with what the trigger says; for a signed time, set the clock."

// The refusals.
var (
	errUnknown   = &refusal{status: http.StatusNotFound, count: "unknown", message: notOurs}
	errSignature = &refusal{status: http.StatusUnauthorized, count: "unsigned", message: notOurs}
	errStale     = &refusal{status: http.StatusUnauthorized, count: "stale", message: notOurs}
	errMethod    = &refusal{status: http.StatusMethodNotAllowed, count: "method", message: "Deliveries are posted; GET tells whether the URL is there."}
	errEncoding  = &refusal{status: http.StatusUnsupportedMediaType, count: "encoded", message: "The body is compressed; send it as it is, without Content-Encoding."}
	errTooLarge  = &refusal{status: http.StatusRequestEntityTooLarge, count: "too_large", message: "The body is too large for this URL; have the service send less."}
	errBroken    = &refusal{status: http.StatusBadRequest, count: "broken", message: "The body broke off; send it again."}
	errSlow      = &refusal{status: http.StatusRequestTimeout, count: "slow", message: "The body took too long; send it again."}
	errBusy      = &refusal{status: http.StatusServiceUnavailable, count: "busy", message: "There are too many deliveries at once; send it again.", retry: 10 * time.Second}
	errStorage   = &refusal{status: http.StatusServiceUnavailable, count: "unavailable", message: "The delivery could not be kept; send it again.", retry: 5 * time.Second}
)

// flooded refuses what comes too often.
func flooded(wait time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, count: "flooded", message: "This URL gets too many deliveries; send it again later.", retry: wait}
}

// refuse answers and counts.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e endpoint, err error) {
	var no *refusal
	if !errors.As(err, &no) {
		s.Log.ErrorContext(r.Context(), "a delivery failed", "endpoint", e.path, "error", err)
		no = errStorage
	}
	provider := ""
	if e.provider != nil {
		provider = e.provider.ID
	}
	s.Count(no.count, provider)
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.retry.Seconds()))))
	}
	hurry(w, restTime) // a body that was not read comes before the answer
	text, _ := json.Marshal(map[string]string{"error": no.message})
	answer(w, no.status, string(text))
}

func answer(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
