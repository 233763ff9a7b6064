package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// steps are what moves a session by a person's will.
var steps = map[string]func(h *house, organization, id string) error{
	"pause": func(h *house, organization, id string) error {
		_, err := h.db.PauseSession(h.ctx, organization, id)
		return err
	},
	"resume": func(h *house, organization, id string) error {
		_, err := h.db.ResumeSession(h.ctx, organization, id)
		return err
	},
	"stop": func(h *house, organization, id string) error {
		_, _, err := h.db.EndSession(h.ctx, organization, id, action.SessionStopped, "Enough.")
		return err
	},
	"fail": func(h *house, organization, id string) error {
		_, _, err := h.db.EndSession(h.ctx, organization, id, action.SessionFailed, "It lost its way.")
		return err
	},
}

// quiet makes a session that was made and used so long ago.
func (h *house) quiet(ago time.Duration, change func(*action.Session)) action.Session {
	h.Helper()
	then := h.now.Add(-ago)
	s := action.Session{Organization: h.org.ID, CreatedBy: "alice", CreatedAt: then, LastSeenAt: &then, Status: action.SessionRunning}
	if change != nil {
		change(&s)
	}
	return must(h.db.CreateSession(h.ctx, s))(h)
}

func (h *house) sessionIs(id string, want action.SessionStatus) action.Session {
	h.Helper()
	s := must(h.db.Session(h.ctx, id))(h)
	h.equal(s.Status, want, "status of the session")
	return s
}

// idle stops idle sessions, and returns the ids of those of this house.
func (h *house) idle(usual time.Duration) (ids []string) {
	h.Helper()
	for _, e := range must(h.db.StopIdle(h.ctx, usual, 0))(h) {
		if e.Session.Organization == h.org.ID {
			ids = append(ids, e.Session.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

var sessionLifeStories = map[string]func(*house){
	"sessions change status only as allowed": func(h *house) {
		over := h.now.Add(-time.Second)
		from := map[string]func() action.Session{
			"pending": func() action.Session { return h.session(action.Interactive) },
			"running": func() action.Session { return h.quiet(0, nil) },
			"paused": func() action.Session {
				return must(h.db.PauseSession(h.ctx, h.org.ID, h.quiet(0, nil).ID))(h)
			},
			"stopped": func() action.Session {
				s := h.quiet(0, nil)
				h.ok(steps["stop"](h, h.org.ID, s.ID))
				return s
			},
			"failed": func() action.Session {
				s := h.quiet(0, nil)
				h.ok(steps["fail"](h, h.org.ID, s.ID))
				return s
			},
			"over": func() action.Session {
				return h.quiet(0, func(s *action.Session) { s.ExpiresAt = &over })
			},
		}
		leads := map[string]action.SessionStatus{
			"pending pause": action.SessionPaused, "pending stop": action.SessionStopped, "pending fail": action.SessionFailed,
			"running pause": action.SessionPaused, "running stop": action.SessionStopped, "running fail": action.SessionFailed,
			"paused resume": action.SessionRunning, "paused stop": action.SessionStopped, "paused fail": action.SessionFailed,
		}
		for status, made := range from {
			for step, take := range steps {
				s := made()
				before := must(h.db.Session(h.ctx, s.ID))(h)
				err := take(h, h.org.ID, s.ID)
				if to, ok := leads[status+" "+step]; ok {
					h.ok(err)
					after := h.sessionIs(s.ID, to)
					h.equal([]bool{after.RevokedAt != nil, after.EndedNote != ""}, []bool{to.Ended(), to.Ended()}, status+" "+step+": ended, with a note")
					continue
				}
				code := "session_status"
				if before.Live(h.now) != nil {
					code = "session_ended"
				}
				told := h.refused(err, action.ErrConflict, code)
				if named := "has " + status; code == "session_ended" && status != "over" && !strings.Contains(told.Message, named) {
					h.Errorf("%s %s: %q does not say %q", status, step, told.Message, named)
				}
				h.equal(must(h.db.Session(h.ctx, s.ID))(h), before, status+" "+step+": the session")
				h.refused(take(h, newHouse(h.T, h.db).org.ID, s.ID), action.ErrNotFound, "session_not_found")
			}
		}
	},
	"a session that was never used is pending again when it is resumed": func(h *house) {
		h.ok(steps["pause"](h, h.org.ID, h.s.ID))
		h.ok(steps["resume"](h, h.org.ID, h.s.ID))
		h.sessionIs(h.s.ID, action.SessionPending)
	},
	"the first use has a session run, and each is noted to within a minute": func(h *house) {
		long, paused, other := h.quiet(time.Hour, nil), h.quiet(time.Hour, nil), h.session(action.Interactive)
		h.ok(steps["pause"](h, h.org.ID, paused.ID))
		just := h.quiet(10*time.Second, nil)
		began := must(h.db.SeeSessions(h.ctx, []string{long.ID, h.s.ID, paused.ID, just.ID, newID()}))(h)
		h.equal(len(began), 1, "sessions that run since")
		h.equal(began[0], action.Session{ID: h.s.ID, Organization: h.org.ID}, "the one")
		h.sessionIs(h.s.ID, action.SessionRunning)
		h.sessionIs(other.ID, action.SessionPending)
		if s := h.sessionIs(paused.ID, action.SessionPaused); !s.LastSeenAt.After(h.now.Add(-time.Minute)) {
			h.Errorf("a paused one was seen at %s", s.LastSeenAt)
		}
		if s := h.sessionIs(long.ID, action.SessionRunning); !s.LastSeenAt.After(h.now.Add(-time.Minute)) {
			h.Errorf("it was seen at %s", s.LastSeenAt)
		}
		h.equal(h.sessionIs(just.ID, action.SessionRunning).LastSeenAt, just.LastSeenAt, "when another was seen, a moment ago")
		h.equal(len(must(h.db.SeeSessions(h.ctx, []string{h.s.ID}))(h)), 0, "a second time")
	},
	"a paused session begins nothing; what is open is joined, and goes on": func(h *house) {
		held, approved := h.held(`{"a":1}`), h.held(`{"a":2}`)
		h.began(held)
		h.began(approved)
		h.ok(steps["pause"](h, h.org.ID, h.s.ID))
		for name, d := range map[string]*action.Draft{"held": h.held(`{"a":3}`), "allowed": h.allowed(`{"a":4}`), "read": h.read(`{"a":5}`)} {
			d.Snapshot = false
			_, err := h.db.Begin(h.ctx, d)
			if told := h.refused(err, action.ErrConflict, "session_paused"); !strings.Contains(told.Message, "nothing was executed") {
				h.Errorf("%s: %q", name, told.Message)
			}
		}
		again := h.held(`{"a":1}`)
		begun := must(h.db.Begin(h.ctx, again))(h)
		h.equal([]any{begun.Created, begun.ID}, []any{false, held.ID}, "the same call again")
		h.approve(approved.ID)
		h.status(approved.ID, action.StatusApproved)
		_, _, err := h.db.RequestGrant(h.ctx, h.wish(terms()))
		h.refused(err, action.ErrConflict, "session_paused")
		h.ok(steps["resume"](h, h.org.ID, h.s.ID))
		late := h.allowed(`{"a":4}`)
		late.Paused = true // as it was when the call came
		_, err = h.db.Begin(h.ctx, late)
		h.refused(err, action.ErrConflict, "session_paused")
		h.began(h.allowed(`{"a":4}`))
	},
	"no row begins after a pause has returned": func(h *house) {
		for round := range 8 {
			h.s = h.session(action.Interactive)
			var paused atomic.Bool
			together(16, func(i int) {
				if i == 7 {
					if _, err := h.any(i).PauseSession(h.ctx, h.org.ID, h.s.ID); err != nil {
						h.Error(err)
					}
					paused.Store(true)
					return
				}
				before := paused.Load()
				d := h.held(fmt.Sprintf(`{"round":%d,"a":%d}`, round, i))
				d.MaxPending = 0
				if i%2 == 0 {
					d = h.allowed(fmt.Sprintf(`{"round":%d,"a":%d}`, round, i))
				}
				switch _, err := h.any(i).Begin(h.ctx, d); {
				case err == nil && before:
					h.Errorf("call %d began in a paused session", i)
				case err != nil && !errors.Is(err, action.ErrConflict):
					h.Error(err)
				}
			})
			_, err := h.any(round).Begin(h.ctx, h.held(`{"after":1}`))
			h.refused(err, action.ErrConflict, "session_paused")
		}
	},
	"a call is either approved or withdrawn at the end of its session": func(h *house) {
		for round := range 8 {
			h.s = h.session(action.Interactive)
			d := h.held(`{"a":1}`)
			h.began(d)
			var approved, withdrew atomic.Bool
			together(2, func(i int) {
				if i == 0 {
					_, err := h.any(round).Approve(h.ctx, h.verdict(d.ID))
					approved.Store(err == nil)
					return
				}
				_, list, err := h.any(round+1).EndSession(h.ctx, h.org.ID, h.s.ID, action.SessionStopped, "")
				if err != nil {
					h.Error(err)
				}
				withdrew.Store(len(list) == 1)
			})
			if approved.Load() == withdrew.Load() {
				h.Fatalf("approved %t, withdrawn %t", approved.Load(), withdrew.Load())
			}
		}
	},
	"64 wishes with one key make one session": func(h *house) {
		once := action.Idempotency{Key: "k", Hash: "hash"}
		var ids [64]string
		var made atomic.Int64
		together(len(ids), func(i int) {
			s, existed, err := h.any(i).MakeSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice"}, once)
			if err != nil {
				h.Error(err)
			}
			if ids[i] = s.ID; !existed {
				made.Add(1)
			}
		})
		if h.Failed() {
			h.FailNow()
		}
		h.equal(len(slices.Compact(slices.Sorted(slices.Values(ids[:])))), 1, "sessions")
		h.equal(made.Load(), int64(1), "times that it was made")
		s, found, err := h.db.SessionOnce(h.ctx, h.org.ID, once)
		h.ok(err)
		h.equal([]any{s.ID, found}, []any{ids[0], true}, "the session of the key")
		wish := action.Session{Organization: h.org.ID, CreatedBy: "alice"}
		_, _, err = h.db.MakeSession(h.ctx, wish, action.Idempotency{Key: "k", Hash: "another"})
		h.refused(err, action.ErrConflict, "idempotency_key_reused")
		wish.Organization = newHouse(h.T, h.db).org.ID
		if elsewhere, existed, err := h.db.MakeSession(h.ctx, wish, once); err != nil || existed || elsewhere.ID == s.ID {
			h.Errorf("another organization's session with the key: %v, existed %t", err, existed)
		}
	},
	"idle sessions are stopped, each after its own time or the usual one": func(h *house) {
		own := func(d time.Duration) func(*action.Session) { return func(s *action.Session) { s.IdleTimeout = d } }
		usual, short := h.quiet(2*time.Hour, nil), h.quiet(10*time.Minute, own(time.Minute))
		h.quiet(10*time.Minute, nil)
		h.quiet(2*time.Hour, own(action.NeverIdle))
		h.quiet(2*time.Hour, own(3*time.Hour))
		paused := h.quiet(2*time.Hour, nil)
		h.ok(steps["pause"](h, h.org.ID, paused.ID))
		busy := h.quiet(2*time.Hour, nil)
		h.s = busy
		held := h.held(`{"a":1}`)
		h.began(held)
		h.equal(h.idle(0), []string{short.ID}, "idle where there is no usual time")
		h.equal(h.idle(time.Hour), []string{usual.ID}, "idle for an hour")
		stopped := h.sessionIs(usual.ID, action.SessionStopped)
		h.equal(stopped.EndedNote, "It was idle for 1h0m0s.", "why")
		h.ok(steps["resume"](h, h.org.ID, paused.ID))
		h.equal(h.idle(time.Hour), []string(nil), "idle just after the pause")
		h.deny(held.ID, "no")
		h.equal(h.idle(time.Hour), []string{busy.ID}, "idle when nothing is held any more")
	},
	"what a session is called, and how long it may be idle, changes": func(h *house) {
		title, idle := "Renamed", time.Hour
		s, err := h.db.ChangeSession(h.ctx, h.org.ID, h.s.ID, &title, &idle)
		h.ok(err)
		h.equal([]any{s.Title, s.IdleTimeout}, []any{title, idle}, "the session")
		h.equal(must(h.db.Session(h.ctx, s.ID))(h), s, "the session")
		wrong := -time.Minute
		_, err = h.db.ChangeSession(h.ctx, h.org.ID, s.ID, nil, &wrong)
		h.refused(err, action.ErrInvalid, "invalid")
		_, err = h.db.ChangeSession(h.ctx, newHouse(h.T, h.db).org.ID, s.ID, &title, nil)
		h.refused(err, action.ErrNotFound, "session_not_found")
		h.ok(steps["stop"](h, h.org.ID, s.ID))
		_, err = h.db.ChangeSession(h.ctx, h.org.ID, s.ID, nil, &idle)
		h.refused(err, action.ErrConflict, "session_ended")
		title = "After the end"
		h.equal(must(h.db.ChangeSession(h.ctx, h.org.ID, s.ID, &title, nil))(h).Title, title, "title of one that ended")
	},
	"old sessions are cleared, and deleted unless referenced": func(h *house) {
		dress := func(s *action.Session) {
			s.Title, s.Prompt, s.Model, s.Group = "Title", "Prompt", "m", "g"
		}
		kept, gone, alive := h.quiet(0, dress), h.quiet(0, dress), h.quiet(0, dress)
		h.s = kept
		h.began(h.allowed(`{"a":1}`))
		for _, s := range []action.Session{kept, gone} {
			h.ok(steps["stop"](h, h.org.ID, s.ID))
		}
		must(h.db.PurgeSessions(h.ctx, h.now.Add(-time.Hour), 0))(h)
		h.equal(h.sessionIs(kept.ID, action.SessionStopped).Title, "Title", "title before its time")
		must(h.db.PurgeSessions(h.ctx, time.Now().Add(time.Hour), 0))(h)
		_, err := h.db.Session(h.ctx, gone.ID)
		h.refused(err, action.ErrNotFound, "session_not_found")
		h.equal(h.sessionIs(alive.ID, action.SessionRunning), alive, "one that lives")
		s := h.sessionIs(kept.ID, action.SessionStopped)
		h.equal([]string{s.Title, s.Prompt, s.Model, s.EndedNote, s.Group, s.CreatedBy}, []string{"", "", "", "", "g", "alice"}, "what is left of one that called")
		h.equal(must(h.db.PurgeSessions(h.ctx, time.Now().Add(time.Hour), 0))(h), 0, "looked at once more")
	},
	"sessions are listed by their status": func(h *house) {
		failed, stopped, paused := h.quiet(time.Minute, nil), h.quiet(time.Minute, nil), h.quiet(time.Minute, nil)
		running := h.quiet(time.Minute, nil)
		h.ok(steps["fail"](h, h.org.ID, failed.ID))
		h.ok(steps["stop"](h, h.org.ID, stopped.ID))
		h.ok(steps["pause"](h, h.org.ID, paused.ID))
		over := h.now.Add(-time.Second)
		h.quiet(time.Minute, func(s *action.Session) { s.ExpiresAt = &over })
		for status, want := range map[action.SessionStatus]string{
			action.SessionPending: h.s.ID, action.SessionRunning: running.ID, action.SessionPaused: paused.ID,
			action.SessionStopped: stopped.ID, action.SessionFailed: failed.ID,
		} {
			p := must(h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org.ID, Status: status}))(h)
			if p.Total != 1 || p.Items[0].ID != want {
				h.Errorf("%s: %d sessions", status, p.Total)
			}
		}
	},
}
