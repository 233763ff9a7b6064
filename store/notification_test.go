package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/notify"
)

func TestNotifications(t *testing.T) { playRuns(t, notificationStories) }

// channel sets one up.
func (h *runHouse) channel(kind action.NotifyKind, wants action.NotifyWants) action.NotifyChannel {
	h.Helper()
	c := action.NotifyChannel{Organization: h.org, Kind: kind, Enabled: true, Wants: wants, UpdatedBy: "alice"}
	var secret *event.Secret
	if kind == action.NotifyWebhook {
		c.URL = "https://example.com/held"
		secret = &event.Secret{ID: uuid.NewString(), Sealed: []byte("sealed secret"), CreatedAt: h.db.db.Now()}
	} else {
		c.Integration, c.Target = "i1", "C1"
	}
	c, err := h.db.SetNotifyChannel(h.ctx, c, secret)
	h.ok(err)
	return c
}

// waits begins a call of a new session that waits, and returns its id.
func (h *runHouse) waits(risk action.Risk, unattended bool) string {
	h.Helper()
	s := action.Session{Organization: h.org, Kind: action.Interactive, Title: "Fix the login", CreatedBy: "alice"}
	if unattended {
		s.Kind = action.Unattended
	}
	s, err := h.db.CreateSession(h.ctx, s)
	h.ok(err)
	h.insert(s, risk, 1)
	var id string
	h.ok(h.db.db.Read.NewSelect().Table("open_calls").Column("id").Where("session_id = ?", s.ID).Scan(h.ctx, &id))
	return id
}

// insert writes so many calls that wait.
func (h *runHouse) insert(s action.Session, risk action.Risk, n int) {
	h.Helper()
	now := database.NewTimestamp(h.db.db.Now())
	h.ok(h.db.db.ExclusiveTransaction(h.ctx, func(ctx context.Context, tx bun.Tx) error {
		for range n {
			row := map[string]any{
				"id": uuid.Must(uuid.NewV7()).String(), "organization_id": h.org, "session_id": s.ID, "source_id": "linear", "source_name": "Linear", "action": "create_issue",
				"risk": string(risk), "mode": "require_approval", "mode_source": "inferred", "status": "pending", "params": "{}", "params_hash": uuid.NewString(),
				"tool_hash": "h", "revision": "", "decision": "[]", "policy_version": 0, "joins": 0, "unattended": database.BoolToInt(s.Kind == action.Unattended), "answered": 0,
				"created_at": now, "expires_at": database.NewTimestamp(now.Time.Add(time.Hour)), "waiter_seen_at": now,
			}
			if _, err := tx.NewInsert().Model(&row).Table("open_calls").Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
}

// decide ends the wait for a call.
func (h *runHouse) decide(id string) {
	h.Helper()
	_, err := h.db.Deny(h.ctx, action.Verdict{Organization: h.org, ID: id, By: "alice", Now: h.db.db.Now()})
	h.ok(err)
}

// look makes and closes what there is to tell, once.
func (h *runHouse) look(c action.NotifyChannel) (made, closed int) {
	h.Helper()
	made, _, err := h.db.QueueCalls(h.ctx, c, h.db.db.Now(), action.NotifyCursor{})
	h.ok(err)
	closed, _, err = h.db.CloseSettled(h.ctx, c, action.NotifyCursor{})
	h.ok(err)
	return made, closed
}

// take claims the house's channel of a kind.
func (h *runHouse) take(worker string, kind action.NotifyKind) (mine []action.NotifyChannel) {
	h.Helper()
	list, err := h.db.ClaimChannels(h.ctx, worker, time.Minute)
	h.ok(err)
	for _, c := range list {
		if c.Organization == h.org && c.Kind == kind {
			mine = append(mine, c)
		} else {
			h.ok(h.db.ReleaseChannel(h.ctx, worker, c))
		}
	}
	return mine
}

func (h *runHouse) next(c action.NotifyChannel) *action.DueNotification {
	h.Helper()
	w, err := h.db.NextNotification(h.ctx, c)
	h.ok(err)
	return w
}

func (h *runHouse) sent(worker string, w *action.DueNotification) bool {
	h.Helper()
	n := w.Notification
	n.Ref = "C1/1.2"
	held, err := h.db.SettleNotification(h.ctx, worker, action.NotifyOutcome{Notification: n, OK: true})
	h.ok(err)
	return held
}

func (h *runHouse) failed(worker string, w *action.DueNotification, again time.Time) {
	h.Helper()
	held, err := h.db.SettleNotification(h.ctx, worker, action.NotifyOutcome{Notification: w.Notification, Error: "It answered 503", RetryAt: again, ChannelRetryAt: h.db.db.Now().Add(-time.Second)})
	h.ok(err)
	h.equal(held, true, "held")
}

// statuses are those of the house's notifications, the oldest first.
func (h *runHouse) statuses() (list []string) {
	h.Helper()
	all, err := h.db.Notifications(h.ctx, h.org, 0)
	h.ok(err)
	for i := len(all) - 1; i >= 0; i-- {
		list = append(list, fmt.Sprintf("%s %s", all[i].Event, all[i].Status))
	}
	return list
}

var notificationStories = map[string]func(*runHouse){
	"a held call and its end are notified once": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		id := h.waits(action.RiskWrite, false)
		h.equal(len(h.take("w", c.Kind)), 0, "channels before anybody looked")
		h.look(c)
		made, _ := h.look(c)
		h.equal(made, 0, "notifications made by a second look")
		h.equal(len(h.take("w", c.Kind)), 1, "channels")
		w := h.next(c)
		h.equal([]any{w.Event, w.Invocation, w.Call.SourceName, w.Session.Title}, []any{action.NotifyHeld, id, "Linear", "Fix the login"}, "what is told")
		h.equal(h.sent("w", w), true, "held")
		h.equal(h.next(c) == nil, true, "nothing more")
		h.decide(id)
		h.look(c)
		w = h.next(c)
		h.equal([]any{w.Event, w.Call.Status}, []any{action.NotifySettled, action.StatusDenied}, "the end")
		h.sent("w", w)
		h.look(c)
		h.equal(h.statuses(), []string{"held done", "settled done"}, "what was told")
	},
	"a call that ends before its notification is not notified": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		looked, unlooked := h.waits(action.RiskWrite, false), h.waits(action.RiskWrite, false)
		h.look(c)
		h.decide(looked)
		h.look(c)
		h.decide(unlooked)
		h.equal(h.next(c) == nil, true, "nothing to tell")
		h.equal(h.statuses(), []string{"held void", "held void"}, "what was told")
	},
	"a channel notifies only the calls it wants": func(h *runHouse) {
		h.waits(action.RiskWrite, false)
		danger, unattended := h.waits(action.RiskDanger, false), h.waits(action.RiskWrite, true)
		for wants, want := range map[action.NotifyWants][]string{action.WantsDanger: {danger}, action.WantsUnattended: {unattended}} {
			c := h.channel(action.NotifySlack, wants)
			h.look(c)
			var got []string
			all, err := h.db.Notifications(h.ctx, h.org, 0)
			h.ok(err)
			for _, n := range all {
				got = append(got, n.Invocation)
			}
			h.equal(got, want, string(wants))
			h.ok(h.db.DeleteNotifyChannel(h.ctx, h.org, c.Kind, "alice"))
		}
	},
	"a request for variables and its end are notified once": func(h *runHouse) {
		h.ok(h.db.DeleteNotifyChannel(h.ctx, h.org, h.channel(action.NotifyWebhook, action.WantsDanger).Kind, "alice"))
		s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Kind: action.Unattended, Title: "Fix the login", CreatedBy: "alice"})
		h.ok(err)
		r, _, err := h.db.RequestEnv(h.ctx, h.org, s.ID, envKeys("TOKEN"))
		h.ok(err)
		danger := h.channel(action.NotifySlack, action.WantsDanger)
		made, _ := h.look(danger)
		h.equal(made, 0, "of which a channel for danger hears")
		c := h.channel(action.NotifyWebhook, action.WantsUnattended)
		made, _, err = h.db.QueueCalls(h.ctx, c, h.db.db.Now().Add(-time.Hour), action.NotifyCursor{})
		h.ok(err)
		h.equal(made, 0, "before it has waited")
		h.look(c)
		made, closed := h.look(c)
		h.equal([]int{made, closed}, []int{0, 0}, "made and closed by a second look")
		h.equal(len(h.take("w", c.Kind)), 1, "channels")
		w := h.next(c)
		h.equal([]any{w.Event, w.Invocation, w.EnvRequest, w.Variables.Keys[0].Key, w.Session.Title}, []any{action.NotifyHeld, "", r.ID, "TOKEN", "Fix the login"}, "what is told")
		h.equal(h.sent("w", w), true, "held")
		_, err = h.db.DecideEnv(h.ctx, action.EnvVerdict{Organization: h.org, ID: r.ID, By: "alice", Note: "no"})
		h.ok(err)
		h.look(c)
		w = h.next(c)
		h.equal([]any{w.Event, w.EnvRequest, w.Variables.Status}, []any{action.NotifySettled, r.ID, action.EnvRefused}, "the end")
		h.sent("w", w)
		h.equal(h.statuses(), []string{"held done", "settled done"}, "what was told")
	},
	"a request for a grant and its end are notified once": func(h *runHouse) {
		s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Title: "Fix the login", CreatedBy: "alice"})
		h.ok(err)
		now := h.db.db.Now()
		r, _, err := h.db.RequestGrant(h.ctx, action.GrantRequest{
			Organization: h.org, Session: s.ID, Terms: action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create_issue"}, ToolHash: "tool", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		})
		h.ok(err)
		for _, wants := range []action.NotifyWants{action.WantsDanger, action.WantsUnattended} {
			c := h.channel(action.NotifySlack, wants)
			made, _ := h.look(c)
			h.equal(made, 0, string(wants))
		}
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		h.look(c)
		made, closed := h.look(c)
		h.equal([]int{made, closed}, []int{0, 0}, "made and closed by a second look")
		h.equal(len(h.take("w", c.Kind)), 1, "channels")
		w := h.next(c)
		h.equal([]any{w.Event, w.Invocation, w.GrantRequest, w.Grant.Terms.Action, w.GrantSource, w.Session.Title}, []any{action.NotifyHeld, "", r.ID, "create_issue", "linear", "Fix the login"}, "what is told")
		h.sent("w", w)
		_, err = h.db.DenyRequest(h.ctx, action.RequestVerdict{Organization: h.org, ID: r.ID, By: "alice", Note: "no"})
		h.ok(err)
		h.look(c)
		w = h.next(c)
		h.equal([]any{w.Event, w.GrantRequest, w.Grant.Status}, []any{action.NotifySettled, r.ID, action.RequestDenied}, "the end")
		h.sent("w", w)
		h.equal(h.statuses(), []string{"held done", "settled done"}, "what was told")
	},
	"a run is notified each time it needs attention": func(h *runHouse) {
		fails := func() event.Run {
			r := h.claim().Run
			h.finish(r, event.RunResult{Status: event.RunFailed, Code: "tests_failed", Message: "Red."})
			return r
		}
		id := h.queued()
		fails()
		made, _ := h.look(h.channel(action.NotifySlack, action.WantsDanger))
		h.equal(made, 0, "of which a channel for danger hears")
		c := h.channel(action.NotifyWebhook, action.WantsUnattended)
		h.look(c)
		made, closed := h.look(c)
		h.equal([]int{made, closed}, []int{0, 0}, "made and closed by a second look")
		h.equal(len(h.take("w", c.Kind)), 1, "channels")
		w := h.next(c)
		h.equal([]any{w.Event, w.Invocation, w.Run, w.Ended.Status, w.Ended.Code, w.Ended.Message, w.Ended.Title, w.Automation}, []any{action.NotifyHeld, "", id, "failed", "tests_failed", "Red.", "Bug", h.a.Name}, "what is told")
		h.sent("w", w)
		_, err := h.db.RedriveRun(h.ctx, h.org, id, "alice")
		h.ok(err)
		fails()
		h.look(c)
		w = h.next(c)
		h.equal([]any{w.Event, w.Run}, []any{action.NotifyHeld, id}, "that it failed again")
		h.sent("w", w)
		w = h.next(c)
		h.equal([]any{w.Event, w.Run, w.Ended.NeedsAttention}, []any{action.NotifySettled, id, true}, "the end of the first time")
		h.sent("w", w)
		_, err = h.db.ResolveRun(h.ctx, h.org, id, "alice", event.RunResult{Status: event.RunFailed})
		h.ok(err)
		h.look(c)
		w = h.next(c)
		h.equal([]any{w.Event, w.Run, w.Ended.NeedsAttention}, []any{action.NotifySettled, id, false}, "the end")
		h.sent("w", w)
		unsent := h.queued()
		fails()
		h.look(c)
		_, err = h.db.RedriveRun(h.ctx, h.org, unsent, "alice")
		h.ok(err)
		h.equal(h.next(c) == nil, true, "nothing of a run that was repeated before")
		h.equal(h.statuses(), []string{"held done", "held done", "settled done", "settled done", "held void"}, "what was told")
	},
	"one worker at a time holds a channel": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		h.waits(action.RiskWrite, false)
		h.look(c)
		var mu sync.Mutex
		var all sync.WaitGroup
		var got int
		for i := range 8 {
			all.Go(func() {
				list, err := h.dbs[i%len(h.dbs)].ClaimChannels(h.ctx, fmt.Sprint("w", i), time.Minute)
				h.ok(err)
				mu.Lock()
				defer mu.Unlock()
				for _, c := range list {
					if c.Organization == h.org {
						got++
					}
				}
			})
		}
		all.Wait()
		h.equal(got, 1, "workers that have it")
		h.ok(h.db.db.ExclusiveTransaction(h.ctx, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewUpdate().Table("notify_channels").Set("lease_until = ?, holder = 'dead'", database.NewTimestamp(h.db.db.Now().Add(-time.Second))).Where("organization_id = ?", h.org).Exec(ctx)
			return err
		}))
		h.equal(len(h.take("w", c.Kind)), 1, "once the lease is over")
		h.equal(h.sent("dead", h.next(c)), false, "what the dead one writes")
		h.equal(h.sent("w", h.next(c)), true, "what the other writes")
	},
	"a failed notification is retried and settled": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		h.waits(action.RiskWrite, false)
		h.waits(action.RiskWrite, false)
		h.look(c)
		h.take("w", c.Kind)
		first := h.next(c)
		h.failed("w", first, h.db.db.Now().Add(time.Hour))
		second := h.next(c)
		h.equal(second.ID == first.ID, false, "the other one is next")
		h.failed("w", second, time.Time{})
		h.equal(h.next(c) == nil, true, "nothing is due")
		h.equal(h.statuses(), []string{"held pending", "held void"}, "what was told")
		got, err := h.db.NotifyChannel(h.ctx, h.org, c.Kind)
		h.ok(err)
		h.equal([]any{got.Failures, got.LastError, got.LastErrorAt != nil}, []any{2, "It answered 503", true}, "the channel")
		c = h.channel(c.Kind, c.Wants)
		h.equal([]any{c.Failures, c.LastError}, []any{0, ""}, "the channel that was set anew")
		h.equal(h.next(c).ID, first.ID, "what is due then")
	},
	"held calls are notified before ends": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		ended := h.waits(action.RiskWrite, false)
		h.look(c)
		h.take("w", c.Kind)
		h.sent("w", h.next(c))
		h.decide(ended)
		h.look(c)
		waits := h.waits(action.RiskWrite, false)
		h.look(c)
		h.equal(h.next(c).Invocation, waits, "what is told first")
		h.sent("w", h.next(c))
		h.equal(h.next(c).Invocation, ended, "what is told then")
		h.decide(waits)
		c.Enabled = false
		c, err := h.db.SetNotifyChannel(h.ctx, c, nil)
		h.ok(err)
		h.equal(h.next(c) == nil, true, "nothing of a channel that is off")
		_, closed := h.look(c)
		h.equal(closed, 0, "nothing to end")
		h.waits(action.RiskWrite, false)
		h.look(c)
		h.equal(h.statuses(), []string{"held done", "settled void", "held done"}, "what was told")
	},
	"Slack hears the end of what it has": func(h *runHouse) {
		c := h.channel(action.NotifySlack, action.WantsAll)
		id := h.waits(action.RiskWrite, false)
		h.look(c)
		h.take("w", c.Kind)
		h.sent("w", h.next(c))
		h.decide(id)
		h.look(c)
		h.equal(h.next(c).Ref, "C1/1.2", "where the message is")
	},
	"polling continues from the last cursor": func(h *runHouse) {
		c := h.channel(action.NotifyWebhook, action.WantsAll)
		s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, CreatedBy: "alice"})
		h.ok(err)
		h.insert(s, action.RiskWrite, notify.ScanOthers+notify.ScanNewest+30)
		made, mark, err := h.db.QueueCalls(h.ctx, c, h.db.db.Now(), action.NotifyCursor{})
		h.ok(err)
		h.equal(made, notify.ScanOthers+notify.ScanNewest, "made at first")
		made, mark, err = h.db.QueueCalls(h.ctx, c, h.db.db.Now(), mark)
		h.ok(err)
		h.equal([]any{made, mark.ID}, []any{30, ""}, "made then")
		ends, mark, err := h.db.CloseSettled(h.ctx, c, mark)
		h.ok(err)
		h.equal([]any{ends, mark.Notification == ""}, []any{0, false}, "ended")
	},
	"history has the author and no secret": func(h *runHouse) {
		h.channel(action.NotifyWebhook, action.WantsAll)
		_, err := h.db.SetNotifyChannel(h.ctx, action.NotifyChannel{Organization: h.org, Kind: action.NotifySlack, Wants: action.WantsDanger, Sealed: []byte("https://hooks"), UpdatedBy: "bob"}, nil)
		h.ok(err)
		h.ok(h.db.RotateSecret(h.ctx, h.org, "notify", event.Secret{ID: uuid.NewString(), Sealed: []byte("x")}, h.db.db.Now(), "carol"))
		h.ok(h.db.DeleteNotifyChannel(h.ctx, h.org, action.NotifyWebhook, "dan"))
		_, err = h.db.SigningSecrets(h.ctx, h.org, "notify")
		h.refused(err, action.ErrNotFound, "notify_not_found")
		page, err := h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org, Kind: action.EventNotify})
		h.ok(err)
		var got []string
		for _, e := range page.Items {
			got = append(got, e.By+" "+e.Subject+" "+string(e.After))
		}
		h.equal(got, []string{
			"dan webhook null", `carol notify ` + string(page.Items[1].After), `bob slack {"enabled":false,"wants":"danger"}`,
			`alice webhook {"enabled":true,"wants":"all","host":"example.com"}`,
		}, "history")
		h.equal(json.Valid(page.Items[1].After), true, "what rotation left")
	},
	"invalid channels are refused": func(h *runHouse) {
		for _, c := range []action.NotifyChannel{
			{Kind: "mail", Wants: action.WantsAll},
			{Kind: action.NotifyWebhook, Wants: "some", URL: "https://example.com"},
			{Kind: action.NotifyWebhook, Wants: action.WantsAll, URL: "http://example.com"},
			{Kind: action.NotifyWebhook, Wants: action.WantsAll, URL: "https://example.com?token=ghp_0123456789abcdefghijABCDEFGHIJ012345"},
			{Kind: action.NotifySlack, Wants: action.WantsAll},
			{Kind: action.NotifySlack, Wants: action.WantsAll, Sealed: []byte("x"), Integration: "i", Target: "C"},
			{Kind: action.NotifySlack, Wants: action.WantsAll, Integration: "i"},
		} {
			c.Organization, c.UpdatedBy = h.org, "alice"
			_, err := h.db.SetNotifyChannel(h.ctx, c, nil)
			h.refused(err, action.ErrInvalid, "invalid")
		}
	},
}
