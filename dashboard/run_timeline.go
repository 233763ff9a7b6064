package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

// happened is one thing that happened to a run.
type happened struct {
	At   time.Time
	What string
	By   string // empty: nobody
}

// timeline puts in order what rows say of a run, and what people did to it.
func (p *pageRequest) timeline(d *runData) (all []happened) {
	add := func(at *time.Time, what string) {
		if at != nil && !at.IsZero() {
			all = append(all, happened{At: *at, What: what})
		}
	}
	add(d.Event.OccurredAt, "Event occurred")
	add(&d.Event.CreatedAt, "Event matched, run queued")
	add(d.StartedAt, "Run started")
	if d.Session != "" {
		if s, err := p.session(p.ctx(), p.org, d.Session); err == nil { // one that is gone says nothing
			add(&s.CreatedAt, fmt.Sprintf("Claimed by %s (attempt %d)", d.Worker.Text, d.Attempt))
		}
	}
	for _, inv := range d.Calls.Items {
		add(&inv.CreatedAt, fmt.Sprintf("Agent called %s › %s", plain(inv.SourceName), plain(inv.Action)))
	}
	acted := time.Time{}
	for _, e := range load(p, p.Policy.PolicyEvents, action.PolicyEventFilter{Organization: p.org, Kind: action.EventRun, Subject: d.ID, Limit: 100}).Items {
		all = append(all, happened{At: e.At, What: runActed(e), By: e.By})
		if e.At.After(acted) {
			acted = e.At
		}
	}
	if d.EndedAt != nil && d.EndedAt.After(acted) { // otherwise it was a person who ended it
		add(d.EndedAt, "Run ended: "+string(d.Status))
	}
	slices.SortStableFunc(all, func(a, b happened) int { return a.At.Compare(b.At) })
	return all
}

// runActed says what a person did to a run.
func runActed(e action.PolicyEvent) string {
	var before, after struct {
		Status string `json:"status"`
		Code   string `json:"code"`
	}
	if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil {
		return "Changed manually"
	}
	switch {
	case after.Status == "queued":
		return "Queued again, previously " + cmp.Or(before.Status, "none")
	case after.Code == "cancelled":
		return "Cancelled"
	case before.Status == "needs_human":
		return "Resolved: " + after.Status
	case after.Status == "skipped":
		return "Event skipped"
	}
	return "Changed: " + after.Status
}
