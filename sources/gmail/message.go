package gmail

import (
	"context"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

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
