package github

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/outbound"
)

// Backoff when GitHub does not specify one, and its upper bound.
const (
	defaultWait = time.Minute
	maxWait     = 2 * time.Hour
)

// rateLimited distinguishes GitHub's two rate limits from a refusal, which can
// have the same status. The primary limit counts requests per hour and resets
// at a stated time. The secondary limit is on the request rate, and clients
// that ignore it are banned.
func rateLimited(r *outbound.Response) (time.Duration, bool) {
	if r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests {
		return 0, false
	}
	after, asked := retryAfter(r.Header)
	secondary := isSecondary(r.Body)
	switch {
	case asked && (secondary || r.Status == http.StatusTooManyRequests):
		return clampWait(after), true
	case r.Header.Get("X-Ratelimit-Remaining") == "0" && !isPermissionError(r):
		return clampWait(untilReset(r.Header)), true
	case asked && !isPermissionError(r), secondary, r.Status == http.StatusTooManyRequests:
		return clampWait(max(after, defaultWait)), true
	}
	return 0, false
}

func clampWait(wait time.Duration) time.Duration { return min(max(wait, time.Second), maxWait) }

func isSecondary(body []byte) bool {
	f := parseError(body)
	text := strings.ToLower(f.Message)
	return strings.HasSuffix(f.Documentation, "secondary-rate-limits") || strings.HasSuffix(f.Documentation, "#abuse-rate-limits") ||
		strings.Contains(text, "secondary rate limit") || strings.Contains(text, "abuse detection")
}

// isPermissionError reports whether a 403 states a reason other than a rate
// limit. The last request before a limit can also lack a permission.
func isPermissionError(r *outbound.Response) bool {
	return r.Status == http.StatusForbidden &&
		(r.Header.Get("X-Github-Sso") != "" || strings.HasPrefix(parseError(r.Body).Message, "Resource not accessible"))
}

func retryAfter(h http.Header) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

// untilReset returns the time until the reset by GitHub's clock, if the
// response has a date.
func untilReset(h http.Header) time.Duration {
	reset, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		return defaultWait
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return time.Unix(reset, 0).Sub(now)
}

// apiError is the body of an unsuccessful response.
type apiError struct {
	Message       string          `json:"message"`
	Documentation string          `json:"documentation_url"`
	Errors        json.RawMessage `json:"errors"` // of varying form
}

// errorDetail is one of the errors in an apiError.
type errorDetail struct {
	Resource string `json:"resource"`
	Field    string `json:"field"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// parseError decodes an error, or returns an empty one.
func parseError(body []byte) apiError {
	var f apiError
	if json.Unmarshal(body, &f) != nil {
		return apiError{}
	}
	return f
}

// details returns the errors. GitHub sends some as plain strings.
func (f apiError) details() []errorDetail {
	var list []json.RawMessage
	if json.Unmarshal(f.Errors, &list) != nil {
		list = []json.RawMessage{f.Errors}
	}
	var details []errorDetail
	for _, raw := range list {
		var d errorDetail
		if json.Unmarshal(raw, &d) == nil || json.Unmarshal(raw, &d.Message) == nil {
			details = append(details, d)
		}
	}
	return details
}
