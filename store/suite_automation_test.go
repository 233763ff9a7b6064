package store_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// automation is one that is there.
func (h *house) automation(name string) event.Automation {
	h.Helper()
	return must(h.db.CreateAutomation(h.ctx, event.Automation{Organization: h.org.ID, Name: name, Enabled: true, Instructions: "Look.", CreatedBy: "alice"}))(h)
}

// webhook is a trigger of an automation that nobody made yet.
func (h *house) webhook(a event.Automation) event.Trigger {
	return event.Trigger{
		Organization: h.org.ID, Automation: a.ID, Name: "New issues", Kind: event.Webhooks, Provider: "slack", Type: "message", Enabled: true,
		Config: []byte(`{"channel":"C1"}`), CreatedBy: "alice", CreatedAt: h.now,
	}
}

// polling is one that looks at an integration.
func (h *house) polling(a event.Automation, in action.Integration, seconds int) event.Trigger {
	t := h.webhook(a)
	t.Kind, t.Integration, t.PollSeconds = event.Polling, in.ID, seconds
	return t
}

func (h *house) trigger(t event.Trigger) event.Trigger {
	h.Helper()
	return must(h.db.CreateTrigger(h.ctx, t, nil))(h)
}

func (h *house) signing(name string) event.Secret {
	h.later(time.Second)
	return event.Secret{ID: newID(), Sealed: []byte("sealed " + name), CreatedAt: h.now}
}

// kinds are those of the last n events of history, the oldest first.
func (h *house) kinds(n int) (kinds []string) {
	h.Helper()
	for _, e := range h.history(action.PolicyEventFilter{})[:n] {
		kinds = append(kinds, e.Kind)
	}
	slices.Reverse(kinds)
	return kinds
}

var automationStories = map[string]func(*house){
	"an automation is stored as requested, and recorded in history": func(h *house) {
		a := event.Automation{Organization: h.org.ID, Name: "Nightly", Enabled: true, Instructions: "Look.\n" + strings.Repeat("é", 2000), CreatedBy: "alice", CreatedAt: h.now}
		version := h.version()
		got := must(h.db.CreateAutomation(h.ctx, a))(h)
		a.ID, a.UpdatedAt = got.ID, got.UpdatedAt
		h.equal(got, a, "what is returned")
		h.equal(must(h.db.Automation(h.ctx, h.org.ID, a.ID))(h), a, "what its id finds")
		h.equal(must(h.db.Automation(h.ctx, h.org.ID, "Nightly"))(h), a, "what its name finds")
		var told struct {
			Instructions string `json:"instructions"`
			Hash         string `json:"instructions_sha256"`
		}
		h.ok(json.Unmarshal(h.history(action.PolicyEventFilter{Kind: action.EventAutomation, Subject: a.ID})[0].After, &told))
		h.equal([]any{len(told.Instructions), strings.HasPrefix(a.Instructions, told.Instructions), len(told.Hash)}, []any{2000, true, 64}, "what history has of its instructions")

		other := h.automation("daily")
		h.equal(must(h.db.ListAutomations(h.ctx, h.org.ID))(h), []event.Automation{plain(other), plain(a)}, "the list")
		h.equal(must(h.db.AutomationNames(h.ctx, h.org.ID))(h), map[string]string{other.ID: other.Name, a.ID: a.Name}, "the names")
		a.Name, a.Enabled, a.Instructions = "Weekly", false, ""
		got = must(h.db.UpdateAutomation(h.ctx, a, "bob"))(h)
		a.UpdatedAt = got.UpdatedAt
		h.equal(got, a, "what it is changed to")
		h.equal(must(h.db.Automation(h.ctx, h.org.ID, "Weekly"))(h), a, "what its new name finds")
		h.equal(h.kinds(3), []string{action.EventAutomation, action.EventAutomation, action.EventAutomation}, "history")
		h.moves("the same again", 0, "", "", func() { h.equal(must(h.db.UpdateAutomation(h.ctx, a, "carol"))(h), a, "the same") })
		h.equal(h.version(), version, "the version of policy")
		for _, ref := range []string{"Nightly", "weekly", newID()} {
			_, err := h.db.Automation(h.ctx, h.org.ID, ref)
			h.refused(err, action.ErrNotFound, "automation_not_found")
		}
	},
	"automations have unique names": func(h *house) {
		a, b := h.automation("Nightly"), h.automation("nightly")
		for field, change := range map[string][]func(*event.Automation){
			"/name": {
				func(a *event.Automation) { a.Name = "" }, func(a *event.Automation) { a.Name = " " }, func(a *event.Automation) { a.Name = "a\nb" },
				func(a *event.Automation) { a.Name = "a*" }, func(a *event.Automation) { a.Name = "a\xff" }, func(a *event.Automation) { a.Name = "a\u202eb" },
				func(a *event.Automation) { a.Name = strings.Repeat("é", 121) },
			},
			"/instructions": {
				func(a *event.Automation) { a.Instructions = "a\x00" }, func(a *event.Automation) { a.Instructions = "a\xff" },
				func(a *event.Automation) { a.Instructions = strings.Repeat("a", 64<<10+1) },
			},
		} {
			for _, f := range change {
				bad := event.Automation{Organization: h.org.ID, Name: "x", CreatedBy: "alice"}
				f(&bad)
				_, err := h.db.CreateAutomation(h.ctx, bad)
				h.invalid(err, field, "a new one")
				bad.ID = a.ID
				_, err = h.db.UpdateAutomation(h.ctx, bad, "alice")
				h.invalid(err, field, "a change")
			}
		}
		for _, name := range []string{"nightly", b.ID} {
			_, err := h.db.CreateAutomation(h.ctx, event.Automation{Organization: h.org.ID, Name: name, CreatedBy: "alice"})
			h.equal(h.refused(err, action.ErrConflict, "automation_exists").Field, "/name", "the field")
			a.Name = name
			_, err = h.db.UpdateAutomation(h.ctx, a, "alice")
			h.refused(err, action.ErrConflict, "automation_exists")
		}
		_, err := h.db.CreateAutomation(h.ctx, event.Automation{ID: "nightly", Organization: h.org.ID, Name: "x", CreatedBy: "alice"})
		h.refused(err, action.ErrConflict, "automation_exists")
		other := newHouse(h.T, h.db)
		theirs := other.automation("nightly")
		theirs.Organization = h.org.ID
		_, err = h.db.UpdateAutomation(h.ctx, theirs, "eve")
		h.refused(err, action.ErrNotFound, "automation_not_found")
		_, err = h.db.Automation(h.ctx, other.org.ID, b.ID)
		h.refused(err, action.ErrNotFound, "automation_not_found")
		h.refused(h.db.DeleteAutomation(h.ctx, other.org.ID, b.ID, "eve"), action.ErrNotFound, "automation_not_found")
	},
	"deleting an automation deletes what belongs to it": func(h *house) {
		a, b, in := h.automation("Nightly"), h.automation("Daily"), h.connected(h.slack("T1"))
		secret := h.signing("one")
		hook := must(h.db.CreateTrigger(h.ctx, h.webhook(a), &secret))(h)
		h.trigger(h.polling(a, in, 60))
		must(h.db.CreateSchedule(h.ctx, h.schedule(a)))(h)
		kept := h.trigger(h.webhook(b))
		for _, of := range []event.Automation{a, b} {
			h.ok(h.bind(of.ID, in.ID))
			h.ok(h.db.SetOverride(h.ctx, h.override(of.ID, "linear:*", action.ModeAllow)))
		}
		version := h.version()
		h.ok(h.db.DeleteAutomation(h.ctx, h.org.ID, a.ID, "bob"))
		h.equal(h.kinds(6), []string{
			action.EventTrigger, action.EventTrigger, action.EventSchedule, action.EventMode, action.EventBinding, action.EventAutomation,
		}, "history")
		h.equal(h.version(), version+1, "the version of policy")
		h.equal(len(must(h.db.PollGroups(h.ctx, h.org.ID))(h)), 0, "what is polled")
		h.equal(len(must(h.db.ListSchedules(h.ctx, h.org.ID, ""))(h)), 0, "schedules")
		h.equal(must(h.db.ListTriggers(h.ctx, h.org.ID, ""))(h), []event.Trigger{kept}, "triggers")
		h.equal([]int{len(h.bindings(a.ID)), len(h.bindings(b.ID))}, []int{0, 1}, "bindings")
		h.equal(len(h.rulesNow().Overrides), 1, "overrides")
		_, err := h.db.TriggerSecrets(h.ctx, hook.ID)
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		_, err = h.db.SigningSecrets(h.ctx, h.org.ID, hook.ID)
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		h.refused(h.db.DeleteAutomation(h.ctx, h.org.ID, a.ID, "bob"), action.ErrNotFound, "automation_not_found")
	},
	"an endpoint for runs has secrets of its own": func(h *house) {
		_, err := h.db.RunEndpoint(h.ctx, h.org.ID)
		h.refused(err, action.ErrNotFound, "endpoint_not_found")
		h.refused(h.db.RotateSecret(h.ctx, h.org.ID, "endpoint", h.signing("early"), h.now, "alice"), action.ErrNotFound, "endpoint_not_found")
		e := event.Endpoint{Organization: h.org.ID, URL: "https://runs.example.com/x", Enabled: true, UpdatedBy: "alice"}
		one := h.signing("one")
		got := must(h.db.SetRunEndpoint(h.ctx, e, &one))(h)
		e.UpdatedAt, e.Secrets = got.UpdatedAt, []event.Secret{one}
		h.equal(got, e, "what is returned")
		h.tells("alice", "null", `{"url":"https://runs.example.com/x","enabled":true}`)
		e.Enabled = false
		got = must(h.db.SetRunEndpoint(h.ctx, e, nil))(h)
		e.UpdatedAt = got.UpdatedAt
		h.equal(must(h.db.RunEndpoint(h.ctx, h.org.ID))(h), e, "the endpoint")
		for _, url := range []string{"", "runs.example.com", "ftp://a", "http://runs.example.com", "https://a:b@c", "https://a/" + long(2000), "https://a/?key=ghp_" + strings.Repeat("a", 36)} {
			_, err := h.db.SetRunEndpoint(h.ctx, event.Endpoint{Organization: h.org.ID, URL: url, UpdatedBy: "alice"}, nil)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/url", url)
		}
		h.refused(h.db.DeleteRunEndpoint(h.ctx, newHouse(h.T, h.db).org.ID, "eve"), action.ErrNotFound, "endpoint_not_found")
		h.ok(h.db.DeleteRunEndpoint(h.ctx, h.org.ID, "bob"))
		h.equal(len(must(h.db.SetRunEndpoint(h.ctx, e, nil))(h).Secrets), 0, "secrets of a new one")
		h.equal(h.kinds(4), []string{action.EventEndpoint, action.EventEndpoint, action.EventEndpoint, action.EventEndpoint}, "history")
	},
	"integrations are found by account": func(h *house) {
		other := newHouse(h.T, h.db)
		a, b := h.connected(h.slack("T1")), other.connected(other.slack("T1"))
		own, gone := h.connected(h.own("T1", "bob")), h.connected(h.private("T1", "carol"))
		h.setIntegration(gone.ID, action.IntegrationDeleted, "")
		h.setIntegration(a.ID, action.IntegrationSuspended, "")
		h.connected(h.slack("T2"))
		got := must(h.db.IntegrationsByAccount(h.ctx, "slack", "T1"))(h)
		want := []string{a.ID, b.ID, own.ID}
		slices.Sort(want)
		h.equal(ids(got), want, "those of the account")
		for _, in := range got {
			if in.Sealed != nil {
				h.Error("a credential is returned")
			}
		}
		h.equal(len(must(h.db.IntegrationsByAccount(h.ctx, "linear", "T1"))(h)), 0, "those of another service")
	},
}

// schedule is one that nobody made yet.
func (h *house) schedule(a event.Automation) event.Schedule {
	return event.Schedule{
		Organization: h.org.ID, Automation: a.ID, Name: "Mornings", Cron: "0 7 * * 1-5", TimeZone: "Europe/Berlin", Enabled: true,
		Missed: event.MissedOnce, NextAt: new(h.now.Add(time.Hour)), CreatedBy: "alice", CreatedAt: h.now,
	}
}

var scheduleStories = map[string]func(*house){
	"a schedule is stored as requested, and recorded in history": func(h *house) {
		s := h.schedule(h.automation("Nightly"))
		got := must(h.db.CreateSchedule(h.ctx, s))(h)
		s.ID, s.UpdatedAt = got.ID, got.UpdatedAt
		h.equal(got, s, "what is returned")
		h.equal(must(h.db.Schedule(h.ctx, h.org.ID, s.ID))(h), s, "the schedule")
		h.equal(must(h.db.ListSchedules(h.ctx, h.org.ID, s.Automation))(h), []event.Schedule{s}, "the automation's")

		change := func(f func(*event.Schedule), want *time.Time) {
			h.Helper()
			f(&s)
			got := must(h.db.UpdateSchedule(h.ctx, s, "bob"))(h)
			s.NextAt, s.UpdatedAt = want, got.UpdatedAt
			h.equal(got, s, "what is returned")
			h.equal(must(h.db.Schedule(h.ctx, h.org.ID, s.ID))(h), s, "the schedule")
		}
		due, later := s.NextAt, new(h.now.Add(2*time.Hour))
		change(func(s *event.Schedule) { s.Name, s.Missed, s.NextAt = "Evenings", event.MissedSkip, later }, due) // its times are the same
		change(func(s *event.Schedule) { s.Cron, s.NextAt = "0 0 20 * * *", later }, later)
		change(func(s *event.Schedule) { s.TimeZone, s.NextAt = "UTC", due }, due)
		change(func(s *event.Schedule) { s.Enabled = false }, nil)
		change(func(s *event.Schedule) { s.Enabled, s.NextAt = true, later }, later)
		h.moves("the same again", 0, "", "", func() { must(h.db.UpdateSchedule(h.ctx, s, "carol"))(h) })

		other := newHouse(h.T, h.db)
		theirs := s
		theirs.Organization = other.org.ID
		_, err := h.db.UpdateSchedule(h.ctx, theirs, "eve")
		h.refused(err, action.ErrNotFound, "schedule_not_found")
		h.refused(h.db.DeleteSchedule(h.ctx, other.org.ID, s.ID, "eve"), action.ErrNotFound, "schedule_not_found")
		theirs.ID = ""
		_, err = h.db.CreateSchedule(h.ctx, theirs)
		h.refused(err, action.ErrNotFound, "automation_not_found")
		h.equal(len(must(h.db.ListSchedules(h.ctx, other.org.ID, ""))(h)), 0, "another organization's")
		h.ok(h.db.DeleteSchedule(h.ctx, h.org.ID, s.ID, "bob"))
		h.tells("bob", "", "null")
		_, err = h.db.Schedule(h.ctx, h.org.ID, s.ID)
		h.refused(err, action.ErrNotFound, "schedule_not_found")
		h.equal(len(h.history(action.PolicyEventFilter{Kind: action.EventSchedule, Subject: s.ID})), 7, "events")
	},
	"invalid schedules": func(h *house) {
		a := h.automation("Nightly")
		for field, f := range map[string]func(*event.Schedule){
			"/name": func(s *event.Schedule) { s.Name = "" }, "/cron_expression": func(s *event.Schedule) { s.Cron = "" },
			"/cron_expression ": func(s *event.Schedule) { s.Cron = "0 7 *\n* *" }, "/timezone": func(s *event.Schedule) { s.TimeZone = "" },
			"/missed": func(s *event.Schedule) { s.Missed = "twice" },
		} {
			s := h.schedule(a)
			f(&s)
			_, err := h.db.CreateSchedule(h.ctx, s)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, strings.TrimSpace(field), "the field")
		}
		if list := must(h.db.ListSchedules(h.ctx, h.org.ID, ""))(h); len(list) != 0 {
			h.Errorf("written: %+v", list)
		}
	},
}

// plain is an automation as lists have it.
func plain(a event.Automation) event.Automation {
	a.Instructions = ""
	return a
}
