package dispatch

import (
	"encoding/json"
	"fmt"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// webhookPayload is the body of a request to an endpoint.
type webhookPayload struct {
	Type      string     `json:"type"`
	Timestamp time.Time  `json:"timestamp"`
	Data      runPayload `json:"data"`
}

// runPayload is all that a worker needs; claiming a run returns the same.
type runPayload struct {
	Run        event.Run         `json:"run"`
	Automation automationPayload `json:"automation"`
	Event      eventPayload      `json:"event"`
	Session    sessionPayload    `json:"session"`
	ClaimID    string            `json:"claim_id"`
	APIURL     string            `json:"api_url"`
}

type automationPayload struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Instructions string `json:"instructions"`
}

type eventPayload struct {
	event.Record
	Status  string          `json:"status"`
	Context json.RawMessage `json:"context,omitempty"` // absent after its retention
}

type sessionPayload struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	MCPURL    string    `json:"mcp_url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// payload returns the body. It is the same for all attempts, except for changes of
// the run.
func (d *Dispatcher) payload(one event.Dispatch, token string) ([]byte, error) {
	w := &one.Work
	o := runPayload{
		Run: w.Run, Automation: automationPayload{w.Automation.ID, w.Automation.Name, w.Automation.Instructions},
		Event:   eventPayload{Record: w.Record, Status: w.Record.Status()},
		Session: sessionPayload{w.Run.Session, token, d.MCPURL, w.ExpiresAt},
		ClaimID: w.Run.Claim, APIURL: d.APIURL,
	}
	if w.Sealed != nil {
		whole, err := d.Vault.Open(match.ContextRef(w.Record.Organization, w.Record.ID), w.Sealed)
		if err != nil {
			return nil, fmt.Errorf("opening the context of event %s: %w", w.Record.ID, err)
		}
		o.Event.Context = whole
	}
	return json.Marshal(webhookPayload{Type: "run.created", Timestamp: w.Run.CreatedAt, Data: o})
}
