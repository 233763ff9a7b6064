package dashboard

import (
	"context"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// cause is a trigger or schedule, as lists of what it started name it.
type cause struct{ Name, Path string }

// causes are all that there are, by id; those that are removed are not.
func (p *pages) causes(ctx context.Context, organization string) (map[string]cause, error) {
	triggers, err := p.Inbound.ListTriggers(ctx, organization, "")
	if err != nil {
		return nil, err
	}
	schedules, err := p.Inbound.ListSchedules(ctx, organization, "")
	all := map[string]cause{}
	for _, t := range triggers {
		all[t.ID] = cause{t.Name, "/triggers/" + t.ID}
	}
	for _, s := range schedules {
		all[s.ID] = cause{s.Name, "/schedules#" + s.ID}
	}
	return all, err
}

func runStatuses() []string {
	return []string{"queued", "claimed", "running", "needs_human", "succeeded", "failed", "skipped"}
}

func (p *pages) runsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "status", "automation", "trigger", "parcels")
	if err := f.oneOf("status", runStatuses()...); err != nil {
		return err
	}
	runs, err := p.listRuns(ctx, me, &api.RunQuery{
		Paging: f.paging(), Automation: f.Get("automation"), Trigger: f.Get("trigger"), Status: event.RunStatus(f.Get("status")),
	})
	if err != nil {
		return err
	}
	d := struct {
		Runs        api.List[api.RunView]
		Filters     filters
		Statuses    []string
		Automations []event.Automation
		Causes      map[string]cause
		Taker       taker
		Decides     bool
	}{Runs: runs, Filters: f, Statuses: runStatuses(), Decides: me.Role.Decides()}
	if d.Automations, err = p.Inbound.ListAutomations(ctx, me.Organization); err != nil {
		return err
	}
	if d.Causes, err = p.causes(ctx, me.Organization); err != nil {
		return err
	}
	if d.Taker, err = p.taker(ctx, me, f); err != nil {
		return err
	}
	return p.render(w, "runs", "layout", view{Page: "runs", Title: "Runs", Me: me, Data: d})
}

// runData is all that the page of a run shows.
type runData struct {
	api.RunView
	Event    event.Record
	Cause    cause
	Worker   settler
	Timeline []happened
	Calls    action.Page[action.Invocation]
	Held     []action.Invocation
	Names    map[string]string
	Decides  bool
}

func (p *pages) runPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx, org := r.Context(), me.Organization
	run, err := p.Inbound.Run(ctx, org, r.PathValue("id"))
	v, err := p.viewRun(ctx, run, err)
	if err != nil {
		return err
	}
	d := runData{RunView: v, Decides: me.Role.Decides()}
	if d.Event, err = p.Inbound.Event(ctx, org, run.Event); err != nil {
		return err
	}
	causes, err := p.causes(ctx, org)
	if err != nil {
		return err
	}
	d.Cause = causes[run.Trigger]
	if d.Names, err = p.names(ctx, org); err != nil {
		return err
	}
	if d.Worker, err = p.workerOf(ctx, &run, d.Names); err != nil {
		return err
	}
	if d.Calls, err = p.Calls.ListInvocations(ctx, action.InvocationFilter{Organization: org, Run: run.ID, Limit: 50}); err != nil {
		return err
	}
	for _, inv := range d.Calls.Items {
		if inv.Status == action.StatusPending {
			d.Held = append(d.Held, inv)
		}
	}
	if d.Timeline, err = p.timeline(ctx, &d); err != nil {
		return err
	}
	return p.render(w, "run", "layout", view{Page: "runs", Title: or(run.Title, "Run"), Me: me, Data: d})
}

// workerOf names who has a run, or had it last.
func (p *pages) workerOf(ctx context.Context, run *event.Run, names map[string]string) (settler, error) {
	key, is := strings.CutPrefix(run.ClaimedBy, "key:")
	switch {
	case run.ClaimedBy == "endpoint":
		return settler{Text: "the endpoint"}, nil
	case !is && run.ClaimedBy == "":
		return settler{Text: "nobody"}, nil
	case !is:
		return settler{Text: or(names[run.ClaimedBy], short(run.ClaimedBy)), Person: names[run.ClaimedBy] != ""}, nil
	}
	keys, err := p.People.ListAPIKeys(ctx, run.Organization)
	for _, k := range keys {
		if k.ID == key {
			return settler{Text: k.Name, Person: true}, err
		}
	}
	return settler{Text: "a key that is gone"}, err
}
