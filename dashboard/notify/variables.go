package notify

import (
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

// Variables is all that is told of a request for environment variables: names,
// and no words of the agent about them, in which it may have put a value.
type Variables struct {
	Names     []string           `json:"names"`
	Session   Asker              `json:"session"`
	Request   string             `json:"env_request_id"`
	Status    action.EnvStatus   `json:"status"`
	CreatedAt time.Time          `json:"created_at"`
	ExpiresAt *time.Time         `json:"expires_at,omitempty"`
	Left      int                `json:"seconds_left,omitempty"`
	URL       string             `json:"url"`
	Event     action.NotifyEvent `json:"-"`
}

// variables is what may leave of a request.
func variables(w *action.DueNotification, public string, now time.Time) Variables {
	r := w.Variables
	v := Variables{
		Names: make([]string, len(r.Keys)), Session: asker(w), Request: r.ID, Status: r.Status, CreatedAt: r.CreatedAt,
		URL: public + "/env-requests/" + r.ID, Event: w.Event,
	}
	for i, k := range r.Keys {
		v.Names[i] = plain(k.Key, longName)
	}
	if r.Status == action.EnvPending {
		v.ExpiresAt, v.Left = &r.ExpiresAt, secondsTo(r.ExpiresAt, now)
	}
	return v
}

// post puts a request into words.
func (v *Variables) post() post {
	if v.Event == action.NotifySettled {
		p := headed("Variables for an agent: " + v.end())
		p.Blocks = append(p.Blocks, link("See what became of it", v.URL))
		return p
	}
	p := headed(fmt.Sprintf("An agent asks for %d environment variables", len(v.Names)))
	if len(v.Names) == 1 {
		p = headed("An agent asks for an environment variable")
	}
	facts := []words{*text("Names: " + plain(strings.Join(v.Names, ", "), longText)), *text("Time left: " + left(v.Left)), *text("Asked by " + v.Session.words())}
	p.Blocks = append(p.Blocks, block{Type: "section", Fields: facts}, link("Look at it and answer", v.URL))
	return p
}

// end says what became of the request.
func (v *Variables) end() string {
	switch v.Status {
	case action.EnvRefused:
		return "refused"
	case action.EnvExpired:
		return "expired, nobody needs to answer"
	case action.EnvPending, action.EnvAnswered, action.EnvTaken:
	}
	return "answered"
}
