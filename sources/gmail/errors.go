package gmail

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/outbound"
	"sallyport/sources"
)

// apiError is the error body of Google's APIs.
type apiError struct {
	Error struct {
		Status  string `json:"status"` // such as PERMISSION_DENIED
		Message string `json:"message"`
		Errors  []struct {
			Reason string `json:"reason"` // such as insufficientPermissions
		} `json:"errors"`
	} `json:"error"`
}

// parseError returns the error in a response and its most specific code. Both
// are empty for a body of another form.
func parseError(r *outbound.Response) (f apiError, code string) {
	if json.Unmarshal(r.Body, &f) != nil {
		return apiError{}, ""
	}
	if len(f.Error.Errors) > 0 {
		return f, f.Error.Errors[0].Reason
	}
	return f, f.Error.Status
}

func refusal(r *outbound.Response) *sources.Refusal {
	f, code := parseError(r)
	out := &sources.Refusal{
		Code: sources.Printable(code, 80), Status: r.Status, Detail: sources.Printable(f.Error.Message, 500),
		Message: fmt.Sprintf("Gmail answered %d; try again later, or connect the mailbox again.", r.Status),
	}
	switch {
	case r.Status == http.StatusUnauthorized:
		out.Credential = true
		out.Message = "Google does not take the credential of this mailbox any more; have an admin connect it again."
	case code == "insufficientPermissions":
		out.Message = "The sign-in did not allow reading the mail; connect again and allow it (scope gmail.readonly)."
	case code == "accessNotConfigured":
		out.Message = "The Gmail API is off in the Google project of the OAuth client; have its owner switch it on."
	case r.Status == http.StatusForbidden:
		out.Message = "Google does not allow this; ask the administrator of the Google account whether the gateway may read its mail."
	}
	return out
}

// rateLimited recognizes both of Google's rate limit responses: 429, and 403
// with a rate limit reason.
func rateLimited(r *outbound.Response) (time.Duration, bool) {
	_, code := parseError(r)
	quota := r.Status == http.StatusForbidden &&
		slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded"}, code)
	if r.Status != http.StatusTooManyRequests && !quota {
		return 0, false
	}
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > 86_400 {
		return 0, true
	}
	return time.Duration(seconds) * time.Second, true
}
