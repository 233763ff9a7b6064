package page

import (
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// automationRow is an automation in the list.
type automationRow struct {
	event.Automation
	Triggers, Schedules int
	Last                *event.Run // nil if it never ran
}

// automationData is the data of an automation's page.
type automationData struct {
	Automation event.Automation
	Triggers   []api.TriggerView
	Schedules  []api.ScheduleView
	Runs       []event.Run // newest first
	Bound      []bindableIntegration
	Modes      []api.ModeView
	Names      map[string]string
	Decides    bool
}

// bindableIntegration is an integration that an automation can be bound to.
type bindableIntegration struct {
	api.IntegrationView
	On bool
}

func (p *pageRequest) automationsPage() error {
	list, last := p.loadAutomations(), load(p, p.Inbound.LastRuns, p.org)
	rows := make([]automationRow, len(list))
	at := map[string]*automationRow{}
	for i, a := range list {
		rows[i].Automation, at[a.ID] = a, &rows[i]
		if run, ok := last[a.ID]; ok {
			rows[i].Last = &run
		}
	}
	for _, t := range load2(p, p.Inbound.ListTriggers, p.org, "") {
		if a := at[t.Automation]; a != nil {
			a.Triggers++
		}
	}
	for _, s := range load2(p, p.Inbound.ListSchedules, p.org, "") {
		if a := at[s.Automation]; a != nil {
			a.Schedules++
		}
	}
	return p.show("automations", "automations", "Automations", struct {
		Rows    []automationRow
		Decides bool
	}{rows, p.decides()})
}

func (p *pageRequest) automationPage() error {
	a, err := p.Automation(p.ctx(), p.me, p.r.PathValue("id"), "")
	if err != nil {
		return err
	}
	return p.show("automation", "automations", a.Name, automationData{
		Automation: a,
		Triggers:   load2(p, p.Triggers, p.me, a.ID),
		Schedules:  load2(p, p.Schedules, p.me, a.ID),
		Runs:       load(p, p.Inbound.ListRuns, event.RunFilter{Organization: p.org, Automation: a.ID, Limit: 10}).Items,
		Bound:      p.bindableIntegrations(a.ID),
		Modes:      slices.DeleteFunc(load(p, p.Modes, p.org), func(m api.ModeView) bool { return m.Automation != a.ID }),
		Names:      p.loadNames(),
		Decides:    p.decides(),
	})
}

// bindableIntegrations returns the integrations that an automation can be bound to, with the
// current bindings marked.
func (p *pageRequest) bindableIntegrations(automation string) (list []bindableIntegration) {
	ids := load2(p, p.Sources.Bindings, p.org, automation)
	for _, in := range load(p, p.Integrations, p.me) {
		on := slices.Contains(ids, in.ID) || slices.Equal(ids, []string{action.AllConnections})
		if in.User == "" || on {
			list = append(list, bindableIntegration{in, on})
		}
	}
	return list
}

// scheduleRow is a schedule with its last run.
type scheduleRow struct {
	api.ScheduleView
	Idle bool // the automation is disabled
	Runs []event.Run
}

func (p *pageRequest) schedulesPage() error {
	f := p.readFilters("automation", "edit")
	views, idle := load2(p, p.Schedules, p.me, f.Get("automation")), p.idle()
	rows := make([]scheduleRow, len(views))
	for i, v := range views {
		rows[i] = scheduleRow{v, idle[v.Automation], load(p, p.Inbound.ListRuns, event.RunFilter{Organization: p.org, Trigger: v.ID, Limit: 5}).Items}
	}
	var edited event.Schedule // none: a new one is made
	if id := f.Get("edit"); id != "" {
		edited = load2(p, p.Inbound.Schedule, p.org, id)
	}
	return p.show("schedules", "schedules", "Schedules", struct {
		Filters     filters
		Rows        []scheduleRow
		Automations []event.Automation
		Edited      event.Schedule
		Decides     bool
	}{f, rows, p.loadAutomations(), edited, p.decides()})
}
