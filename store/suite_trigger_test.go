package store_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

var triggerStories = map[string]func(*house){
	"a trigger is stored as requested, and recorded in history": func(h *house) {
		a, in := h.automation("Nightly"), h.connected(h.slack("T1"))
		t, one := h.webhook(a), h.signing("one")
		got := must(h.db.CreateTrigger(h.ctx, t, &one))(h)
		t.ID, t.UpdatedAt = got.ID, got.UpdatedAt
		h.equal(got, t, "what is returned")
		h.equal(must(h.db.Trigger(h.ctx, h.org.ID, t.ID))(h), t, "the trigger")
		h.equal(must(h.db.TriggerSecrets(h.ctx, t.ID))(h), event.TriggerSecrets{Trigger: t, Secrets: []event.Secret{one}}, "the lock")
		h.equal(must(h.db.ActiveTriggers(h.ctx, h.org.ID, "slack"))(h), []event.Trigger{t}, "those of the provider")
		h.equal(len(must(h.db.ActiveTriggers(h.ctx, h.org.ID, "linear"))(h)), 0, "those of another one")

		t.Name, t.Enabled, t.Config, t.Integration = "Old issues", false, []byte(` { "channel" : 1.50 } `), in.ID
		got = must(h.db.UpdateTrigger(h.ctx, t, "bob"))(h)
		t.Config, t.UpdatedAt = []byte(`{"channel":1.50}`), got.UpdatedAt
		h.equal(got, t, "what it is changed to")
		h.equal(must(h.db.ListTriggers(h.ctx, h.org.ID, a.ID))(h), []event.Trigger{t}, "the automation's")
		h.equal(must(h.db.TriggerSecrets(h.ctx, t.ID))(h).Trigger, t, "the lock of one that is disabled")
		h.equal(len(must(h.db.ActiveTriggers(h.ctx, h.org.ID, "slack"))(h)), 0, "active ones")
		h.moves("the same again", 0, "", "", func() { must(h.db.UpdateTrigger(h.ctx, t, "carol"))(h) })
		h.ok(h.db.DeleteTrigger(h.ctx, h.org.ID, t.ID, "bob"))
		_, err := h.db.TriggerSecrets(h.ctx, t.ID)
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		h.refused(h.db.DeleteTrigger(h.ctx, h.org.ID, t.ID, "bob"), action.ErrNotFound, "trigger_not_found")
		events := h.history(action.PolicyEventFilter{Kind: action.EventTrigger, Subject: t.ID})
		h.equal(len(events), 3, "events")
		if text := string(events[1].After); !strings.Contains(text, `"config":{"channel":1.50}`) || strings.Contains(text, "ealed") {
			h.Errorf("history tells %s", text)
		}
	},
	"invalid triggers": func(h *house) {
		a, in := h.automation("Nightly"), h.connected(h.slack("T1"))
		hook, poll := h.webhook(a), h.polling(a, in, 60)
		for field, list := range map[string][]event.Trigger{
			"/name":           changed(hook, func(t *event.Trigger) { t.Name = "" }, func(t *event.Trigger) { t.Name = long(121) }),
			"/trigger_type":   changed(hook, func(t *event.Trigger) { t.Kind = "pigeon" }),
			"/provider":       changed(hook, func(t *event.Trigger) { t.Provider = "" }),
			"/event_type":     changed(hook, func(t *event.Trigger) { t.Type = "" }),
			"/integration_id": changed(poll, func(t *event.Trigger) { t.Integration = "" }),
			"/interval_seconds": append(changed(poll, func(t *event.Trigger) { t.PollSeconds = 0 }, func(t *event.Trigger) { t.PollSeconds = 86_401 }),
				changed(hook, func(t *event.Trigger) { t.PollSeconds = 60 })...),
			"/config": changed(hook, func(t *event.Trigger) { t.Config = []byte(`[]`) }, func(t *event.Trigger) { t.Config = []byte(`{`) },
				func(t *event.Trigger) { t.Config = []byte(`{"a":"` + "\xff" + `"}`) },
				func(t *event.Trigger) { t.Config = fmt.Appendf(nil, `{"a":%q}`, long(16<<10)) }),
		} {
			for _, t := range list {
				_, err := h.db.CreateTrigger(h.ctx, t, nil)
				h.invalid(err, field, "a trigger")
			}
		}
		one := h.signing("one")
		_, err := h.db.CreateTrigger(h.ctx, poll, &one)
		h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/secret", "the field")
		other := newHouse(h.T, h.db)
		for _, t := range changed(hook, func(t *event.Trigger) { t.Automation = other.automation("x").ID }, func(t *event.Trigger) { t.Organization = other.org.ID }) {
			_, err := h.db.CreateTrigger(h.ctx, t, nil)
			h.refused(err, action.ErrNotFound, "automation_not_found")
		}
		theirs := h.trigger(changed(hook, func(t *event.Trigger) { t.Config = nil })[0])
		h.equal(string(theirs.Config), "{}", "no filters")
		theirs.Organization = other.org.ID
		_, err = h.db.UpdateTrigger(h.ctx, theirs, "eve")
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		_, err = h.db.Trigger(h.ctx, other.org.ID, theirs.ID)
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		h.refused(h.db.DeleteTrigger(h.ctx, other.org.ID, theirs.ID, "eve"), action.ErrNotFound, "trigger_not_found")
	},
	"a trigger polls only shared integrations": func(h *house) {
		a, in, other := h.automation("Nightly"), h.connected(h.slack("T1")), newHouse(h.T, h.db)
		linear := h.slack("T9")
		linear.Provider = "linear"
		gone := h.connected(h.slack("T2"))
		h.setIntegration(gone.ID, action.IntegrationDeleted, "")
		t := h.trigger(h.polling(a, in, 60))
		for name, id := range map[string]string{
			"none": newID(), "a deleted one": gone.ID, "another organization's": other.connected(other.slack("T1")).ID, "his own": h.connected(h.own("T3", "alice")).ID,
			"one private to him": h.connected(h.private("T4", "alice")).ID, "another's": h.connected(h.private("T5", "bob")).ID, "another service's": h.connected(linear).ID,
		} {
			_, err := h.db.CreateTrigger(h.ctx, h.polling(a, action.Integration{ID: id}, 60), nil)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/integration_id", name)
			bad := t
			bad.Integration = id
			_, err = h.db.UpdateTrigger(h.ctx, bad, "alice")
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/integration_id", name+", later")
		}
		h.setIntegration(in.ID, action.IntegrationDeleted, "")
		h.equal(len(must(h.db.PollGroups(h.ctx, h.org.ID))(h)), 1, "groups of what was disconnected")
		t.Enabled = false
		must(h.db.UpdateTrigger(h.ctx, t, "alice"))(h)
	},
	"the URL of an automation means one trigger": func(h *house) {
		a := must(h.db.CreateAutomation(h.ctx, event.Automation{ID: "nightly", Organization: h.org.ID, Name: "nightly", CreatedBy: "alice"}))(h)
		finds := func(want *event.Trigger) {
			h.Helper()
			got, err := h.db.WebhookTriggerSecrets(h.ctx, "nightly", "slack")
			if want == nil {
				h.refused(err, action.ErrNotFound, "trigger_not_found")
				return
			}
			h.ok(err)
			h.equal(got.Trigger, *want, "the trigger")
			h.equal(len(got.Secrets), 1, "secrets")
		}
		finds(nil)
		one := h.signing("one")
		t := must(h.db.CreateTrigger(h.ctx, h.webhook(a), &one))(h)
		h.trigger(h.polling(a, h.connected(h.slack("T1")), 60))
		h.trigger(changed(h.webhook(a), func(t *event.Trigger) { t.Provider = "linear" })[0])
		finds(&t)
		second := h.trigger(h.webhook(a))
		finds(nil)
		h.ok(h.db.DeleteTrigger(h.ctx, h.org.ID, second.ID, "alice"))
		finds(&t)
		other := newHouse(h.T, h.db)
		must(h.db.CreateAutomation(h.ctx, event.Automation{ID: "nightly", Organization: other.org.ID, Name: "nightly", CreatedBy: "eve"}))(h)
		finds(nil)
	},
	"several secrets are good at once": func(h *house) {
		one := h.signing("one")
		t := must(h.db.CreateTrigger(h.ctx, h.webhook(h.automation("Nightly")), &one))(h)
		good := func(want ...event.Secret) {
			h.Helper()
			h.equal(must(h.db.SigningSecrets(h.ctx, h.org.ID, t.ID))(h), append([]event.Secret{}, want...), "secrets")
			h.equal(must(h.db.SecretOwners(h.ctx, h.org.ID))(h)[t.ID], len(want) > 0, "whether it has any")
			h.equal(must(h.db.TriggerSecrets(h.ctx, t.ID))(h).Secrets, append([]event.Secret{}, want...), "secrets of the lock")
		}
		rotate := func(s event.Secret, until time.Time) error {
			return h.db.RotateSecret(h.ctx, h.org.ID, t.ID, s, until, "bob")
		}
		tomorrow := h.now.Add(24 * time.Hour)
		two, three := h.signing("two"), h.signing("three")
		h.ok(rotate(two, tomorrow))
		one.ExpiresAt = &tomorrow
		good(two, one)
		h.tells("bob", "", "")
		if e := h.history(action.PolicyEventFilter{})[0]; e.Kind != action.EventTrigger || e.Subject != t.ID || !strings.Contains(string(e.After), two.ID) || strings.Contains(string(e.After), "ealed") {
			h.Errorf("history tells %+v", e)
		}
		h.ok(rotate(three, tomorrow.Add(time.Hour)))
		two.ExpiresAt = new(tomorrow.Add(time.Hour))
		good(three, two, one)
		h.ok(rotate(h.signing("four"), tomorrow))
		h.ok(rotate(h.signing("five"), tomorrow))
		h.refused(rotate(h.signing("six"), tomorrow), action.ErrTooMany, "too_many_secrets")
		h.equal(len(must(h.db.SigningSecrets(h.ctx, h.org.ID, t.ID))(h)), 5, "secrets after one too many")
		seven := h.signing("seven")
		h.ok(rotate(seven, h.now.Add(-time.Hour)))
		good(seven)

		over := h.signing("over")
		over.ExpiresAt = new(h.now.Add(-time.Minute))
		h.ok(rotate(over, tomorrow))
		seven.ExpiresAt = &tomorrow
		good(seven)
		h.equal(must(h.db.SweepSigningSecrets(h.ctx, over.ExpiresAt.Add(-time.Second), 10))(h), 0, "swept too early")
		h.equal(must(h.db.SweepSigningSecrets(h.ctx, h.now, 10))(h), 1, "swept")
		good(seven)
		for _, owner := range []string{newID(), t.Automation} {
			h.refused(h.db.RotateSecret(h.ctx, h.org.ID, owner, h.signing("x"), tomorrow, "bob"), action.ErrNotFound, "trigger_not_found")
		}
		other := newHouse(h.T, h.db).org.ID
		h.refused(h.db.RotateSecret(h.ctx, other, t.ID, h.signing("x"), h.now, "eve"), action.ErrNotFound, "trigger_not_found")
		_, err := h.db.SigningSecrets(h.ctx, other, t.ID)
		h.refused(err, action.ErrNotFound, "trigger_not_found")
		good(seven)
	},
}

// changed are copies of a trigger, each with one change.
func changed(t event.Trigger, changes ...func(*event.Trigger)) (list []event.Trigger) {
	for _, f := range changes {
		c := t
		f(&c)
		list = append(list, c)
	}
	return list
}

var pollStories = map[string]func(*house){
	"poll groups follow their triggers": func(h *house) {
		a, b := h.automation("Nightly"), h.automation("Daily")
		in, other := h.connected(h.slack("T1")), h.connected(h.slack("T2"))
		groups := func(want ...string) []event.PollGroup {
			h.Helper()
			got := []string{}
			list := must(h.db.PollGroups(h.ctx, h.org.ID))(h)
			for _, g := range list {
				got = append(got, fmt.Sprintf("%s %d", map[string]string{in.ID: "in", other.ID: "other"}[g.Integration], g.PollSeconds))
			}
			h.equal(got, append([]string{}, want...), "what is polled")
			return list
		}
		slow := h.trigger(h.polling(a, in, 600))
		g := groups("in 600")[0]
		h.equal([]any{g.Provider, g.Cursor == nil, g.NextAt.After(h.now.Add(time.Minute)), g.FencingToken}, []any{"slack", true, false, int64(0)}, "a new group")
		quick := h.trigger(h.polling(b, in, 60))
		h.equal(groups("in 60")[0].ID, g.ID, "the group")
		quick.Integration = other.ID
		must(h.db.UpdateTrigger(h.ctx, quick, "alice"))(h)
		groups("in 600", "other 60")
		quick.Integration, quick.PollSeconds = in.ID, 30
		must(h.db.UpdateTrigger(h.ctx, quick, "alice"))(h)
		groups("in 30")
		slow.Enabled = false
		must(h.db.UpdateTrigger(h.ctx, slow, "alice"))(h)
		groups("in 30")
		h.ok(h.db.DeleteTrigger(h.ctx, h.org.ID, quick.ID, "alice"))
		groups()
		slow.Enabled = true
		must(h.db.UpdateTrigger(h.ctx, slow, "alice"))(h)
		if again := groups("in 600")[0]; again.ID == g.ID {
			h.Error("a group that begins anew is the old one")
		}
		h.trigger(changed(h.polling(b, other, 5), func(t *event.Trigger) { t.Enabled = false })[0])
		groups("in 600")
	},
	"a due group is polled by one worker until its lease expires": func(h *house) {
		t := h.trigger(h.polling(h.automation("Nightly"), h.connected(h.slack("T1")), 60))
		claim := func(worker string, lease time.Duration) (event.PollGroup, bool) {
			h.Helper()
			g, found, err := h.any(len(worker)).ClaimPoll(h.ctx, worker, lease)
			h.ok(err)
			return g, found
		}
		first, found := claim("w1", time.Hour)
		h.equal([]any{found, first.FencingToken, first.Integration}, []any{true, int64(1), t.Integration}, "the first claim")
		_, found = claim("w2", time.Hour)
		h.equal(found, false, "a claim of what another has")
		h.equal(must(h.db.RenewPoll(h.ctx, "w1", first, time.Millisecond))(h), true, "renewed")
		h.equal(must(h.db.RenewPoll(h.ctx, "w2", first, time.Hour))(h), false, "renewed by another")
		time.Sleep(5 * time.Millisecond)
		second, found := claim("w1", time.Hour) // his own lease, which lapsed
		h.equal([]any{found, second.FencingToken}, []any{true, int64(2)}, "the claim of what was lost")
		h.equal(must(h.db.RenewPoll(h.ctx, "w1", first, time.Hour))(h), false, "renewed by who lost it")
		h.equal(must(h.db.RenewPoll(h.ctx, "w1", second, time.Hour))(h), true, "renewed by who has it")
		h.ok(h.db.DeleteTrigger(h.ctx, h.org.ID, t.ID, "alice"))
		h.equal(must(h.db.RenewPoll(h.ctx, "w1", second, time.Hour))(h), false, "renewed when nobody wants it")
	},
	"32 workers poll, each group is one's": func(h *house) {
		a, want := h.automation("Nightly"), map[string]int{}
		for i := range 8 {
			in := h.connected(h.slack(fmt.Sprint("T", i)))
			h.trigger(h.polling(a, in, 60))
			want[in.ID] = 1
		}
		var mu sync.Mutex
		got := map[string]int{}
		together(32, func(i int) {
			// Who finds that others took what he was to take may try again.
			for range 8 {
				g, found, err := h.any(i).ClaimPoll(h.ctx, fmt.Sprint("w", i), time.Hour)
				if err != nil {
					h.Error(err)
				}
				if found {
					mu.Lock()
					got[g.Integration]++
					mu.Unlock()
				}
			}
		})
		h.equal(got, want, "claims")
	},
	"a poll group exists while a trigger needs it": func(h *house) {
		a, in := h.automation("Nightly"), h.connected(h.slack("T1"))
		triggers := make([]event.Trigger, 8)
		for i := range triggers {
			triggers[i] = h.trigger(h.polling(a, in, 60+i))
		}
		// All but the slowest go, and new ones come and are disabled.
		together(15, func(i int) {
			if i < 7 {
				if err := h.any(i).DeleteTrigger(h.ctx, h.org.ID, triggers[i].ID, "alice"); err != nil {
					h.Error(err)
				}
				return
			}
			t, err := h.any(i).CreateTrigger(h.ctx, h.polling(a, in, i), nil)
			if err == nil {
				t.Enabled = false
				_, err = h.any(i+1).UpdateTrigger(h.ctx, t, "alice")
			}
			if err != nil {
				h.Error(err)
			}
		})
		list := must(h.db.PollGroups(h.ctx, h.org.ID))(h)
		if len(list) != 1 || list[0].PollSeconds != 67 {
			h.Errorf("what is polled: %+v", list)
		}
	},
}
