package gmail

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// get decodes the resource at a path of the user's mailbox into out.
func get(ctx context.Context, c *sources.Conn, query url.Values, out any, path ...string) error {
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method:     http.MethodGet,
		Path:       "/gmail/v1/users/me" + outbound.Path(path...),
		Query:      query,
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: true,
		Limited:    rateLimited,
	})
	if err != nil {
		return err
	}
	if resp.Status != http.StatusOK {
		return refusal(resp)
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return invalidResponse(c)
	}
	return nil
}

// invalidResponse is the error for a response that does not come from Gmail.
func invalidResponse(c *sources.Conn) error {
	return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The server at %s is not Gmail's API. Check the base URL.", c.HTTP.Base().Host)
}

// profile is the address of the mailbox and its current history ID.
type profile struct {
	Address   string `json:"emailAddress"`
	HistoryID string `json:"historyId"` // exceeds the range of JSON numbers
}

func getProfile(ctx context.Context, c *sources.Conn) (p profile, err error) {
	if err := get(ctx, c, nil, &p, "profile"); err != nil {
		return profile{}, err
	}
	if p.Address == "" {
		return profile{}, invalidResponse(c)
	}
	return p, nil
}

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
		out.Message = "Google no longer accepts the credential of this mailbox. Ask an admin to connect it again."
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

// message is an email without its body.
type message struct {
	ID       string   `json:"id"`
	ThreadID string   `json:"threadId"`
	Labels   []string `json:"labelIds"`
	Snippet  string   `json:"snippet"`      // start of the body, HTML-escaped
	Date     string   `json:"internalDate"` // when Gmail received it, in milliseconds
	Payload  struct {
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"headers"`
	} `json:"payload"`
}

func getMessage(ctx context.Context, c *sources.Conn, id string) (m message, err error) {
	if sources.ValidID(id) == "" {
		return m, invalidResponse(c)
	}
	err = get(ctx, c, url.Values{
		"format": {"metadata"}, "metadataHeaders": {"From", "To", "Cc", "Reply-To", "Subject", "Date", "Message-ID"},
	}, &m, "messages", id)
	if err == nil && m.ID != id {
		err = invalidResponse(c)
	}
	return m, err
}

// eventContext is the context of an event.
type eventContext struct {
	ID        string   `json:"id"`
	ThreadID  string   `json:"thread_id"`
	Labels    []string `json:"labels"`
	From      string   `json:"from"`
	To        string   `json:"to,omitempty"`
	Cc        string   `json:"cc,omitempty"`
	ReplyTo   string   `json:"reply_to,omitempty"`
	Subject   string   `json:"subject"`
	Date      string   `json:"date,omitempty"` // as set by the sender
	MessageID string   `json:"message_id,omitempty"`
	Snippet   string   `json:"snippet,omitempty"`
}

// titleLength bounds an event title, in characters.
const titleLength = 200

// event converts the message to an event; ok is false for drafts. Messages are
// immutable, so the ID and the time of receipt form the key.
func (m message) event() (event.Event, bool) {
	if slices.Contains(m.Labels, "DRAFT") {
		return event.Event{}, false
	}
	n := eventContext{
		ID: m.ID, ThreadID: m.ThreadID, Labels: append([]string{}, m.Labels...),
		From: m.header("From"), To: m.header("To"), Cc: m.header("Cc"), ReplyTo: m.header("Reply-To"),
		Subject: m.header("Subject"), Date: m.header("Date"), MessageID: m.header("Message-ID"),
		Snippet: html.UnescapeString(m.Snippet),
	}
	e := event.Event{
		Provider: "gmail", Type: messageEvent, Native: "messageAdded",
		Title:   sources.Printable("Mail from "+n.From+": "+n.Subject, titleLength),
		URL:     "https://mail.google.com/mail/#all/" + m.ID,
		Context: sources.EventContext(n),
	}
	if ms, err := strconv.ParseInt(m.Date, 10, 64); err == nil && ms > 0 && ms < 1<<47 {
		e.OccurredAt = time.UnixMilli(ms).UTC()
	}
	e.Key = m.ID + ":" + e.OccurredAt.Format(time.RFC3339Nano)
	return e, true
}

// header returns the first header of that name. Later duplicates may be added
// by the sender to spoof another identity.
func (m message) header(name string) string {
	for _, h := range m.Payload.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}
