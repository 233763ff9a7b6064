package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// call is one API request: a POST with a JSON body, or a GET with a query for
// read methods, which accept no JSON.
type call struct {
	method     string
	query      url.Values
	body       []byte
	repeatable bool // safe to retry
}

// postsMessage reports whether the call posts a message. All other calls can be
// retried.
func (k call) postsMessage() bool { return !k.repeatable }

// callAPI sends a call, decodes a successful response into out and returns the
// response header.
func callAPI(ctx context.Context, c *sources.Conn, k call, out any) (http.Header, error) {
	r := &outbound.Request{
		Method: http.MethodGet, Path: "/" + k.method, Query: k.query, Body: k.body,
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: k.repeatable, Limited: rateLimited,
	}
	if k.body != nil {
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	resp, err := c.HTTP.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkResponse(resp, k.postsMessage()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return nil, outcomeUnknown(resp.Status, err.Error(), k.postsMessage())
	}
	return resp.Header, nil
}

// apiResponse holds the fields of every response. Apart from 429, the HTTP
// status is not meaningful.
type apiResponse struct {
	OK       *bool  `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	Provided string `json:"provided"`
}

func parseResponse(resp *outbound.Response) (v apiResponse) {
	if json.Unmarshal(resp.Body, &v) != nil {
		return apiResponse{}
	}
	return v
}

// rateLimited recognizes both of Slack's rate limit responses. Neither posts
// the message.
func rateLimited(resp *outbound.Response) (time.Duration, bool) {
	v := parseResponse(resp)
	flagged := v.OK != nil && !*v.OK && (v.Error == "ratelimited" || v.Error == "rate_limited")
	if !flagged && resp.Status != http.StatusTooManyRequests {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return 0, true
	}
	return time.Duration(min(max(seconds, 0), maxWait)) * time.Second, true
}

// maxWait bounds Retry-After, in seconds, to prevent overflow.
const maxWait = 24 * 60 * 60

// checkResponse returns nil if Slack reports success, and otherwise the error.
// message is true for calls that post a message.
func checkResponse(resp *outbound.Response, message bool) error {
	v := parseResponse(resp)
	// Slack may have posted the message despite these errors.
	uncertain := []string{"", "fatal_error", "internal_error", "service_unavailable", "request_timeout"}
	switch {
	case v.OK == nil && resp.Status >= http.StatusBadRequest && resp.Status < http.StatusInternalServerError && resp.Status != http.StatusRequestTimeout:
		return &sources.Refusal{Status: resp.Status, Message: "The base URL is not that of Slack's API. An admin must check the base URL of the integration."}
	case v.OK == nil, resp.Status >= http.StatusInternalServerError, !*v.OK && slices.Contains(uncertain, v.Error):
		return outcomeUnknown(resp.Status, v.Error, message)
	case *v.OK:
		return nil
	}
	return v.refusal(resp.Status, message)
}

func outcomeUnknown(status int, detail string, message bool) error {
	next := "Try again in a moment."
	if message {
		next = "The outcome is unknown: ask someone to check the channel before sending again."
	}
	return action.Errorf(action.ErrOutcomeUnknown, "upstream_failed",
		"Slack failed (status %d). %s", status, next).WithCause(fmt.Errorf("slack: %.300s", detail))
}

// refusal explains an error and how to fix it.
func (v apiResponse) refusal(status int, message bool) *sources.Refusal {
	r := &sources.Refusal{Code: sources.ValidID(v.Error), Status: status, Detail: strings.TrimSpace(v.Error + " " + v.Needed + " " + v.Provided)}
	switch v.Error {
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired":
		r.Credential = true
		r.Message = "Slack no longer accepts the credential of this integration. A person must connect it again."
	case "missing_scope":
		needed := v.Needed // quoted to the agent
		strange := func(r rune) bool { return (r < 'a' || r > 'z') && !strings.ContainsRune(":._,", r) }
		if needed == "" || len(needed) > 200 || strings.ContainsFunc(needed, strange) {
			needed = "that this needs"
		}
		r.Message = fmt.Sprintf("The app lacks the scope %s; an admin must connect Slack again with it.", needed)
	case "access_denied", "no_permission", "team_access_not_granted", "ekm_access_denied", "not_allowed_token_type", "org_login_required":
		r.Message = "The workspace does not let the app do this; an admin of the workspace must allow it."
	default:
		if r.Message = "Slack rejected the request. An admin must check the app in the workspace, or connect Slack again."; message {
			r.Message = messageError(v.Error)
		}
	}
	return r
}

// messageError explains why Slack rejected a message.
func messageError(code string) string {
	switch code {
	case "channel_not_found":
		return "There is no such channel, or the app does not see it; give channel as an id, and have the app invited where the channel is private."
	case "not_in_channel":
		return "The app is not in this channel; have somebody invite it there, or choose another channel."
	case "is_archived":
		return "The channel is archived; choose another channel."
	case "msg_too_long", "msg_blocks_too_long":
		return "The text is too long for Slack; shorten text, or split it into several messages."
	case "no_text":
		return "Slack sees no text in the message; give text something to show."
	case "cannot_reply_to_message", "thread_not_found", "invalid_thread_ts", "message_not_found":
		return "There is no such message to reply to in this channel; correct thread_ts to the ts of a thread's first message, or leave it out."
	case "restricted_action_thread_locked":
		return "The thread is locked; leave thread_ts out, or choose another."
	case "restricted_action_non_threadable_channel":
		return "This channel takes no threads; leave thread_ts out."
	case "restricted_action_thread_only_channel":
		return "This channel takes replies only; give thread_ts, or choose another channel."
	case "restricted_action", "restricted_action_read_only_channel":
		return "The workspace does not let the app post to this channel; choose another, or ask an admin of the workspace."
	}
	return "Slack rejected this message. Correct channel, text or thread_ts as the code says, or ask an admin of the workspace."
}
