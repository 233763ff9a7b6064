package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// runHouse is an organization with an automation.
type runHouse struct {
	*testing.T
	ctx context.Context
	db  *DB
	dbs []*DB // db, and the same again as others have it open
	org string
	a   event.Automation
}

// playRuns plays stories on one SQLite and one PostgreSQL, each in an
// organization of its own.
func playRuns(t *testing.T, stories map[string]func(*runHouse)) {
	for kind, open := range map[string]func(*testing.T) []*DB{"SQLite": openRunFile, "PostgreSQL": openRunServer} {
		t.Run(kind, func(t *testing.T) {
			dbs := open(t)
			for name, story := range stories {
				t.Run(name, func(t *testing.T) { story(newRunHouse(t, dbs)) })
			}
		})
	}
}

func openRunFile(t *testing.T) []*DB {
	path := filepath.Join(t.TempDir(), "s.db")
	dbtest.FileFrom(t, "tables", path, func(path string) error {
		db, err := Open(context.Background(), Config{Path: path})
		if err != nil {
			return err
		}
		return db.db.Close()
	})
	return []*DB{openAt(t, path)}
}

func openRunServer(t *testing.T) []*DB {
	url := dbtest.PostgresFrom(t, "tables", func(url string) error {
		_, err := database.Migrate(t.Context(), Config{URL: url})
		return err
	})
	var dbs []*DB
	for range 2 {
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.db.Close() })
		dbs = append(dbs, db)
	}
	return dbs
}

func newRunHouse(t *testing.T, dbs []*DB) *runHouse {
	t.Helper()
	h := &runHouse{T: t, ctx: t.Context(), db: dbs[0], dbs: dbs, org: uuid.NewString()}
	_, err := h.db.EnsureOrganization(h.ctx, h.org, "Acme")
	h.ok(err)
	h.a, err = h.db.CreateAutomation(h.ctx, event.Automation{Organization: h.org, Name: "Triage", Enabled: true, Instructions: "Look.", CreatedBy: "alice"})
	h.ok(err)
	return h
}

func (h *runHouse) any(i int) *DB { return h.dbs[i%len(h.dbs)] }

func (h *runHouse) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *runHouse) refused(err error, kind error, code string) {
	h.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || e.Code != code || !strings.HasSuffix(e.Message, ".") {
		h.Fatalf("error %v, want %v with code %s", err, kind, code)
	}
}

func (h *runHouse) equal(got, want any, what string) {
	h.Helper()
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// queued writes a run that waits, as an event makes it, and its delivery.
func (h *runHouse) queued() string {
	h.Helper()
	id, now := uuid.Must(uuid.NewV7()).String(), database.NewTimestamp(h.db.db.Now())
	for _, row := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO events (id, organization_id, trigger_id, automation_id, inbox_id, provider, type, native, dedup_key, title, url, created_at, sealed)
		VALUES (?, ?, 't', ?, 'in', 'github', 'issue', 'issues:opened', ?, 'Bug', 'https://example.com/1', ?, ?)`, []any{"e" + id, h.org, h.a.ID, id, now, []byte("sealed")}},
		{`INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at) VALUES (?, ?, ?, ?, 't', 'queued', 0, ?)`, []any{id, h.org, h.a.ID, "e" + id, now}},
		{`INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at) VALUES (?, ?, ?, 'pending', 0, ?, ?)`, []any{"o" + id, h.org, id, now, now}},
	} {
		_, err := h.db.db.Write.DB.ExecContext(h.ctx, row.query, row.args...)
		h.ok(err)
	}
	return id
}

func (h *runHouse) enabled(enabled bool) {
	h.Helper()
	h.a.Enabled = enabled
	_, err := h.db.UpdateAutomation(h.ctx, h.a, "alice")
	h.ok(err)
}

func (h *runHouse) wish() event.Claim {
	return event.Claim{Organization: h.org, By: "worker", Lease: 5 * time.Minute, Life: time.Hour}
}

func (h *runHouse) claim() event.Work {
	h.Helper()
	w, err := h.db.ClaimRun(h.ctx, h.wish())
	h.ok(err)
	return w
}

func (h *runHouse) renew(r event.Run) event.Run {
	h.Helper()
	r, err := h.db.RenewRun(h.ctx, h.org, r.ID, r.Claim)
	h.ok(err)
	return r
}

func (h *runHouse) finish(r event.Run, e event.RunResult) (event.Run, []action.Invocation) {
	h.Helper()
	r, withdrew, err := h.db.FinishRun(h.ctx, h.org, r.ID, r.Claim, e)
	h.ok(err)
	return r, withdrew
}

func (h *runHouse) run(id string, want event.RunStatus) event.Run {
	h.Helper()
	r, err := h.db.Run(h.ctx, h.org, id)
	h.ok(err)
	if r.Status != want {
		h.Fatalf("the run is %s, want %s", r.Status, want)
	}
	return r
}

// held begins a call of a run's session that waits for a person.
func (h *runHouse) held(session string) string {
	h.Helper()
	d := heldCall(h.org, session)
	_, err := h.db.Begin(h.ctx, d)
	h.ok(err)
	return d.ID
}

func heldCall(org, session string) *action.Draft {
	id, now := uuid.Must(uuid.NewV7()).String(), time.Now()
	expires := now.Add(time.Hour)
	return &action.Draft{
		Invocation: action.Invocation{
			ID: id, Organization: org, Session: session, Source: "linear", SourceName: "Linear", Action: "x", Risk: action.RiskWrite,
			Status: action.StatusPending, Mode: action.ModeRequireApproval, ModeSource: action.LayerInferred,
			Params: json.RawMessage(`{}`), ParamsHash: id, CreatedAt: now, ExpiresAt: &expires,
		},
		PolicyVersion: 1, Joins: true, Unattended: true, MaxPending: 50, SealedParams: []byte("sealed"), DeniedSince: now,
	}
}

func (h *runHouse) verdict(call string) action.Verdict {
	return action.Verdict{Organization: h.org, ID: call, By: "alice", Now: h.db.db.Now()}
}

func (h *runHouse) approve(call string) {
	h.Helper()
	_, err := h.db.Approve(h.ctx, h.verdict(call))
	h.ok(err)
}

// live checks whether the token of a session is good.
func (h *runHouse) live(session string, want bool) {
	h.Helper()
	s, err := h.db.Session(h.ctx, session)
	h.ok(err)
	if got := s.Live(h.db.db.Now()) == nil; got != want {
		h.Fatalf("the session is live: %t", got)
	}
}

// deliveries are how the run's deliveries stand, the oldest first.
func (h *runHouse) deliveries(run string) (list []event.RunDeliveryStatus) {
	h.Helper()
	h.ok(h.db.db.Read.NewSelect().Table("outbox").Column("status").Where("run_id = ?", run).Order("created_at", "id").Scan(h.ctx, &list))
	return list
}

// acts are what people did to a run.
func (h *runHouse) acts(run string) int {
	h.Helper()
	p, err := h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org, Kind: action.EventRun, Subject: run})
	h.ok(err)
	return p.Total
}

// sweep sweeps later, and returns what it did here.
func (h *runHouse) sweep(later time.Duration) (changed []event.Run, withdrew []action.Invocation) {
	h.Helper()
	all, calls, err := h.db.SweepRuns(h.ctx, h.db.db.Now().Add(later), 1000)
	h.ok(err)
	for _, r := range all {
		if r.Organization == h.org {
			changed = append(changed, r)
		}
	}
	for _, c := range calls {
		if c.Organization == h.org {
			withdrew = append(withdrew, c)
		}
	}
	return changed, withdrew
}

// atOnce runs f on n goroutines that start at once.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func TestRuns(t *testing.T) { playRuns(t, runStories) }

var succeeded = event.RunResult{Status: event.RunSucceeded, Message: "Done.", Result: json.RawMessage(`{"pr":1}`)}

var runStories = map[string]func(*runHouse){
	"the session of a run is in the automation's group, or else the default group": func(h *runHouse) {
		_, err := h.db.PutCapability(h.ctx, action.Capability{Organization: h.org, Group: "researcher", Provider: "github", Level: action.LevelRead, GrantedBy: "ada"})
		h.ok(err)
		h.ok(h.db.SetSettings(h.ctx, h.org, action.Settings{DefaultGroup: "researcher"}, "ada"))
		want := map[string]string{"": "researcher", "operator": "operator"}
		for own := range want {
			h.a.Group = own
			h.a, err = h.db.UpdateAutomation(h.ctx, h.a, "ada")
			h.ok(err)
			h.queued()
			s, err := h.db.Session(h.ctx, h.claim().Run.Session)
			h.ok(err)
			h.equal(s.Group, want[own], "the group")
		}
	},
	"a run is claimed, worked on and finished": func(h *runHouse) {
		id := h.queued()
		w := h.claim()
		r := w.Run
		h.equal([]any{r.ID, r.Status, r.Attempt, r.ClaimedBy, r.Title}, []any{id, event.RunClaimed, 1, "worker", "Bug"}, "the claimed run")
		h.equal(h.run(id, event.RunClaimed), r, "what was returned and what is stored")
		h.equal([]any{w.Automation.Name, w.Automation.Instructions, w.Record.ID, w.Record.Native, string(w.Sealed), w.ExpiresAt},
			[]any{"Triage", "Look.", "e" + id, "issues:opened", "sealed", *r.Deadline}, "the work")
		s, err := h.db.Session(h.ctx, r.Session)
		h.ok(err)
		h.equal([]any{s.Kind, s.Type, s.Automation, s.Event, s.CreatedBy, *s.ExpiresAt},
			[]any{action.Unattended, action.TypeAutomation, h.a.ID, "e" + id, "automation:" + h.a.ID, *r.Deadline}, "the session")
		h.equal(h.deliveries(id), []event.RunDeliveryStatus{event.DeliveryDelivered}, "deliveries")
		if r = h.renew(r); r.Status != event.RunRunning || r.StartedAt == nil {
			h.Fatalf("renewed: %+v", r)
		}
		first, second := h.held(r.Session), h.held(r.Session)
		h.equal(h.run(id, event.RunNeedsHuman).Waiting, 2, "calls that wait")
		h.equal(h.renew(r).Status, event.RunNeedsHuman, "status when it is renewed meanwhile")
		h.approve(first)
		h.run(id, event.RunNeedsHuman)
		h.approve(second)
		h.run(id, event.RunRunning)
		third := h.held(r.Session)
		of, err := h.db.RunOfSession(h.ctx, h.org, r.Session)
		h.ok(err)
		h.equal(of.ID, id, "the run of the session")
		last, err := h.db.LastRuns(h.ctx, h.org)
		h.ok(err)
		h.equal(last, map[string]event.Run{of.Automation: of}, "the last runs")
		origins, err := h.db.OriginsOfSessions(h.ctx, h.org, []string{r.Session, "none"})
		h.ok(err)
		h.equal(origins, map[string]event.SessionOrigin{r.Session: {
			Title: "Bug", CreatedBy: action.AutomationCreator(of.Automation), Creator: "Triage", Event: "e" + id, Run: id, Status: event.RunNeedsHuman,
		}}, "what the session is for")
		done, withdrew := h.finish(r, succeeded)
		h.equal(h.run(id, event.RunSucceeded), done, "what was returned and what is stored")
		if done.EndedAt == nil || done.Claim != "" || done.LeaseUntil != nil || done.Message != "Done." || string(done.Result) != `{"pr":1}` {
			h.Errorf("finished: %+v", done)
		}
		if len(withdrew) != 1 || withdrew[0].ID != third || withdrew[0].DeniedReason != action.DeniedWithdrawn {
			h.Errorf("withdrew %+v", withdrew)
		}
		h.live(r.Session, false)
		h.equal(h.acts(id), 0, "acts of people")
	},
	"a worker can repeat a request whose response was lost": func(h *runHouse) {
		id := h.queued()
		r := h.claim().Run
		done, _ := h.finish(r, succeeded)
		again, withdrew := h.finish(r, event.RunResult{Status: event.RunSucceeded, Message: "Again."})
		h.equal([]any{again, len(withdrew)}, []any{done, 0}, "the run as it is, and what was withdrawn")
		_, _, err := h.db.FinishRun(h.ctx, h.org, id, r.Claim, event.RunResult{Status: event.RunFailed})
		h.refused(err, action.ErrConflict, "claim_lost")
		_, _, err = h.db.FinishRun(h.ctx, h.org, id, "another", succeeded)
		h.refused(err, action.ErrConflict, "claim_lost")

		// What others did to it, the worker did not.
		id = h.queued()
		r = h.claim().Run
		_, _, err = h.db.CancelRun(h.ctx, h.org, id, "bob", "")
		h.ok(err)
		_, _, err = h.db.FinishRun(h.ctx, h.org, id, r.Claim, event.RunResult{Status: event.RunFailed})
		h.refused(err, action.ErrConflict, "claim_lost")
		_, err = h.db.RedriveRun(h.ctx, h.org, id, "bob")
		h.ok(err)
		r = h.claim().Run
		h.finish(r, event.RunResult{Status: event.RunNeedsHuman})
		h.finish(r, event.RunResult{Status: event.RunNeedsHuman})
		_, err = h.db.RedriveRun(h.ctx, h.org, id, "bob")
		h.ok(err)
		_, _, err = h.db.FinishRun(h.ctx, h.org, id, r.Claim, event.RunResult{Status: event.RunNeedsHuman})
		h.refused(err, action.ErrConflict, "claim_lost")
		h.claim()
	},
	"runs of a disabled automation wait": func(h *runHouse) {
		id, c := h.queued(), h.wish()
		h.enabled(false)
		_, err := h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrNotFound, "no_run")
		c.Run = id
		_, err = h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrConflict, "automation_disabled")
		h.run(id, event.RunQueued)
		h.equal(h.deliveries(id), []event.RunDeliveryStatus{event.DeliveryPending}, "deliveries")
		h.enabled(true)
		h.equal(h.claim().Run.ID, id, "the run")
	},
	"the session is bound to what the automation is": func(h *runHouse) {
		h.ok(h.db.SetBindings(h.ctx, h.org, h.a.ID, []string{action.AllConnections}, "alice"))
		h.queued()
		s, err := h.db.Session(h.ctx, h.claim().Run.Session)
		h.ok(err)
		h.equal(s.Connections, []string{action.AllConnections}, "connections")
	},
	"a session that a person made for the event is not the run's": func(h *runHouse) {
		s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Automation: h.a.ID, Event: "e" + h.queued(), CreatedBy: "alice"})
		h.ok(err)
		h.claim()
		_, err = h.db.RunOfSession(h.ctx, h.org, s.ID)
		h.refused(err, action.ErrNotFound, "run_not_found")
		origins, err := h.db.OriginsOfSessions(h.ctx, h.org, []string{s.ID})
		h.ok(err)
		h.equal(origins, map[string]event.SessionOrigin{s.ID: {CreatedBy: "alice", Event: s.Event}}, "what the session is for")
		origins, err = h.db.OriginsOfSessions(h.ctx, DefaultOrganization, []string{s.ID})
		h.ok(err)
		h.equal(len(origins), 0, "those of another organization")
	},
	"nothing waits": func(h *runHouse) {
		_, err := h.db.ClaimRun(h.ctx, h.wish())
		h.refused(err, action.ErrNotFound, "no_run")
		newRunHouse(h.T, h.dbs).queued()
		_, err = h.db.ClaimRun(h.ctx, h.wish())
		h.refused(err, action.ErrNotFound, "no_run")
		id, c := h.queued(), h.wish()
		c.Automation = "another"
		_, err = h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrNotFound, "no_run")
		c.Run = id
		_, err = h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrConflict, "run_not_queued")
	},
	"one run is claimed once": func(h *runHouse) {
		first, c := h.queued(), h.wish()
		c.Run = h.queued()
		w, err := h.db.ClaimRun(h.ctx, c)
		h.ok(err)
		h.equal(w.Run.ID, c.Run, "the run")
		_, err = h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrConflict, "run_not_queued")
		h.equal(h.claim().Run.ID, first, "the run that waits longest")
		c.Organization = newRunHouse(h.T, h.dbs).org
		_, err = h.db.ClaimRun(h.ctx, c)
		h.refused(err, action.ErrNotFound, "run_not_found")
	},
	"64 workers claim 40 runs, each once": func(h *runHouse) {
		for range 40 {
			h.queued()
		}
		var mu sync.Mutex
		got, sessions, none := map[string]bool{}, map[string]bool{}, 0
		atOnce(64, func(i int) {
			w, err := h.any(i).ClaimRun(h.ctx, h.wish())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got[w.Run.ID], sessions[w.Run.Session] = true, true
			case errors.Is(err, action.ErrNotFound):
				none++
			default:
				h.Error(err)
			}
		})
		h.equal([]int{len(got), len(sessions), none}, []int{40, 40, 24}, "runs, sessions, those who got none")
		all, err := h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org})
		h.ok(err)
		h.equal(all.Total, 40, "sessions in all")
	},
	"64 workers claim the same run, one has it": func(h *runHouse) {
		c := h.wish()
		c.Run = h.queued()
		var won, lost int
		var mu sync.Mutex
		atOnce(64, func(i int) {
			_, err := h.any(i).ClaimRun(h.ctx, c)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, action.ErrConflict):
				lost++
			default:
				h.Error(err)
			}
		})
		h.equal([]int{won, lost}, []int{1, 63}, "who has it, and who has not")
	},
	"another claim than the run's is lost": func(h *runHouse) {
		id := h.queued()
		_, err := h.db.RenewRun(h.ctx, h.org, id, "")
		h.refused(err, action.ErrConflict, "claim_lost")
		r := h.claim().Run
		for _, claim := range []string{"", "another", r.Session} {
			_, err := h.db.RenewRun(h.ctx, h.org, id, claim)
			h.refused(err, action.ErrConflict, "claim_lost")
			_, _, err = h.db.FinishRun(h.ctx, h.org, id, claim, succeeded)
			h.refused(err, action.ErrConflict, "claim_lost")
		}
		_, err = h.db.RenewRun(h.ctx, newRunHouse(h.T, h.dbs).org, id, r.Claim)
		h.refused(err, action.ErrNotFound, "run_not_found")
		h.live(r.Session, true)
		h.finish(r, succeeded)
		_, _, err = h.db.FinishRun(h.ctx, h.org, id, r.Claim, event.RunResult{Status: event.RunFailed})
		h.refused(err, action.ErrConflict, "claim_lost")
		h.run(id, event.RunSucceeded)
	},
	"an invalid result is refused, a long one truncated": func(h *runHouse) {
		h.queued()
		r := h.claim().Run
		for field, e := range map[string]event.RunResult{
			"/status": {Status: event.RunSkipped},
			"/code":   {Status: event.RunFailed, Code: "it failed"},
			"/result": {Status: event.RunFailed, Result: json.RawMessage(`{"a":`)},
		} {
			_, _, err := h.db.FinishRun(h.ctx, h.org, r.ID, r.Claim, e)
			h.refused(err, action.ErrInvalid, "invalid")
			if e := action.Public(err); e.Field != field {
				h.Errorf("field %s, want %s", e.Field, field)
			}
		}
		long := event.RunResult{Status: event.RunFailed, Message: "\x00" + strings.Repeat("ü", 3000), Result: json.RawMessage(`["` + strings.Repeat("x", 20<<10) + `"]`)}
		done, _ := h.finish(r, long)
		if n := len([]rune(done.Message)); n != inbound.MaxRunMessage || len(done.Result) > inbound.MaxRunResult || !json.Valid(done.Result) {
			h.Errorf("a message of %d characters, a result of %d bytes", n, len(done.Result))
		}
	},
	"a run is left to a person, who resolves it": func(h *runHouse) {
		h.queued()
		r := h.claim().Run
		h.held(r.Session)
		_, err := h.db.ResolveRun(h.ctx, h.org, r.ID, "alice", succeeded)
		h.refused(err, action.ErrConflict, "run_has_worker")
		_, err = h.db.RedriveRun(h.ctx, h.org, r.ID, "alice")
		h.refused(err, action.ErrConflict, "run_has_worker")
		left, withdrew := h.finish(r, event.RunResult{Status: event.RunNeedsHuman, Code: "unsure", Message: "Which one?"})
		h.equal([]any{left.Status, left.Claim, left.Deadline == nil, left.Waiting, len(withdrew)}, []any{event.RunNeedsHuman, "", true, 0, 1}, "the run")
		h.live(r.Session, false)
		h.sweep(3 * time.Hour)
		h.run(r.ID, event.RunNeedsHuman)
		done, err := h.db.ResolveRun(h.ctx, h.org, r.ID, "alice", event.RunResult{Status: event.RunSucceeded, Message: "I did it."})
		h.ok(err)
		h.equal(h.run(r.ID, event.RunSucceeded), done, "what was returned and what is stored")
		h.equal([]any{done.Code, done.Message, h.acts(r.ID)}, []any{"", "I did it.", 1}, "the outcome")
		_, err = h.db.ResolveRun(h.ctx, h.org, r.ID, "alice", succeeded)
		h.refused(err, action.ErrConflict, "run_needs_nobody")
		_, err = h.db.RedriveRun(h.ctx, h.org, r.ID, "alice")
		h.refused(err, action.ErrConflict, "run_not_failed")
	},
	"a run needs attention until a person acts": func(h *runHouse) {
		needing := func() (ids []string) {
			page, err := h.db.ListRuns(h.ctx, event.RunFilter{Organization: h.org, Attention: true})
			h.ok(err)
			for _, r := range page.Items {
				h.equal(r.NeedsAttention, true, "what the run says")
				ids = append(ids, r.ID)
			}
			waiting, err := h.db.CountWaiting(h.ctx, h.org)
			h.ok(err)
			h.equal(waiting.Runs, len(ids), "runs that are counted")
			return ids
		}
		ends := func(status event.RunStatus) string {
			h.queued()
			r := h.claim().Run
			h.finish(r, event.RunResult{Status: status, Code: "unsure", Message: "Which one?"})
			return r.ID
		}
		ends(event.RunSucceeded)
		h.equal(len(needing()), 0, "runs that succeeded")
		left, failed, again := ends(event.RunNeedsHuman), ends(event.RunFailed), ends(event.RunFailed)
		h.equal(needing(), []string{again, failed, left}, "runs that did not")
		_, err := h.db.ResolveRun(h.ctx, h.org, left, "alice", event.RunResult{Status: event.RunFailed, Message: "Nobody needs it."})
		h.ok(err)
		seen, err := h.db.ResolveRun(h.ctx, h.org, failed, "alice", event.RunResult{Status: event.RunFailed})
		h.ok(err)
		h.equal([]any{seen.Status, seen.Code, seen.Message, seen.NeedsAttention, h.acts(failed)}, []any{event.RunFailed, "unsure", "Which one?", false, 1}, "a failure that somebody has seen")
		_, err = h.db.ResolveRun(h.ctx, h.org, failed, "bob", event.RunResult{Status: event.RunFailed})
		h.refused(err, action.ErrConflict, "run_needs_nobody")
		_, err = h.db.RedriveRun(h.ctx, h.org, again, "alice")
		h.ok(err)
		h.equal(len(needing()), 0, "once somebody acted")
		lost := h.claim().Run
		h.sweep(3 * time.Hour)
		h.equal(needing(), []string{lost.ID}, "after its time was over")
		done, err := h.db.ResolveRun(h.ctx, h.org, lost.ID, "alice", event.RunResult{Status: event.RunSucceeded, Message: "I did it."})
		h.ok(err)
		h.equal([]any{done.Status, done.Code, done.Message}, []any{event.RunSucceeded, "", "I did it."}, "a failure that a person made good")
		h.queued()
		_, _, err = h.db.CancelRun(h.ctx, h.org, h.claim().Run.ID, "alice", "")
		h.ok(err)
		h.queued()
		_, err = h.db.RevokeSession(h.ctx, h.org, h.claim().Run.Session)
		h.ok(err)
		h.sweep(0)
		h.equal(len(needing()), 0, "what people ended")
		ends(event.RunNeedsHuman)
		ends(event.RunFailed)
		h.sweep(event.AttentionPeriod - time.Hour)
		h.equal(len(needing()), 2, "for a week")
		h.sweep(event.AttentionPeriod + time.Hour)
		h.equal(len(needing()), 1, "after a week")
	},
	"a failed run is queued again": func(h *runHouse) {
		id := h.queued()
		r := h.claim().Run
		h.finish(r, event.RunResult{Status: event.RunFailed, Code: "tests_failed", Message: "Red.", Result: json.RawMessage(`1`)})
		again, err := h.db.RedriveRun(h.ctx, h.org, id, "alice")
		h.ok(err)
		h.equal(h.run(id, event.RunQueued), again, "what was returned and what is stored")
		if again.Code != "" || again.Message != "" || len(again.Result) > 0 || again.EndedAt != nil || again.StartedAt != nil || again.ClaimedBy != "" || again.Attempt != 0 {
			h.Errorf("queued anew: %+v", again)
		}
		h.equal(h.deliveries(id), []event.RunDeliveryStatus{event.DeliveryDelivered, event.DeliveryPending}, "deliveries")
		second := h.claim().Run
		if second.Session == r.Session || second.Claim == r.Claim {
			h.Error("session or claim are the old ones")
		}
		h.live(r.Session, false)
		_, err = h.db.RenewRun(h.ctx, h.org, id, r.Claim)
		h.refused(err, action.ErrConflict, "claim_lost")
		of, err := h.db.RunOfSession(h.ctx, h.org, r.Session)
		h.ok(err)
		h.equal(of.Session, second.Session, "the session of the run of the old one")
		h.equal(h.acts(id), 1, "acts of people")
	},
	"a run of a deleted automation is not queued again": func(h *runHouse) {
		h.queued()
		r, _ := h.finish(h.claim().Run, event.RunResult{Status: event.RunFailed})
		h.ok(h.db.DeleteAutomation(h.ctx, h.org, h.a.ID, "alice"))
		_, err := h.db.RedriveRun(h.ctx, h.org, r.ID, "alice")
		h.refused(err, action.ErrConflict, "automation_gone")
	},
	"an active run is cancelled in any status": func(h *runHouse) {
		for status, bring := range map[event.RunStatus]func() event.Run{
			event.RunQueued:     func() event.Run { return h.run(h.queued(), event.RunQueued) },
			event.RunClaimed:    func() event.Run { h.queued(); return h.claim().Run },
			event.RunRunning:    func() event.Run { h.queued(); return h.renew(h.claim().Run) },
			event.RunNeedsHuman: func() event.Run { h.queued(); r := h.claim().Run; h.held(r.Session); return r },
		} {
			r := bring()
			h.run(r.ID, status)
			done, withdrew, err := h.db.CancelRun(h.ctx, h.org, r.ID, "alice", "Not now.")
			h.ok(err)
			h.equal(h.run(r.ID, event.RunFailed), done, "what was returned and what is stored")
			h.equal([]any{done.Code, done.Message, len(withdrew) == 1, h.acts(r.ID)}, []any{event.RunCancelled, "Not now.", status == event.RunNeedsHuman, 1}, string(status))
			if r.Session != "" {
				h.live(r.Session, false)
			} else {
				h.equal(h.deliveries(r.ID), []event.RunDeliveryStatus{event.DeliveryVoid}, "deliveries")
			}
			_, _, err = h.db.CancelRun(h.ctx, h.org, r.ID, "alice", "")
			h.refused(err, action.ErrConflict, "run_ended")
		}
	},
	"runs are listed, newest first": func(h *runHouse) {
		var ids []string
		for range 5 {
			ids = append([]string{h.queued()}, ids...)
		}
		h.finish(h.claim().Run, succeeded)
		var got []string
		f := event.RunFilter{Organization: h.org, Limit: 2}
		for range 10 {
			p, err := h.db.ListRuns(h.ctx, f)
			h.ok(err)
			h.equal(p.Total, 5, "total")
			for _, r := range p.Items {
				h.equal(r.Title, "Bug", "title")
				got = append(got, r.ID)
			}
			if f.Cursor = p.Next; f.Cursor == "" {
				break
			}
		}
		h.equal(got, ids, "runs")
		for want, f := range map[int]event.RunFilter{4: {Status: event.RunQueued}, 1: {Status: event.RunSucceeded, Automation: h.a.ID}, 0: {Automation: "x"}} {
			f.Organization = h.org
			p, err := h.db.ListRuns(h.ctx, f)
			h.ok(err)
			h.equal(p.Total, want, fmt.Sprintf("runs of %+v", f))
		}
		_, err := h.db.ListRuns(h.ctx, event.RunFilter{Organization: h.org, Status: "x"})
		h.refused(err, action.ErrInvalid, "invalid")
	},
	"filters find matching sessions": func(h *runHouse) {
		h.queued()
		done, _ := h.finish(h.claim().Run, succeeded)
		h.queued()
		h.finish(h.claim().Run, event.RunResult{Status: event.RunFailed, Code: "tests_failed"})
		h.queued()
		works := h.claim().Run
		call := h.held(works.Session)
		_, err := h.db.SkipEvent(h.ctx, h.org, "e"+h.queued(), "alice")
		h.ok(err)
		h.queued()
		for _, f := range []event.RecordFilter{
			{Status: "queued"},
			{Status: "processing"},
			{Status: "failed"},
			{Status: "completed"},
			{Status: "skipped"},
			{Status: "failed", Trigger: "t", Provider: "github", Automation: h.a.ID},
		} {
			f.Organization = h.org
			p, err := h.db.ListEvents(h.ctx, f)
			h.ok(err)
			if p.Total != 1 || len(p.Items) != 1 || p.Items[0].Status() != f.Status {
				h.Errorf("%+v: %d, %+v", f, p.Total, p.Items)
			}
			ended := f.Status == "failed" || f.Status == "completed" || f.Status == "skipped"
			h.equal([]bool{p.Items[0].EndedAt != nil, p.Items[0].Session != ""}, []bool{ended, ended && f.Status != "skipped" || f.Status == "processing"}, f.Status+" ended, and has a session")
		}
		_, err = h.db.ListEvents(h.ctx, event.RecordFilter{Organization: h.org, Status: "x"})
		h.refused(err, action.ErrInvalid, "invalid")
		for _, f := range []event.RecordFilter{{Provider: "linear"}, {Status: "failed", Trigger: "x"}, {Status: "failed", Provider: "linear"}} {
			f.Organization = h.org
			p, err := h.db.ListEvents(h.ctx, f)
			h.ok(err)
			h.equal(p.Total, 0, fmt.Sprintf("events of %+v", f))
		}
		for f, want := range map[event.RunFilter]int{{Trigger: "t"}: 5, {Trigger: "x"}: 0, {Event: done.Event}: 1, {Event: "x"}: 0, {Event: done.Event, Status: event.RunFailed}: 0} {
			f.Organization = h.org
			p, err := h.db.ListRuns(h.ctx, f)
			h.ok(err)
			h.equal(p.Total, want, fmt.Sprintf("runs of %+v", f))
		}
		for run, want := range map[string]int{works.ID: 1, done.ID: 0, "x": 0} {
			for _, status := range [][]action.Status{nil, {action.StatusPending}, {action.StatusPending, action.StatusApproved}} {
				p, err := h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org, Run: run, Statuses: status})
				h.ok(err)
				if len(p.Items) != want || want == 1 && p.Items[0].ID != call {
					h.Errorf("calls of run %s: %+v", run, p.Items)
				}
			}
		}
	},
}
