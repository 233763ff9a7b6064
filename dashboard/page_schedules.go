package dashboard

import (
	"net/http"

	"sallyport/api"
	"sallyport/ingest/event"
)

// scheduleRow is a schedule with what it started last.
type scheduleRow struct {
	api.ScheduleView
	Idle bool // its automation is disabled
	Runs []event.Run
}

func (p *pages) schedulesPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "automation", "edit")
	views, err := p.schedules(ctx, me, f.Get("automation"))
	if err != nil {
		return err
	}
	idle, err := p.idle(ctx, me.Organization)
	if err != nil {
		return err
	}
	rows := make([]scheduleRow, len(views))
	for i, v := range views {
		last, err := p.Inbound.ListRuns(ctx, event.RunFilter{Organization: me.Organization, Trigger: v.ID, Limit: 5})
		if err != nil {
			return err
		}
		rows[i] = scheduleRow{v, idle[v.Automation], last.Items}
	}
	var edited event.Schedule // none: a new one is made
	if id := f.Get("edit"); id != "" {
		if edited, err = p.Inbound.Schedule(ctx, me.Organization, id); err != nil {
			return err
		}
	}
	automations, err := p.Inbound.ListAutomations(ctx, me.Organization)
	if err != nil {
		return err
	}
	return p.render(w, "schedules", "layout", view{Page: "schedules", Title: "Schedules", Me: me, Data: struct {
		Filters     filters
		Rows        []scheduleRow
		Automations []event.Automation
		Edited      event.Schedule
		Decides     bool
	}{f, rows, automations, edited, me.Role.Decides()}})
}
