package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/ingest/event"
)

// runCause is a trigger or schedule in a list of runs.
type runCause struct{ Name, Path string }

// runCauses are all that there are, by id; those that are removed are not.
func (p *pageRequest) runCauses() map[string]runCause {
	all := map[string]runCause{}
	for _, t := range load2(p, p.Inbound.ListTriggers, p.org, "") {
		all[t.ID] = runCause{t.Name, "/triggers/" + t.ID}
	}
	for _, s := range load2(p, p.Inbound.ListSchedules, p.org, "") {
		all[s.ID] = runCause{s.Name, "/schedules#" + s.ID}
	}
	return all
}

func (p *pageRequest) runsPage() error {
	var in api.RunQuery
	f := readQuery(p, &in, "parcels")
	return p.show("runs", "runs", "Runs", struct {
		Runs        api.List[api.RunView]
		Filters     filters
		Automations []event.Automation
		Causes      map[string]runCause
		Taker       runDelivery
		Decides     bool
	}{load2(p, p.ListRuns, p.me, &in), f, p.loadAutomations(), p.runCauses(), p.runDelivery(f), p.decides()})
}

// runData is the data of a run's page.
type runData struct {
	api.RunView
	Event    event.Record
	Cause    runCause
	Worker   decider
	Timeline []timelineEntry
	Calls    action.Page[action.Invocation]
	Held     []action.Invocation
	Names    map[string]string
	Decides  bool
}

func (p *pageRequest) runPage() error {
	run, err := p.Inbound.Run(p.ctx(), p.org, p.r.PathValue("id"))
	v, err := p.ViewRun(p.ctx(), run, err)
	if err != nil {
		return err
	}
	d := runData{
		RunView: v, Decides: p.decides(), Names: p.loadNames(),
		Event: load2(p, p.Inbound.Event, p.org, run.Event),
		Cause: p.runCauses()[run.Trigger],
		Calls: load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Run: run.ID, Limit: 50}),
	}
	d.Worker = p.workerOf(&run)
	for _, inv := range d.Calls.Items {
		if inv.Status == action.StatusPending {
			d.Held = append(d.Held, inv)
		}
	}
	d.Timeline = p.timeline(&d)
	return p.show("run", "runs", cmp.Or(run.Title, "Run"), d)
}

// workerOf names the current or last worker of a run.
func (p *pageRequest) workerOf(run *event.Run) decider {
	key, is := strings.CutPrefix(run.ClaimedBy, "key:")
	switch {
	case run.ClaimedBy == "endpoint":
		return decider{Text: "endpoint"}
	case !is && run.ClaimedBy == "":
		return decider{Text: "none"}
	case !is:
		return personName(run.ClaimedBy, p.loadNames())
	}
	for _, k := range load(p, p.People.ListAPIKeys, p.org) {
		if k.ID == key {
			return decider{Text: k.Name, Person: true}
		}
	}
	return decider{Text: "deleted key"}
}

// timelineEntry is an entry in the history of a run.
type timelineEntry struct {
	At   time.Time
	What string
	By   string // empty if no person did it
}

// timeline puts in order what rows say of a run, and what people did to it.
func (p *pageRequest) timeline(d *runData) (all []timelineEntry) {
	add := func(at *time.Time, what string) {
		if at != nil && !at.IsZero() {
			all = append(all, timelineEntry{At: *at, What: what})
		}
	}
	add(d.Event.OccurredAt, "Event occurred")
	add(&d.Event.CreatedAt, "Event matched, run queued")
	add(d.StartedAt, "Run started")
	if d.Session != "" {
		if s, err := p.Session(p.ctx(), p.org, d.Session); err == nil { // one that is gone says nothing
			add(&s.CreatedAt, fmt.Sprintf("Claimed by %s (attempt %d)", d.Worker.Text, d.Attempt))
		}
	}
	for _, inv := range d.Calls.Items {
		add(&inv.CreatedAt, fmt.Sprintf("Agent called %s › %s", render.Plain(inv.SourceName), render.Plain(inv.Action)))
	}
	acted := time.Time{}
	for _, e := range load(p, p.Policy.PolicyEvents, action.PolicyEventFilter{Organization: p.org, Kind: action.EventRun, Subject: d.ID, Limit: 100}).Items {
		all = append(all, timelineEntry{At: e.At, What: runActionText(e), By: e.By})
		if e.At.After(acted) {
			acted = e.At
		}
	}
	if d.EndedAt != nil && d.EndedAt.After(acted) { // otherwise it was a person who ended it
		add(d.EndedAt, "Run ended: "+string(d.Status))
	}
	slices.SortStableFunc(all, func(a, b timelineEntry) int { return a.At.Compare(b.At) })
	return all
}

// runActionText describes what a person did to a run.
func runActionText(e action.PolicyEvent) string {
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
