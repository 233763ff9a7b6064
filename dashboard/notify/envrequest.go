package notify

import (
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

// EnvRequest is the payload about a request for environment variables: their
// names, and none of the agent's words about them, which may contain a value.
type EnvRequest struct {
	Names     []string           `json:"names"`
	Session   Session            `json:"session"`
	Request   string             `json:"env_request_id"`
	Status    action.EnvStatus   `json:"status"`
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at,omitempty"`
	Left      int                `json:"seconds_left,omitempty"`
	URL       string             `json:"url"`
	Event     action.NotifyEvent `json:"-"`
}

// envRequest returns the payload for a request.
func envRequest(w *action.DueNotification, public string, now time.Time) EnvRequest {
	r := w.Variables
	v := EnvRequest{
		Names: make([]string, len(r.Keys)), Session: sessionOf(w), Request: r.ID, Status: r.Status, CreatedAt: r.CreatedAt,
		URL: public + "/env-requests/" + r.ID, Event: w.Event,
	}
	for i, k := range r.Keys {
		v.Names[i] = plain(k.Key, maxName)
	}
	if r.Status == action.EnvPending {
		v.ExpiresAt, v.Left = &r.ExpiresAt, secondsTo(r.ExpiresAt, now)
	}
	return v
}

// post returns the Slack message for a pending or settled request.
func (v *EnvRequest) post() post {
	if v.Event == action.NotifySettled {
		p := titledPost("Variables for an agent: " + v.outcome())
		p.Blocks = append(p.Blocks, linkBlock("See what became of it", v.URL))
		return p
	}
	p := titledPost(fmt.Sprintf("An agent asks for %d environment variables", len(v.Names)))
	if len(v.Names) == 1 {
		p = titledPost("An agent asks for an environment variable")
	}
	facts := []textObject{*plainText("Names: " + plain(strings.Join(v.Names, ", "), maxText)), *plainText("Time left: " + durationText(v.Left)), *plainText("Asked by " + v.Session.describe())}
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, linkBlock("Look at it and answer", v.URL))
	return p
}

// outcome describes how the request was settled.
func (v *EnvRequest) outcome() string {
	switch v.Status {
	case action.EnvRefused:
		return "refused"
	case action.EnvExpired:
		return "expired, nobody needs to answer"
	case action.EnvPending, action.EnvAnswered, action.EnvTaken:
	}
	return "answered"
}
