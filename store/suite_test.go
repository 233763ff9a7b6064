package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/history"
)

// exercise runs the suite that a store passes on every database: the rules of
// the ledger and of the other rows, races included. open returns an empty
// database that is closed when its test ends. Where several processes may use a database, it is returned as often as it
// was opened, and races run across all of them.
func exercise(t *testing.T, open func(t *testing.T) []*store.DB) {
	for _, group := range []struct {
		name    string
		stories map[string]func(*house)
	}{
		{"begin", beginStories},
		{"settle", settleStories},
		{"finish", finishStories},
		{"keep", keepStories},
		{"sweep", sweepStories},
		{"race", raceStories},
		{"ask", askStories},
		{"list", listStories},
		{"refusals", refusalStories},
		{"models", modelStories()},
		{"session", sessionStories},
		{"session life", sessionLifeStories},
		{"policy", policyStories},
		{"secret", secretStories},
		{"connector", connectorStories},
		{"connector extent", extentStories},
		{"oauth", oauthStories},
		{"integration", integrationStories},
		{"integration use", integrationUseStories},
		{"integration binding", bindingStories},
		{"automation", automationStories},
		{"trigger", triggerStories},
		{"schedule", scheduleStories},
		{"poll", pollStories},
		{"inbox", inboxStories},
		{"inbox race", inboxRaceStories},
		{"match", matchStories},
		{"clock", clockStories},
		{"people", peopleStories},
		{"people elsewhere", elsewhereStories},
		{"instances", instanceStories},
		{"lease", leaseStories},
		{"grant", grantStories},
		{"grant use", grantUseStories},
		{"grant approval", grantApproveStories},
		{"grant request", grantRequestStories},
		{"grant race", grantRaceStories},
		{"capability", capabilityStories},
		{"gate", gateStories},
		{"quota", quotaStories},
		{"settings", settingsStories},
		{"history", historyStories},
		{"rules", rulesStories},
		{"review", reviewStories},
		{"profile", profileStories},
		{"review rule", reviewRuleStories},
		{"audit", auditStories},
		{"retain", retainStories},
		{"export", exportStories},
	} {
		t.Run(group.name, func(t *testing.T) {
			for name, story := range group.stories {
				t.Run(name, func(t *testing.T) { story(newHouse(t, open(t)...)) })
			}
		})
	}
}

// house is one organization with a session, and a clock that stands still.
type house struct {
	*testing.T
	ctx context.Context
	db  *store.DB
	dbs []*store.DB // db, and the same again as others have it open
	org history.Organization
	s   action.Session
	now time.Time
}

const executor = "instance-1"

func newHouse(t *testing.T, dbs ...*store.DB) *house {
	t.Helper()
	h := &house{T: t, ctx: t.Context(), db: dbs[0], dbs: dbs, now: time.Now().UTC().Truncate(time.Microsecond)}
	h.org = must(h.db.EnsureOrganization(h.ctx, uuid.NewString(), "Acme"))(h)
	h.s = h.session(action.Interactive)
	return h
}

// any is one process's way to the database.
func (h *house) any(i int) *store.DB { return h.dbs[i%len(h.dbs)] }

// must ends the test on an error.
func must[T any](v T, err error) func(*house) T {
	return func(h *house) T {
		h.Helper()
		if err != nil {
			h.Fatal(err)
		}
		return v
	}
}

func (h *house) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// refused checks an error's kind and code, and that it tells what to do.
func (h *house) refused(err error, kind error, code string) action.Error {
	h.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || e.Code != code {
		h.Fatalf("error %v, want %v with code %s", err, kind, code)
	}
	if e.Message == "" || !strings.HasSuffix(e.Message, ".") {
		h.Errorf("the message %q is not a sentence", e.Message)
	}
	return *e
}

// invalid checks that the value of a field is refused, by whichever rule.
func (h *house) invalid(err error, field, what string) {
	h.Helper()
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || !strings.HasPrefix(e.Code, "invalid") {
		h.Fatalf("%s: error %v, want an invalid field %s", what, err, field)
	}
	h.refused(err, action.ErrInvalid, e.Code)
	h.equal(e.Field, field, what)
}

func (h *house) equal(got, want any, what string) {
	h.Helper()
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (h *house) session(kind action.SessionKind) action.Session {
	h.Helper()
	return must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, Kind: kind, CreatedBy: "alice", CreatedAt: h.now}))(h)
}

// later moves the clock.
func (h *house) later(d time.Duration) { h.now = h.now.Add(d) }

func (h *house) draft(act, params string) *action.Draft {
	return &action.Draft{
		Invocation: action.Invocation{
			ID: newID(), Organization: h.org.ID, Session: h.s.ID, Source: "linear", SourceName: "Linear", Action: act,
			Risk: action.RiskWrite, ModeSource: action.LayerInferred, Steps: []action.Step{{Layer: action.LayerInferred, Note: "It is a write."}},
			Params: json.RawMessage(params), ParamsHash: "hash of " + params, ToolHash: "tool", Revision: "1", CreatedAt: h.now,
		},
		PolicyVersion: h.org.PolicyVersion,
		Joins:         true,
		Unattended:    h.s.Kind == action.Unattended,
	}
}

// held is a call that waits for a person, at most five minutes.
func (h *house) held(params string) *action.Draft {
	d := h.draft("create_issue", params)
	expires := h.now.Add(5 * time.Minute)
	d.Status, d.Mode, d.ExpiresAt = action.StatusPending, action.ModeRequireApproval, &expires
	d.SealedParams, d.MaxPending, d.DeniedSince = []byte("sealed "+params), 10, h.now.Add(-15*time.Minute)
	return d
}

// allowed is a write that runs at once; read is one that need not wait.
func (h *house) allowed(params string) *action.Draft {
	d := h.draft("create_issue", params)
	d.Status, d.Mode, d.Executor, d.LeaseUntil = action.StatusExecuting, action.ModeAllow, executor, h.now.Add(time.Minute)
	return d
}

func (h *house) read(params string) *action.Draft {
	d := h.allowed(params)
	d.Action, d.Risk, d.Snapshot, d.Joins = "list_issues", action.RiskRead, true, false
	return d
}

func (h *house) begin(d *action.Draft) *action.BeginResult {
	h.Helper()
	return must(h.db.Begin(h.ctx, d))(h)
}

// began begins a draft whose row is new.
func (h *house) began(d *action.Draft) *action.BeginResult {
	h.Helper()
	b := h.begin(d)
	if !b.Created || b.ID != d.ID {
		h.Fatalf("joined %s, want a new row", b.ID)
	}
	return b
}

// joins begins a draft that an earlier row answers.
func (h *house) joins(d *action.Draft, id string) *action.BeginResult {
	h.Helper()
	b := h.begin(d)
	if b.Created || b.ID != id {
		h.Fatalf("new %t, row %s; want the earlier row %s", b.Created, b.ID, id)
	}
	return b
}

func (h *house) load(id string) action.Record {
	h.Helper()
	return must(h.db.Load(h.ctx, h.org.ID, id))(h)
}

func (h *house) status(id string, want action.Status) action.Record {
	h.Helper()
	r := h.load(id)
	if r.Status != want {
		h.Fatalf("status %s, want %s", r.Status, want)
	}
	return r
}

func (h *house) verdict(id string) action.Verdict {
	return action.Verdict{Organization: h.org.ID, ID: id, By: "alice", Now: h.now}
}

func (h *house) approve(id string) action.Invocation {
	h.Helper()
	return must(h.db.Approve(h.ctx, h.verdict(id)))(h)
}

func (h *house) deny(id, note string) action.Invocation {
	h.Helper()
	v := h.verdict(id)
	v.Note = note
	return must(h.db.Deny(h.ctx, v))(h)
}

func (h *house) claimOf(id string) action.Claim {
	return action.Claim{Organization: h.org.ID, ID: id, Executor: executor, LeaseUntil: h.now.Add(time.Minute), Now: h.now}
}

func (h *house) claim(id string) action.Record {
	h.Helper()
	return must(h.db.Claim(h.ctx, h.claimOf(id)))(h)
}

func (h *house) done(id string) *action.Finish {
	return &action.Finish{
		Organization: h.org.ID, ID: id, Executor: executor, Status: action.StatusCompleted, Result: json.RawMessage(`{"content":[]}`),
		SealedResult: []byte("sealed result"), PickupUntil: h.now.Add(15 * time.Minute), Now: h.now, DurationMS: 12,
	}
}

func (h *house) finish(f *action.Finish) action.Invocation {
	h.Helper()
	inv, recorded, err := h.db.Finish(h.ctx, f)
	if err != nil || !recorded {
		h.Fatalf("finishing: recorded %t, %v", recorded, err)
	}
	return inv
}

func (h *house) rules() action.SweepRules {
	return action.SweepRules{
		Now: h.now, SeenBefore: h.now.Add(-2 * time.Minute), ApprovedBefore: h.now.Add(-5 * time.Minute), LeaseBefore: h.now, Limit: 100,
		PickupInteractive: 15 * time.Minute, PickupUnattended: 24 * time.Hour,
	}
}

// swept sweeps and returns what ended in this organization.
func (h *house) swept(r action.SweepRules) []action.Invocation {
	h.Helper()
	var mine []action.Invocation
	for _, inv := range must(h.db.Sweep(h.ctx, r))(h).Ended {
		if inv.Organization == h.org.ID {
			mine = append(mine, inv)
		}
	}
	return mine
}

func (h *house) sweptOne(r action.SweepRules, id string, want action.Status) action.Record {
	h.Helper()
	ended := h.swept(r)
	if len(ended) != 1 || ended[0].ID != id || ended[0].Status != want {
		h.Fatalf("swept %+v, want %s to be %s", ended, id, want)
	}
	rec := h.load(id)
	h.equal(ended[0], rec.Invocation, "what the sweep returned and what is stored")
	if rec.SealedParams != nil {
		h.Error("the sealed params outlived the end")
	}
	return rec
}
