package inbound

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// RunDeliveryRow is the delivery of a run to an endpoint.
type RunDeliveryRow struct {
	bun.BaseModel `bun:"table:outbox,alias:o"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Run          string              `bun:"run_id"`
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	FirstAt      database.Timestamp  `bun:"first_at"`
	NextAt       database.Timestamp  `bun:"next_at"`
	Holder       database.NullString `bun:"holder"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
	LastStatus   *int64              `bun:"last_status"`
	LastError    database.NullString `bun:"last_error"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	DeliveredAt  database.Timestamp  `bun:"delivered_at"`
}

func (r *RunDeliveryRow) delivery() event.RunDelivery {
	p := event.RunDelivery{
		ID: r.ID, Organization: r.Organization, Run: r.Run, Status: event.RunDeliveryStatus(r.Status), Attempt: r.Attempt,
		FirstAt: r.FirstAt.Ptr(), NextAt: r.NextAt.Time, LastError: string(r.LastError), CreatedAt: r.CreatedAt.Time, EndedAt: r.DeliveredAt.Ptr(),
	}
	if r.LastStatus != nil {
		p.LastStatus = int(*r.LastStatus)
	}
	return p
}

// insertRunDelivery inserts a new delivery of a run.
func insertRunDelivery(ctx context.Context, tx bun.IDB, r *RunRow, now time.Time) error {
	id, err := database.NewID()
	if err != nil {
		return err
	}
	row := newRunDeliveryRow(id, r.Organization, r.ID, now)
	if _, err = tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return fmt.Errorf("writing the delivery of run %s: %w", r.ID, err)
	}
	return nil
}

func newRunDeliveryRow(id, organization, run string, now time.Time) RunDeliveryRow {
	at := database.NewTimestamp(now)
	return RunDeliveryRow{ID: id, Organization: organization, Run: run, Status: string(event.DeliveryPending), NextAt: at, CreatedAt: at}
}

// endRunDelivery ends the active delivery of a run, if any. Lock order: the run
// first, then its delivery.
func endRunDelivery(ctx context.Context, tx bun.IDB, run string, s event.RunDeliveryStatus, now time.Time) error {
	_, err := tx.NewUpdate().Table("outbox").
		Set("status = ?, delivered_at = ?, holder = NULL, lease_until = NULL", string(s), database.NewTimestamp(now)).
		Where("run_id = ?", run).Where("status IN ('pending', 'sending')").Exec(ctx)
	if err != nil {
		return fmt.Errorf("ending the delivery of run %s: %w", run, err)
	}
	return nil
}

// RunDelivery returns the delivery of a run; ErrNotFound.
func (st *Store) RunDelivery(ctx context.Context, organization, id string) (event.RunDelivery, error) {
	r, err := database.One[RunDeliveryRow](ctx, database.RowsOf[RunDeliveryRow](st.db.Read, organization).Where("id = ?", id), action.NewError("parcel_not_found"))
	return r.delivery(), err
}

// ListRunDeliveries returns a page of deliveries, newest first.
func (st *Store) ListRunDeliveries(ctx context.Context, f event.RunDeliveryFilter) (page action.Page[event.RunDelivery], err error) {
	switch f.Status {
	case "", event.DeliveryPending, event.DeliverySending, event.DeliveryDelivered, event.DeliveryDead, event.DeliveryVoid:
	default:
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q of a delivery. Use pending, sending, delivered, dead or void.", f.Status))
	}
	return database.ListQuery[RunDeliveryRow, event.RunDelivery]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterRunDeliveries(f, st.db.Read.NewSelect().TableExpr("outbox AS o")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(FilterRunDeliveries(f, st.db.Read.NewSelect().Model((*RunDeliveryRow)(nil))), after, limit)
		},
		Value: (*RunDeliveryRow).delivery, Position: func(r *RunDeliveryRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
}

// FilterRunDeliveries restricts q to the deliveries that f matches.
func FilterRunDeliveries(f event.RunDeliveryFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("o.organization_id = ?", f.Organization)
	if f.Status != "" {
		q = q.Where("o.status = ?", string(f.Status))
	}
	return q
}

// deliveryClaim holds the parameters of a claim of deliveries.
type deliveryClaim struct {
	worker          string
	lease, lifetime time.Duration
}

// ClaimRunDeliveries claims for the worker up to limit due deliveries, shared among
// the organizations that have an enabled endpoint. Each claim also claims the
// run for the endpoint, with the given lifetime; a retry keeps the session and
// claim of the run. The delivery is voided if the run ended or was claimed
// otherwise, and waits while the run's automation is disabled. The deliveries
// claimed before an error are returned with it.
func (st *Store) ClaimRunDeliveries(ctx context.Context, worker string, limit int, lease, life time.Duration) (list []event.Dispatch, err error) {
	if worker == "" || limit <= 0 || lease <= 0 || life <= 0 {
		return nil, errors.New("claiming deliveries: worker, limit and lease are required")
	}
	var due []string
	if err := DueOrganizations(st.db.Read, database.NewTimestamp(st.db.Now())).Scan(ctx, &due); err != nil {
		return nil, fmt.Errorf("reading deliveries: %w", err)
	}
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	// Organizations with more work share what others leave of the limit.
	for len(due) > 0 && len(list) < limit {
		share, unfilled := max((limit-len(list))/len(due), 1), due[:0]
		for _, organization := range due {
			n := min(share, limit-len(list))
			if n == 0 {
				break
			}
			claimed, err := st.claimRunDeliveries(ctx, organization, n, deliveryClaim{worker, lease, life})
			if list = append(list, claimed...); err != nil {
				return list, fmt.Errorf("claiming deliveries: %w", err)
			}
			if len(claimed) == n {
				unfilled = append(unfilled, organization)
			}
		}
		due = unfilled
	}
	return list, nil
}

// DueOrganizations selects the organizations with due deliveries and an enabled
// endpoint.
func DueOrganizations(db bun.IDB, now database.Timestamp) *bun.SelectQuery {
	retries := whereRetryDue(db.NewSelect().TableExpr("outbox AS o").ColumnExpr("1"), now).Where("o.organization_id = p.organization_id")
	return db.NewSelect().TableExpr("run_endpoints AS p").Column("p.organization_id").Where("p.enabled").Where("EXISTS (?) OR "+queuedRunSQL, retries)
}

// queuedRunSQL reports whether a run is queued for endpoint p. It probes each
// enabled automation and reads no runs of disabled ones.
const queuedRunSQL = `EXISTS (SELECT 1 FROM automations AS a WHERE a.organization_id = p.organization_id AND a.enabled AND
	(SELECT r.id FROM runs AS r WHERE r.organization_id = a.organization_id AND r.automation_id = a.id AND r.status = 'queued' ORDER BY r.created_at, r.id LIMIT 1) IS NOT NULL)`

// whereRetryDue restricts q to due retries. They continue even if the
// automation was disabled.
func whereRetryDue(q *bun.SelectQuery, now database.Timestamp) *bun.SelectQuery {
	return q.Where("o.status = 'pending' AND o.attempt > 0").Where("o.next_at <= ?", now)
}

// RetryRunDeliveries selects the due retries of an organization, the most overdue
// first.
func RetryRunDeliveries(db bun.IDB, dest any, organization string, now database.Timestamp, limit int) *bun.SelectQuery {
	return whereRetryDue(db.NewSelect().Model(dest), now).Join("JOIN runs AS r ON r.id = o.run_id").
		Where("o.organization_id = ?", organization).Order("o.next_at", "o.id").Limit(int64(limit))
}

// NewRunDeliveries selects the deliveries of an automation that were never sent, in
// the order of their runs. The where clause repeats the predicate of a partial
// index verbatim.
func NewRunDeliveries(db bun.IDB, dest any, organization, automation string, now database.Timestamp, limit int) *bun.SelectQuery {
	return db.NewSelect().Model(dest).Join("JOIN runs AS r ON r.id = o.run_id").
		Where("r.organization_id = ?", organization).Where("r.automation_id = ?", automation).Where("r.status = 'queued'").
		Where("o.status IN ('pending', 'sending')").Where("o.status = 'pending'").Where("o.next_at <= ?", now).
		Order("r.created_at", "r.id").Limit(int64(limit))
}

// dueRunDeliveries selects and locks up to limit due deliveries of an organization.
// Retries and new deliveries come first in random turns, so that neither
// starves the other.
func dueRunDeliveries(ctx context.Context, tx bun.IDB, organization string, now database.Timestamp, limit int) (rows []RunDeliveryRow, err error) {
	var automations []string
	if err := AutomationsWithQueuedRuns(tx, organization, "").Scan(ctx, &automations); err != nil {
		return nil, err
	}
	queries := []func(dest any, limit int) *bun.SelectQuery{
		func(dest any, limit int) *bun.SelectQuery {
			return RetryRunDeliveries(tx, dest, organization, now, limit)
		},
	}
	for _, a := range automations {
		queries = append(queries, func(dest any, limit int) *bun.SelectQuery {
			return NewRunDeliveries(tx, dest, organization, a, now, limit)
		})
	}
	if rand.N(2) == 0 {
		queries = append(queries[1:], queries[0])
	}
	for _, query := range queries {
		if len(rows) >= limit {
			break
		}
		var found []RunDeliveryRow
		q := query(&found, limit-len(rows))
		if database.Shared(tx) {
			// Other transactions lock the run before its delivery. Skipping locked
			// rows avoids a deadlock with them.
			q = q.For("NO KEY UPDATE OF o, r SKIP LOCKED")
		}
		if err := q.Scan(ctx); err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

func (st *Store) claimRunDeliveries(ctx context.Context, organization string, limit int, t deliveryClaim) (list []event.Dispatch, err error) {
	endpoint, err := st.RunEndpoint(ctx, organization)
	if errors.Is(err, action.ErrNotFound) || err == nil && !endpoint.Enabled {
		return nil, nil // changed since the organizations were read
	}
	if err != nil {
		return nil, err
	}
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		list = nil
		now := st.db.Now()
		rows, err := dueRunDeliveries(ctx, tx, organization, database.NewTimestamp(now), limit)
		if err != nil {
			return err
		}
		for i := range rows {
			w, err := st.claimRunDelivery(ctx, tx, &rows[i], t, now)
			if err != nil {
				return err
			}
			if w != nil {
				list = append(list, event.Dispatch{Delivery: rows[i].delivery(), Work: *w, Endpoint: endpoint})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// claimRunDelivery claims a delivery and its run, and updates p. It returns nil if
// the delivery is obsolete.
func (st *Store) claimRunDelivery(ctx context.Context, tx bun.IDB, p *RunDeliveryRow, t deliveryClaim, now time.Time) (*event.Work, error) {
	r, err := ReadRun(ctx, tx, p.Organization, p.Run)
	if err != nil {
		return nil, err
	}
	switch {
	case r.is(event.RunQueued):
		err := st.claimRun(ctx, tx, r, runClaim{by: claimedByEndpoint, deadline: now.Add(t.lifetime), now: now})
		if errors.Is(err, errAutomationFull) {
			p.NextAt = database.NewTimestamp(now.Add(fullDelay))
			_, err := tx.NewUpdate().Model(p).Column("next_at").WherePK().Exec(ctx)
			return nil, err
		}
		if err != nil {
			return nil, err
		}
	case r.Claim != "" && r.ClaimedBy == claimedByEndpoint:
	default:
		return nil, endRunDelivery(ctx, tx, r.ID, event.DeliveryVoid, now)
	}
	p.Status, p.Attempt = string(event.DeliverySending), p.Attempt+1
	p.Holder, p.LeaseUntil = database.NullString(t.worker), database.NewTimestamp(now.Add(t.lease))
	_, err = tx.NewUpdate().Model(p).Column("status", "attempt", "holder", "lease_until").WherePK().Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("claiming delivery %s: %w", p.ID, err)
	}
	w, err := readWork(ctx, tx, r)
	return &w, err
}

// fullDelay is when the delivery of a run is tried again while its automation has as
// many runs as it may have.
const fullDelay = 10 * time.Second

// errDeliveryLost reports that the delivery ended or another worker claimed it.
var errDeliveryLost = errors.New("another worker has the delivery")

// undeliveredMessage is the message of runs that their endpoint did not accept.
const undeliveredMessage = "The run endpoint did not accept this run. Check its response in the delivery, fix the endpoint, and repeat the run."

// SettleRunDelivery writes the result of a delivery attempt and returns the run. A
// dead delivery fails its run, unless the run was started anyway: then it
// counts as delivered. held is false, and nothing is written, if the worker
// lost the delivery.
func (st *Store) SettleRunDelivery(ctx context.Context, worker string, s event.DispatchResult) (run event.Run, held bool, err error) {
	switch s.Status {
	case event.DeliveryPending, event.DeliveryDelivered, event.DeliveryDead:
	default:
		return event.Run{}, false, fmt.Errorf("a delivery attempt cannot end as %q", s.Status)
	}
	run, err = st.settleAttempt(ctx, worker, &s)
	if errors.Is(err, errRunStarted) {
		s.Status = event.DeliveryDelivered // the endpoint received it, whatever it answered
		run, err = st.settleAttempt(ctx, worker, &s)
	}
	if errors.Is(err, errDeliveryLost) || errors.Is(err, ErrRunChanged) {
		return event.Run{}, false, nil
	}
	if err != nil {
		return event.Run{}, false, err
	}
	return run, true, nil
}

func (st *Store) settleAttempt(ctx context.Context, worker string, s *event.DispatchResult) (run event.Run, err error) {
	err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
		r, err := ReadRun(ctx, tx, s.Delivery.Organization, s.Delivery.Run)
		if err != nil {
			return err
		}
		if s.Status == event.DeliveryDead && r.Claim != "" && r.ClaimedBy == claimedByEndpoint {
			if !r.is(event.RunClaimed) {
				return errRunStarted
			}
			end := RunEnd{Status: event.RunFailed, Result: event.RunResult{Code: event.RunUndelivered, Message: undeliveredMessage}, Note: "The run could not be delivered.", onlyUnstarted: true}
			if _, err := st.EndRun(ctx, tx, r, end, st.db.Now()); err != nil {
				return err
			}
		}
		run = r.run()
		return st.updateRunDelivery(ctx, tx, worker, s)
	})
	return run, err
}

func (st *Store) updateRunDelivery(ctx context.Context, tx bun.IDB, worker string, s *event.DispatchResult) error {
	r := &RunDeliveryRow{ID: s.Delivery.ID, Status: string(s.Status), FirstAt: database.TimestampFromPtr(s.Delivery.FirstAt), NextAt: database.NewTimestamp(s.Delivery.NextAt), LastError: database.NullString(TruncateMessage(s.Error))}
	if s.HTTP != 0 {
		code := int64(s.HTTP)
		r.LastStatus = &code
	}
	if s.Status == event.DeliveryPending {
		r.NextAt = database.NewTimestamp(s.NextAt)
	} else {
		r.DeliveredAt = database.NewTimestamp(st.db.Now())
	}
	n, err := database.RowsAffected(tx.NewUpdate().Model(r).Column("status", "first_at", "next_at", "holder", "lease_until", "last_status", "last_error", "delivered_at").
		WherePK().Where("organization_id = ?", s.Delivery.Organization).Where("status = 'sending'").
		Where("holder = ?", worker).Where("attempt = ?", s.Delivery.Attempt).Exec(ctx))
	if err != nil {
		return fmt.Errorf("settling delivery %s: %w", r.ID, err)
	}
	if n == 0 {
		return errDeliveryLost
	}
	return nil
}
