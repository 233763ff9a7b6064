package ingest

import (
	"encoding/json"
	"fmt"
	"time"

	"sallyport/ingest/event"
)

// notice is what an endpoint is sent.
type notice struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      offer     `json:"data"`
}

// offer is all that a worker needs; the same that claiming a run answers.
type offer struct {
	Run        event.Run  `json:"run"`
	Automation order      `json:"automation"`
	Event      occurrence `json:"event"`
	Session    pass       `json:"session"`
	ClaimID    string     `json:"claim_id"`
	APIURL     string     `json:"api_url"`
}

type order struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Instructions string `json:"instructions"`
}

type occurrence struct {
	event.Record
	Status  string          `json:"status"`
	Context json.RawMessage `json:"context,omitempty"` // whole; absent after its retention
}

type pass struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	MCPURL    string    `json:"mcp_url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// notice returns the body, which is the same for all attempts but for what
// became of the run since.
func (d *Dispatcher) notice(one event.Dispatch, token string) ([]byte, error) {
	w := &one.Work
	o := offer{
		Run: w.Run, Automation: order{w.Automation.ID, w.Automation.Name, w.Automation.Instructions},
		Event:   occurrence{Record: w.Record, Status: w.Record.Status()},
		Session: pass{w.Run.Session, token, d.MCPURL, w.ExpiresAt},
		ClaimID: w.Run.Claim, APIURL: d.APIURL,
	}
	if w.Sealed != nil {
		whole, err := d.Vault.Open(recordRef(w.Record.Organization, w.Record.ID), w.Sealed)
		if err != nil {
			return nil, fmt.Errorf("opening the context of event %s: %w", w.Record.ID, err)
		}
		o.Event.Context = whole
	}
	return json.Marshal(notice{Type: "run.created", Timestamp: w.Run.CreatedAt, Data: o})
}
