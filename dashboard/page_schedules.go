package dashboard

import (
	"sallyport/api"
	"sallyport/ingest/event"
)

// scheduleRow is a schedule with what it started last.
type scheduleRow struct {
	api.ScheduleView
	Idle bool // its automation is disabled
	Runs []event.Run
}

func (p *pageRequest) schedulesPage() error {
	f := p.readFilters("automation", "edit")
	views, idle := load2(p, p.schedules, p.me, f.Get("automation")), p.idle()
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
