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

// fault is the error of Google's APIs.
type fault struct {
	Error struct {
		Status  string `json:"status"` // such as PERMISSION_DENIED
		Message string `json:"message"`
		Errors  []struct {
			Reason string `json:"reason"` // such as insufficientPermissions
		} `json:"errors"`
	} `json:"error"`
}

// read returns what an answer says is wrong, and the most exact code of it. An
// answer of another shape says nothing.
func read(r *outbound.Response) (f fault, code string) {
	if json.Unmarshal(r.Body, &f) != nil {
		return fault{}, ""
	}
	if len(f.Error.Errors) > 0 {
		return f, f.Error.Errors[0].Reason
	}
	return f, f.Error.Status
}

func refusal(r *outbound.Response) *sources.Refusal {
	f, code := read(r)
	no := &sources.Refusal{
		Code: sources.Printable(code, 80), Status: r.Status, Detail: sources.Printable(f.Error.Message, 500),
		Message: fmt.Sprintf("Gmail answered %d; try again later, or connect the mailbox again.", r.Status),
	}
	switch {
	case r.Status == http.StatusUnauthorized:
		no.Credential = true
		no.Message = "Google does not take the credential of this mailbox any more; have an admin connect it again."
	case code == "insufficientPermissions":
		no.Message = "The sign-in did not allow reading the mail; connect again and allow it (scope gmail.readonly)."
	case code == "accessNotConfigured":
		no.Message = "The Gmail API is off in the Google project of the OAuth client; have its owner switch it on."
	case r.Status == http.StatusForbidden:
		no.Message = "Google does not allow this; ask the administrator of the Google account whether the gateway may read its mail."
	}
	return no
}

// limited knows Google's two ways to ask for fewer requests: 429, and a 403
// that says so.
func limited(r *outbound.Response) (time.Duration, bool) {
	_, code := read(r)
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
