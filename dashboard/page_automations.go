package dashboard

import (
	"context"
	"net/http"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// automationRow is an automation as the list of them shows it.
type automationRow struct {
	event.Automation
	Triggers, Schedules int
	Last                *event.Run // nil: it never ran
}

// automationData is all that the page of an automation shows.
type automationData struct {
	Automation event.Automation
	Triggers   []api.TriggerView
	Schedules  []api.ScheduleView
	Runs       []event.Run // the newest
	Bound      []boundTo
	Modes      []api.ModeView
	Names      map[string]string
	Decides    bool
}

// boundTo is an integration that an automation may be bound to.
type boundTo struct {
	api.IntegrationView
	On bool
}

func (p *pages) automationsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx, org := r.Context(), me.Organization
	list, err := p.Inbound.ListAutomations(ctx, org)
	if err != nil {
		return err
	}
	triggers, err := p.Inbound.ListTriggers(ctx, org, "")
	if err != nil {
		return err
	}
	schedules, err := p.Inbound.ListSchedules(ctx, org, "")
	if err != nil {
		return err
	}
	last, err := p.Inbound.LastRuns(ctx, org)
	if err != nil {
		return err
	}
	rows := make([]automationRow, len(list))
	at := map[string]*automationRow{}
	for i, a := range list {
		rows[i].Automation, at[a.ID] = a, &rows[i]
		if run, ok := last[a.ID]; ok {
			rows[i].Last = &run
		}
	}
	for _, t := range triggers {
		if a := at[t.Automation]; a != nil {
			a.Triggers++
		}
	}
	for _, s := range schedules {
		if a := at[s.Automation]; a != nil {
			a.Schedules++
		}
	}
	return p.render(w, "automations", "layout", view{Page: "automations", Title: "Automations", Me: me, Data: struct {
		Rows    []automationRow
		Decides bool
	}{rows, me.Role.Decides()}})
}

func (p *pages) automationPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	a, err := p.automation(ctx, me, r.PathValue("id"), "")
	if err != nil {
		return err
	}
	d := automationData{Automation: a, Decides: me.Role.Decides()}
	if d.Triggers, err = p.triggers(ctx, me, a.ID); err != nil {
		return err
	}
	if d.Schedules, err = p.schedules(ctx, me, a.ID); err != nil {
		return err
	}
	runs, err := p.Inbound.ListRuns(ctx, event.RunFilter{Organization: me.Organization, Automation: a.ID, Limit: 10})
	if err != nil {
		return err
	}
	d.Runs = runs.Items
	if d.Bound, err = p.bound(ctx, me, a.ID); err != nil {
		return err
	}
	if d.Modes, err = p.modes(ctx, me.Organization); err != nil {
		return err
	}
	d.Modes = slices.DeleteFunc(d.Modes, func(m api.ModeView) bool { return m.Automation != a.ID })
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	return p.render(w, "automation", "layout", view{Page: "automations", Title: a.Name, Me: me, Data: d})
}

// bound are the integrations that sessions of an automation can be bound to,
// and those that they are.
func (p *pages) bound(ctx context.Context, me *Principal, automation string) ([]boundTo, error) {
	ids, err := p.Sources.Bindings(ctx, me.Organization, automation)
	if err != nil {
		return nil, err
	}
	all, err := p.integrations(ctx, me)
	var list []boundTo
	for _, in := range all {
		on := slices.Contains(ids, in.ID) || slices.Equal(ids, []string{action.AllConnections})
		if in.User == "" || on {
			list = append(list, boundTo{in, on})
		}
	}
	return list, err
}
