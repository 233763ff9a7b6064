package routes

import (
	"testing"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// Every input fits its word: a field that both have is of one type, or the
// handler's own.
func TestInputsFitTheirWords(t *testing.T) {
	for _, row := range []struct {
		word, input any
		own         []string
	}{
		{&event.Automation{}, &api.NewAutomation{}, nil},
		{&event.Automation{}, &api.AutomationChange{}, nil},
		{&event.Schedule{}, &api.NewSchedule{}, []string{"Automation"}},
		{&event.Schedule{}, &api.ScheduleChange{}, nil},
		{&event.Trigger{}, &api.NewTrigger{}, []string{"Automation", "Integration", "Config"}},
		{&event.Trigger{}, &api.TriggerChange{}, []string{"Integration", "Config"}},
		{&action.Connector{}, &api.Upstream{}, []string{"MayAsk", "OAuth"}},
		{&action.Integration{}, &api.IntegrationChange{}, []string{"Settings"}},
		{&action.Settings{}, &api.SettingsChange{}, nil},
	} {
		applyChange(row.word, row.input, row.own...)
	}
}

// What an input leaves out stays, and what is the handler's own is not touched.
func TestApply(t *testing.T) {
	s := event.Schedule{Name: "old", Cron: "0 7 * * *", TimeZone: "UTC", Enabled: true}
	applyChange(&s, &api.ScheduleChange{Name: new("new"), Enabled: new(false)})
	if s.Name != "new" || s.Enabled || s.Cron != "0 7 * * *" || s.TimeZone != "UTC" {
		t.Errorf("changed to %+v", s)
	}
	applyChange(&s, &api.NewSchedule{Automation: "a name", CronTimes: api.CronTimes{TimeZone: "Europe/Berlin"}}, "Automation")
	if s.Automation != "" || s.TimeZone != "Europe/Berlin" || s.Name != "new" {
		t.Errorf("applied %+v", s)
	}
	defer func() {
		if recover() == nil {
			t.Error("a field of another type was taken")
		}
	}()
	applyChange(&s, &struct{ Cron int }{7})
}
