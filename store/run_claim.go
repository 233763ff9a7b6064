package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// byEndpoint has claimed the runs that are delivered.
const byEndpoint = "endpoint"

// claimTerms are those of one claim.
type claimTerms struct {
	by       string
	lease    time.Duration // zero: until the deadline
	deadline time.Time
	now      time.Time
}

// ClaimRun takes a queued run and mints its session. ErrNotFound with code
// "no_run" when none waits, "run_not_found" when there is none of c.Run, and
// ErrConflict when somebody has that one. Runs of a disabled automation wait
// until it is enabled: nobody gets any, and ErrConflict who asks for one.
func (db *DB) ClaimRun(ctx context.Context, c event.Claim) (w event.Work, err error) {
	if c.By == "" || c.Life <= 0 || c.Lease < 0 {
		return event.Work{}, errors.New("claiming a run: give who claims it, and for how long")
	}
	if c.Run == "" {
		// A reader looks first: workers ask often, and mostly nothing waits.
		some, err := exists(ctx, waitingAutomations(db.read, c.Organization, c.Automation).Limit(1))
		if err != nil {
			return event.Work{}, fmt.Errorf("looking for a run: %w", err)
		}
		if !some {
			return event.Work{}, noRun()
		}
	}
	err = db.once(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := pickRun(ctx, tx, &c)
		if err != nil {
			return err
		}
		now := db.now()
		if err := db.claimRun(ctx, tx, r, claimTerms{by: c.By, lease: c.Lease, deadline: now.Add(c.Life), now: now}); err != nil {
			return err
		}
		if err := closeParcel(ctx, tx, r.ID, event.ParcelDelivered, now); err != nil {
			return err
		}
		w, err = readWork(ctx, tx, r)
		if err == nil && !w.Automation.Enabled {
			err = runPaused()
		}
		return err
	})
	if errors.Is(err, errRunMoved) {
		return event.Work{}, runTaken()
	}
	return w, err
}

func noRun() error {
	return action.Errorf(action.ErrNotFound, "no_run", "No run waits; ask again in a while.")
}

func runTaken() error {
	return action.NewError("run_not_queued")
}

func runPaused() error {
	return action.NewError("automation_disabled")
}

// waitingAutomations are an organization's with runs that wait, but for disabled
// ones; that whose run waits longest comes first. Of each one run is looked at,
// however many wait.
func waitingAutomations(db bun.IDB, organization, automation string) *bun.SelectQuery {
	oldest := db.NewSelect().TableExpr("runs AS r").Column("r.created_at").Where("r.organization_id = a.organization_id").
		Where("r.automation_id = a.id").Where("r.status = 'queued'").Order("r.created_at", "r.id").Limit(1)
	q := db.NewSelect().TableExpr("automations AS a").Column("a.id").ColumnExpr("(?) AS oldest", oldest).
		Where("a.organization_id = ?", organization).Where("a.enabled")
	if automation != "" {
		q = q.Where("a.id = ?", automation)
	}
	return db.NewSelect().TableExpr("(?) AS w", q).Column("w.id").Where("w.oldest IS NOT NULL").Order("w.oldest", "w.id")
}

// waitingRuns finds the run of an automation that waits longest.
func waitingRuns(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Column("r.id").Where("r.organization_id = ?", organization).
		Where("r.automation_id = ?", automation).Where("r.status = 'queued'").Order("r.created_at", "r.id").Limit(1)
}

// longestWaiting returns the run to be claimed when any will do. Of many who
// look, each finds another one.
func longestWaiting(ctx context.Context, tx bun.IDB, c *event.Claim) (string, error) {
	var automations []string
	if err := waitingAutomations(tx, c.Organization, c.Automation).Scan(ctx, &automations); err != nil {
		return "", fmt.Errorf("looking for a run: %w", err)
	}
	for _, a := range automations {
		q := waitingRuns(tx, c.Organization, a)
		if shared(tx) {
			q = q.For("NO KEY UPDATE SKIP LOCKED")
		}
		var found []string
		if err := q.Scan(ctx, &found); err != nil {
			return "", fmt.Errorf("looking for a run: %w", err)
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", noRun()
}

// pickRun reads the run to be claimed.
func pickRun(ctx context.Context, tx bun.IDB, c *event.Claim) (*runRow, error) {
	id := c.Run
	if id == "" {
		var err error
		if id, err = longestWaiting(ctx, tx, c); err != nil {
			return nil, err
		}
	}
	r, err := readRun(ctx, tx, c.Organization, id)
	switch {
	case err != nil:
		return nil, err
	case !r.is(event.RunQueued), c.Automation != "" && r.Automation != c.Automation:
		return nil, errRunMoved
	}
	return r, nil
}

// claimRun gives a queued run to somebody, with a session of its own; r is it as
// read, and then as written. errRunMoved when it is not queued any more.
func (db *DB) claimRun(ctx context.Context, tx bun.IDB, r *runRow, c claimTerms) error {
	claim, err := newID()
	if err != nil {
		return err
	}
	s, err := db.mintSession(ctx, tx, r, c)
	if err != nil {
		return err
	}
	r.Status, r.Claim, r.ClaimedBy, r.Session = string(event.RunClaimed), opt(claim), opt(c.by), opt(s)
	r.Attempt, r.Deadline, r.StartedAt = r.Attempt+1, at(c.deadline), stamp{}
	if c.lease > 0 {
		seconds := int64(math.Ceil(c.lease.Seconds()))
		r.LeaseSeconds = &seconds
		r.LeaseUntil = r.leaseFrom(c.now)
	}
	err = swapped(affected(tx.NewUpdate().Model(r).
		Column("status", "attempt", "claim_id", "claimed_by", "lease_until", "lease_seconds", "deadline", "session_id", "started_at").
		WherePK().Where("status = 'queued'").Exec(ctx)))
	if err != nil {
		return fmt.Errorf("claiming run %s: %w", r.ID, err)
	}
	return nil
}

// leaseFrom is the end of a lease that begins at a time: never after the
// deadline. NULL where there is none.
func (r *runRow) leaseFrom(now time.Time) stamp {
	if r.LeaseSeconds == nil {
		return stamp{}
	}
	until := now.Add(time.Duration(*r.LeaseSeconds) * time.Second)
	if until.After(r.Deadline.t) {
		return r.Deadline
	}
	return at(until)
}

// mintSession makes the session that works on a run, and returns its id. It is
// bound to what its automation is bound to at this time.
func (db *DB) mintSession(ctx context.Context, tx bun.IDB, r *runRow, c claimTerms) (string, error) {
	s := action.Session{
		Organization: r.Organization, Kind: action.Unattended, Type: action.TypeAutomation, Automation: r.Automation, Event: r.Event,
		Title: r.Title, CreatedBy: action.ByAutomation(r.Automation), CreatedAt: c.now, ExpiresAt: &c.deadline,
	}
	if err := bindings(tx, r.Organization, r.Automation).Scan(ctx, &s.Connections); err != nil {
		return "", fmt.Errorf("reading the connections of automation %s: %w", r.Automation, err)
	}
	if err := db.completeSession(&s); err != nil {
		return "", err
	}
	if _, err := tx.NewInsert().Model(newSessionRow(&s)).Exec(ctx); err != nil {
		return "", fmt.Errorf("making the session of run %s: %w", r.ID, err)
	}
	return s.ID, nil
}

// workEvent is what a worker gets of an event.
type workEvent struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	ID         string `bun:"id,pk"`
	Receipt    opt    `bun:"inbox_id"`
	Provider   string `bun:"provider"`
	Type       string `bun:"type"`
	Native     opt    `bun:"native"`
	Key        string `bun:"dedup_key"`
	OccurredAt stamp  `bun:"occurred_at"`
	URL        opt    `bun:"url"`
	Error      opt    `bun:"error"`
	CreatedAt  stamp  `bun:"created_at"`
	Sealed     []byte `bun:"sealed"`
}

// readWork reads what the worker of a claimed run needs.
func readWork(ctx context.Context, tx bun.IDB, r *runRow) (event.Work, error) {
	a, err := automationOf(ctx, tx, r.Organization, r.Automation)
	if err != nil {
		return event.Work{}, err
	}
	e := &workEvent{ID: r.Event}
	if err := tx.NewSelect().Model(e).WherePK().Where("organization_id = ?", r.Organization).Scan(ctx); err != nil {
		return event.Work{}, fmt.Errorf("reading the event of run %s: %w", r.ID, err)
	}
	return event.Work{
		Run: r.run(), Automation: a.Automation, Sealed: e.Sealed, ExpiresAt: r.Deadline.t,
		Record: event.Record{
			ID: e.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: string(e.Receipt),
			Provider: e.Provider, Type: e.Type, Native: string(e.Native), Key: e.Key, OccurredAt: e.OccurredAt.ptr(), Title: r.Title,
			URL: string(e.URL), Error: string(e.Error), CreatedAt: e.CreatedAt.t, Run: r.ID, RunStatus: event.RunStatus(r.Status),
		},
	}, nil
}
