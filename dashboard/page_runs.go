package dashboard

import (
	"cmp"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// cause is a trigger or schedule, as lists of what it started name it.
type cause struct{ Name, Path string }

// causes are all that there are, by id; those that are removed are not.
func (p *pageRequest) causes() map[string]cause {
	all := map[string]cause{}
	for _, t := range load2(p, p.Inbound.ListTriggers, p.org, "") {
		all[t.ID] = cause{t.Name, "/triggers/" + t.ID}
	}
	for _, s := range load2(p, p.Inbound.ListSchedules, p.org, "") {
		all[s.ID] = cause{s.Name, "/schedules#" + s.ID}
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
		Causes      map[string]cause
		Taker       taker
		Decides     bool
	}{load2(p, p.listRuns, p.me, &in), f, p.loadAutomations(), p.causes(), p.taker(f), p.decides()})
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

func (p *pageRequest) runPage() error {
	run, err := p.Inbound.Run(p.ctx(), p.org, p.r.PathValue("id"))
	v, err := p.viewRun(p.ctx(), run, err)
	if err != nil {
		return err
	}
	d := runData{
		RunView: v, Decides: p.decides(), Names: p.loadNames(),
		Event: load2(p, p.Inbound.Event, p.org, run.Event),
		Cause: p.causes()[run.Trigger],
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

// workerOf names who has a run, or had it last.
func (p *pageRequest) workerOf(run *event.Run) settler {
	key, is := strings.CutPrefix(run.ClaimedBy, "key:")
	switch {
	case run.ClaimedBy == "endpoint":
		return settler{Text: "endpoint"}
	case !is && run.ClaimedBy == "":
		return settler{Text: "none"}
	case !is:
		return person(run.ClaimedBy, p.loadNames())
	}
	for _, k := range load(p, p.People.ListAPIKeys, p.org) {
		if k.ID == key {
			return settler{Text: k.Name, Person: true}
		}
	}
	return settler{Text: "deleted key"}
}
