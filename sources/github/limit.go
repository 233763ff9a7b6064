package github

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/outbound"
)

// How long GitHub is left alone where it does not say, and at most.
const (
	secondaryWait = time.Minute
	longestWait   = 2 * time.Hour
)

// limited tells GitHub's two limits from a plain refusal, which may have the
// same status. The primary one counts requests of an hour and is over when it
// says. The secondary one is about how fast they come, and whoever goes on
// regardless is shut out.
func limited(r *outbound.Response) (time.Duration, bool) {
	if r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests {
		return 0, false
	}
	after, asked := retryAfter(r.Header)
	secondary := isSecondary(r.Body)
	switch {
	case asked && (secondary || r.Status == http.StatusTooManyRequests):
		return bounded(after), true
	case r.Header.Get("X-Ratelimit-Remaining") == "0" && !forbidden(r):
		return bounded(untilReset(r.Header)), true
	case asked && !forbidden(r), secondary, r.Status == http.StatusTooManyRequests:
		return bounded(max(after, secondaryWait)), true
	}
	return 0, false
}

func bounded(wait time.Duration) time.Duration { return min(max(wait, time.Second), longestWait) }

func isSecondary(body []byte) bool {
	f := readFault(body)
	text := strings.ToLower(f.Message)
	return strings.HasSuffix(f.Documentation, "secondary-rate-limits") || strings.HasSuffix(f.Documentation, "#abuse-rate-limits") ||
		strings.Contains(text, "secondary rate limit") || strings.Contains(text, "abuse detection")
}

// forbidden reports whether a 403 says itself why, and that it is no limit: the
// last request of an hour may be one that is not permitted.
func forbidden(r *outbound.Response) bool {
	return r.Status == http.StatusForbidden &&
		(r.Header.Get("X-Github-Sso") != "" || strings.HasPrefix(readFault(r.Body).Message, "Resource not accessible"))
}

func retryAfter(h http.Header) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

// untilReset is by GitHub's own clock, where it tells the time.
func untilReset(h http.Header) time.Duration {
	reset, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		return secondaryWait
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return time.Unix(reset, 0).Sub(now)
}

// fault is the body of an answer that is no success.
type fault struct {
	Message       string          `json:"message"`
	Documentation string          `json:"documentation_url"`
	Errors        json.RawMessage `json:"errors"` // of any form
}

// detail is one of a fault's errors.
type detail struct {
	Resource string `json:"resource"`
	Field    string `json:"field"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// readFault reads as much as there is to read.
func readFault(body []byte) fault {
	var f fault
	if json.Unmarshal(body, &f) != nil {
		return fault{}
	}
	return f
}

// details are the errors of a fault. GitHub writes some as mere text.
func (f fault) details() []detail {
	var list []json.RawMessage
	if json.Unmarshal(f.Errors, &list) != nil {
		list = []json.RawMessage{f.Errors}
	}
	var details []detail
	for _, raw := range list {
		var d detail
		if json.Unmarshal(raw, &d) == nil || json.Unmarshal(raw, &d.Message) == nil {
			details = append(details, d)
		}
	}
	return details
}
