package inbound

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/sessions"
	"sallyport/store/workspaces"
)

// claimedByEndpoint is the claimant of runs that are delivered to an endpoint.
const claimedByEndpoint = "endpoint"

// runClaim holds the parameters of a claim.
type runClaim struct {
	by       string
	lease    time.Duration // zero: until the deadline
	deadline time.Time
	now      time.Time
}

// ClaimRun claims a queued run and creates its session. ErrNotFound with code
// "no_run" if none is queued, or "run_not_found" if c.Run does not exist;
// ErrConflict if c.Run is not queued or its automation is disabled. Runs of a
// disabled automation stay queued until it is enabled.
func (st *Store) ClaimRun(ctx context.Context, c event.Claim) (w event.Work, err error) {
	if c.By == "" || c.Life <= 0 || c.Lease < 0 {
		return event.Work{}, errors.New("claiming a run: worker and lease are required")
	}
	if c.Run == "" {
		// Check with a read first: workers poll often, and mostly nothing is queued.
		found, err := database.Exists(ctx, AutomationsWithQueuedRuns(st.db.Read, c.Organization, c.Automation).Limit(1))
		if err != nil {
			return event.Work{}, fmt.Errorf("reading a run: %w", err)
		}
		if !found {
			return event.Work{}, noQueuedRun()
		}
	}
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := pickRun(ctx, tx, &c)
		if err != nil {
			return err
		}
		now := st.db.Now()
		if err := st.claimRun(ctx, tx, r, runClaim{by: c.By, lease: c.Lease, deadline: now.Add(c.Life), now: now}); err != nil {
			return err
		}
		if err := endRunDelivery(ctx, tx, r.ID, event.DeliveryDelivered, now); err != nil {
			return err
		}
		w, err = readWork(ctx, tx, r)
		if err == nil && !w.Automation.Enabled {
			err = action.NewError("automation_disabled")
		}
		return err
	})
	switch {
	case errors.Is(err, errAutomationFull) && c.Run == "":
		err = noQueuedRun() // another worker claimed one meanwhile
	case errors.Is(err, errAutomationFull):
		err = action.NewError("automation_full")
	case errors.Is(err, ErrRunChanged):
		err = action.NewError("run_not_queued")
	}
	if err != nil {
		return event.Work{}, err
	}
	return w, err
}

func noQueuedRun() error {
	return action.Errorf(action.ErrNotFound, "no_run", "There is no queued run. Try again later.")
}

// AutomationsWithQueuedRuns selects the enabled automations of an organization
// that have queued runs, the one with the oldest run first. It reads one run of
// each.
func AutomationsWithQueuedRuns(db bun.IDB, organization, automation string) *bun.SelectQuery {
	oldest := db.NewSelect().TableExpr("runs AS r").Column("r.created_at").Where("r.organization_id = a.organization_id").
		Where("r.automation_id = a.id").Where("r.status = 'queued'").Order("r.created_at", "r.id").Limit(1)
	q := db.NewSelect().TableExpr("automations AS a").Column("a.id").ColumnExpr("(?) AS oldest", oldest).
		Where("a.organization_id = ?", organization).Where("a.enabled").
		Where("a.max_runs IS NULL OR a.max_runs > (?)", claimedRuns(db).ColumnExpr("count(*)").Where("r.organization_id = a.organization_id").Where("r.automation_id = a.id"))
	if automation != "" {
		q = q.Where("a.id = ?", automation)
	}
	return db.NewSelect().TableExpr("(?) AS w", q).Column("w.id").Where("w.oldest IS NOT NULL").Order("w.oldest", "w.id")
}

// OldestQueuedRun selects the oldest queued run of an automation.
func OldestQueuedRun(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Column("r.id").Where("r.organization_id = ?", organization).
		Where("r.automation_id = ?", automation).Where("r.status = 'queued'").Order("r.created_at", "r.id").Limit(1)
}

// findQueuedRun returns the oldest queued run. Concurrent callers get different
// runs.
func findQueuedRun(ctx context.Context, tx bun.IDB, c *event.Claim) (string, error) {
	var automations []string
	if err := AutomationsWithQueuedRuns(tx, c.Organization, c.Automation).Scan(ctx, &automations); err != nil {
		return "", fmt.Errorf("reading a run: %w", err)
	}
	for _, a := range automations {
		q := OldestQueuedRun(tx, c.Organization, a)
		if database.Shared(tx) {
			q = q.For("NO KEY UPDATE SKIP LOCKED")
		}
		var found []string
		if err := q.Scan(ctx, &found); err != nil {
			return "", fmt.Errorf("reading a run: %w", err)
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", noQueuedRun()
}

// pickRun reads the run to claim.
func pickRun(ctx context.Context, tx bun.IDB, c *event.Claim) (*RunRow, error) {
	id := c.Run
	if id == "" {
		var err error
		if id, err = findQueuedRun(ctx, tx, c); err != nil {
			return nil, err
		}
	}
	r, err := ReadRun(ctx, tx, c.Organization, id)
	switch {
	case err != nil:
		return nil, err
	case !r.is(event.RunQueued), c.Automation != "" && r.Automation != c.Automation:
		return nil, ErrRunChanged
	}
	return r, nil
}

// claimRun claims a queued run with a new session, and updates r.
// [ErrRunChanged] if the run is no longer queued.
func (st *Store) claimRun(ctx context.Context, tx bun.IDB, r *RunRow, c runClaim) error {
	claim, err := database.NewID()
	if err != nil {
		return err
	}
	a, err := lockRuns(ctx, tx, r)
	if err != nil {
		return err
	}
	if limit := time.Duration(a.TimeLimit) * time.Second; limit > 0 && c.now.Add(limit).Before(c.deadline) {
		c.deadline = c.now.Add(limit)
	}
	s, err := st.createSession(ctx, tx, r, a, c)
	if err != nil {
		return err
	}
	r.Status, r.Claim, r.ClaimedBy, r.Session = string(event.RunClaimed), database.NullString(claim), database.NullString(c.by), database.NullString(s)
	r.Attempt, r.Deadline, r.StartedAt = r.Attempt+1, database.NewTimestamp(c.deadline), database.Timestamp{}
	if c.lease > 0 {
		seconds := int64(math.Ceil(c.lease.Seconds()))
		r.LeaseSeconds = &seconds
		r.LeaseUntil = r.leaseEnd(c.now)
	}
	err = checkSwapped(database.RowsAffected(tx.NewUpdate().Model(r).
		Column("status", "attempt", "claim_id", "claimed_by", "lease_until", "lease_seconds", "deadline", "session_id", "started_at").
		WherePK().Where("status = 'queued'").Exec(ctx)))
	if err != nil {
		return fmt.Errorf("claiming run %s: %w", r.ID, err)
	}
	return nil
}

// lockRuns reads the automation of a run that is to be claimed. If its runs are
// limited, it locks the automation until the transaction ends and returns
// errAutomationFull while as many runs are claimed.
func lockRuns(ctx context.Context, tx bun.IDB, r *RunRow) (*AutomationRow, error) {
	a, err := readAutomation(ctx, tx, r.Organization, r.Automation)
	if err != nil || a.MaxRuns == 0 {
		return &a, err
	}
	if database.Shared(tx) {
		if _, err := tx.NewRaw("SELECT FROM automations WHERE organization_id = ? AND id = ? FOR NO KEY UPDATE", r.Organization, r.Automation).Exec(ctx); err != nil {
			return &a, fmt.Errorf("locking automation %s: %w", a.ID, err)
		}
	}
	claimed, err := claimedRuns(tx).Where("r.organization_id = ?", r.Organization).Where("r.automation_id = ?", r.Automation).Count(ctx)
	if err != nil {
		return &a, fmt.Errorf("counting the runs of automation %s: %w", a.ID, err)
	}
	if int(claimed) >= a.MaxRuns {
		return &a, errAutomationFull
	}
	return &a, nil
}

// errAutomationFull reports that an automation has as many runs at the same time as
// it may have.
var errAutomationFull = errors.New("the automation has as many runs as it may have")

// claimedRuns selects runs that a worker has.
func claimedRuns(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Where("r.claim_id IS NOT NULL")
}

// leaseEnd returns the end of a lease that starts now, at most the deadline;
// NULL for a run without a lease.
func (r *RunRow) leaseEnd(now time.Time) database.Timestamp {
	if r.LeaseSeconds == nil {
		return database.Timestamp{}
	}
	until := now.Add(time.Duration(*r.LeaseSeconds) * time.Second)
	if until.After(r.Deadline.Time) {
		return r.Deadline
	}
	return database.NewTimestamp(until)
}

// createSession creates the session of a run, with the current bindings of its
// automation, and returns its ID.
func (st *Store) createSession(ctx context.Context, tx bun.IDB, r *RunRow, a *AutomationRow, c runClaim) (string, error) {
	s := action.Session{
		Organization: r.Organization, Kind: action.Unattended, Type: action.TypeAutomation, Automation: r.Automation, Event: r.Event,
		Title: r.Title, CreatedBy: action.AutomationCreator(r.Automation), CreatedAt: c.now, ExpiresAt: &c.deadline,
		Workspace: a.Workspace, Branch: a.Branch, Model: a.Model, Provider: a.Provider, Origin: action.OriginRun,
		Budget: action.Budget{MaxTokens: a.MaxTokens, MaxCost: a.MaxCost, MaxCalls: a.MaxCalls},
	}
	if err := connect.BindingsQuery(tx, r.Organization, r.Automation).Scan(ctx, &s.Connections); err != nil {
		return "", fmt.Errorf("reading the connections of automation %s: %w", r.Automation, err)
	}
	if err := sessions.JoinDefaultGroup(ctx, tx, &s); err != nil {
		return "", err
	}
	if err := st.calls.PrepareSession(&s); err != nil {
		return "", err
	}
	if err := workspaces.Join(ctx, tx, &s); err != nil {
		return "", err
	}
	if _, err := tx.NewInsert().Model(sessions.NewSessionRow(&s)).Exec(ctx); err != nil {
		return "", fmt.Errorf("creating the session of run %s: %w", r.ID, err)
	}
	return s.ID, nil
}

// workEvent holds the columns of an event that a worker needs.
type workEvent struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	ID         string              `bun:"id,pk"`
	Receipt    database.NullString `bun:"inbox_id"`
	Provider   string              `bun:"provider"`
	Type       string              `bun:"type"`
	Native     database.NullString `bun:"native"`
	Key        string              `bun:"dedup_key"`
	OccurredAt database.Timestamp  `bun:"occurred_at"`
	URL        database.NullString `bun:"url"`
	Error      database.NullString `bun:"error"`
	CreatedAt  database.Timestamp  `bun:"created_at"`
	Sealed     []byte              `bun:"sealed"`
}

// readWork reads what the worker of a claimed run needs.
func readWork(ctx context.Context, tx bun.IDB, r *RunRow) (event.Work, error) {
	a, err := readAutomation(ctx, tx, r.Organization, r.Automation)
	if err != nil {
		return event.Work{}, err
	}
	e := &workEvent{ID: r.Event}
	if err := tx.NewSelect().Model(e).WherePK().Where("organization_id = ?", r.Organization).Scan(ctx); err != nil {
		return event.Work{}, fmt.Errorf("reading the event of run %s: %w", r.ID, err)
	}
	return event.Work{
		Run: r.run(), Automation: a.Automation, Sealed: e.Sealed, ExpiresAt: r.Deadline.Time,
		Record: event.Record{
			ID: e.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: string(e.Receipt),
			Provider: e.Provider, Type: e.Type, Native: string(e.Native), Key: e.Key, OccurredAt: e.OccurredAt.Ptr(), Title: r.Title,
			URL: string(e.URL), Error: string(e.Error), CreatedAt: e.CreatedAt.Time, Run: r.ID, RunStatus: event.RunStatus(r.Status),
		},
	}, nil
}

// claimLost returns the error for a worker that lost its claim.
func claimLost() error {
	return action.Errorf(action.ErrConflict, "claim_lost",
		"You no longer hold this run: it ended, or another worker claimed it. Stop working on it, and claim another one.")
}

// hasClaim reports whether claim is the run's current claim.
func (r *RunRow) hasClaim(claim string) bool { return claim != "" && string(r.Claim) == claim }

// RenewRun extends the lease of a run and marks it as running, unless it waits
// for a person. ErrNotFound; ErrConflict with code "claim_lost".
func (st *Store) RenewRun(ctx context.Context, organization, id, claim string) (run event.Run, err error) {
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := ReadRun(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if !r.hasClaim(claim) {
			return claimLost()
		}
		now := st.db.Now()
		err = checkSwapped(database.RowsAffected(r.whereUnchanged(tx.NewUpdate().Table("runs").
			Set("status = CASE WHEN status = 'claimed' THEN 'running' ELSE status END").
			Set("started_at = coalesce(started_at, ?), lease_until = ?", database.NewTimestamp(now), r.leaseEnd(now)).
			Where("id = ?", r.ID)).Exec(ctx)))
		if err != nil {
			return fmt.Errorf("renewing run %s: %w", id, err)
		}
		if r.ClaimedBy == claimedByEndpoint {
			// The endpoint received it, even if its response was lost.
			if err := endRunDelivery(ctx, tx, r.ID, event.DeliveryDelivered, now); err != nil {
				return err
			}
		}
		run, err = readRunValue(ctx, tx, organization, id)
		return err
	})
	if errors.Is(err, ErrRunChanged) {
		return event.Run{}, claimLost()
	}
	return run, err
}

// FinishRun ends the run with the worker's result, or leaves it to a person
// ([event.RunNeedsHuman]), and ends its session. Pending calls of the session
// are withdrawn and returned. A retry with the same claim and status returns
// the run unchanged. ErrInvalid with a field of the result; ErrNotFound;
// ErrConflict with code "claim_lost".
func (st *Store) FinishRun(ctx context.Context, organization, id, claim string, e event.RunResult) (run event.Run, withdrawn []action.Invocation, err error) {
	if err := ValidateResult(&e, event.RunSucceeded, event.RunFailed, event.RunNeedsHuman); err != nil {
		return event.Run{}, nil, err
	}
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := ReadRun(ctx, tx, organization, id)
		switch {
		case err != nil:
			return err
		case claim != "" && string(r.LastClaim) == claim && r.is(e.Status): // a retry
			run, withdrawn = r.run(), nil
			return nil
		case !r.hasClaim(claim):
			return claimLost()
		}
		end := RunEnd{Status: e.Status, Result: e, Finished: true, Delivery: event.DeliveryDelivered, Note: "The run was finished by its worker."}
		withdrawn, err = st.EndRun(ctx, tx, r, end, st.db.Now())
		run = r.run()
		return err
	})
	if errors.Is(err, ErrRunChanged) {
		err = claimLost()
	}
	if err != nil {
		return event.Run{}, nil, err
	}
	return run, withdrawn, nil
}
