package evidence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/history"
)

// retentionPlan describes one transaction of retention.
type retentionPlan struct {
	chain       *chain
	checkpoint  checkpoint
	invocations []string
	events      int      // of them, which go too
	refusals    []string // counts
	kept        []SealRow
}

// retentionScan holds the first links of a chain and what is known of their rows.
type retentionScan struct {
	links        []SealRow
	endedAt      map[string]database.Timestamp // of invocations and counts of refusals
	events       map[string][]string           // of invocations
	invocationOf map[string]string             // of events
}

// read loads when invocations and counts of refusals ended, and the events of invocations.
func (r *retentionScan) read(ctx context.Context, db *Store, organization string) error {
	r.endedAt, r.events, r.invocationOf = map[string]database.Timestamp{}, map[string][]string{}, map[string]string{}
	var ids, refusals []string
	for _, l := range r.links {
		switch l.Kind {
		case SealedInvocation:
			ids = append(ids, l.Row)
		case SealedRefusal:
			refusals = append(refusals, l.Row)
		}
	}
	ended := func(rows *sql.Rows) error {
		var id string
		var at database.Timestamp
		err := rows.Scan(&id, &at)
		r.endedAt[id] = at
		return err
	}
	err := db.db.ForEachRow(ctx, CompletionTimes(db.db.Read, organization, ids), ended)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		err = db.db.ForEachRow(ctx, RefusalTimes(db.db.Read, organization, refusals), ended)
	}
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		err = db.db.ForEachRow(ctx, InvocationEvents(db.db.Read, organization, ids), func(rows *sql.Rows) error {
			var event, owner string
			err := rows.Scan(&event, &owner)
			r.invocationOf[event], r.events[owner] = owner, append(r.events[owner], event)
			return err
		})
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading old invocations: %w", err)
	}
	return nil
}

// CompletionTimes selects when the invocations ended.
func CompletionTimes(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocations").Column("id", "completed_at").Where(database.WhereIDs, bun.List(ids), organization)
}

// RefusalTimes selects when the counts of refusals ended.
func RefusalTimes(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("refusal_counts").Column("id", "last_at").Where(database.WhereIDs, bun.List(ids), organization)
}

// InvocationEvents selects the events of the invocations.
func InvocationEvents(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocation_events").Column("id", "invocation_id").
		Where("organization_id = ?", organization).Where("invocation_id IN (?)", bun.List(ids))
}

// plan decides which rows are removed and which are sealed again.
func (r *retentionScan) plan(k AuditKey, c *chain, before database.Timestamp, limit int, now database.Timestamp) *retentionPlan {
	r.links = r.links[:r.removableLinks(before, limit)]
	present := map[RowKey]bool{}
	for _, l := range r.links {
		present[RowKey{l.Kind, l.Row}] = true
	}
	removable := func(invocation string) bool {
		unsealed := func(event string) bool { return !present[RowKey{SealedEvent, event}] }
		return present[RowKey{SealedInvocation, invocation}] && !slices.ContainsFunc(r.events[invocation], unsealed)
	}
	p := &retentionPlan{chain: c}
	for _, l := range r.links {
		switch {
		case l.Kind == SealedInvocation && removable(l.Row):
			p.invocations, p.events = append(p.invocations, l.Row), p.events+len(r.events[l.Row])
		case l.Kind == SealedEvent && removable(r.invocationOf[l.Row]):
		case l.Kind == SealedRefusal:
			p.refusals = append(p.refusals, l.Row)
		default:
			p.kept = append(p.kept, SealRow{Organization: l.Organization, Kind: l.Kind, Row: l.Row, Digest: l.Digest})
		}
	}
	last := r.links[len(r.links)-1]
	p.checkpoint = checkpoint{position: position{seq: last.Seq, hash: last.Hash, at: now}, until: before, removed: c.checkpoint.removed + int64(len(p.invocations))}
	p.checkpoint.mac = k.checkpoint(c.organization, &p.checkpoint)
	return p
}

// removableLinks returns the number of links before the first invocation or count of
// refusals that is too recent or exceeds the limit. Links after the last removable one
// that are not events of an invocation before them are left in place.
func (r *retentionScan) removableLinks(before database.Timestamp, limit int) (n int) {
	for i, l := range r.links {
		switch {
		case l.Kind == SealedPolicy:
		case l.Kind == SealedEvent && r.invocationOf[l.Row] == "":
		case l.Kind == SealedEvent:
			n = i + 1
		case limit == 0 || !r.endedAt[l.Row].Time.Before(before.Time):
			return n
		default:
			n, limit = i+1, limit-1
		}
	}
	if n == 0 {
		return len(r.links) // the first invocation comes later
	}
	return n
}

// Retain removes up to limit (default 100) invocations of the organization that ended
// before a time, with their events, and counts of refusals, and returns their number. If that equals limit, there
// may be more. Removals whose commit was not confirmed are not counted.
//
// It removes the beginning of the chain and leaves a checkpoint. Rows there that must stay
// are sealed again at the end of the chain with their old digest: policy changes, which
// are kept forever, and invocations with an event that was sealed later. It stops at the
// first of them that ended later and at the first row or link that differs from what
// was sealed, so that it never removes evidence of tampering.
func (st *Store) Retain(ctx context.Context, organization string, before time.Time, key []byte, limit int) (n int, err error) {
	k, err := newAuditKey(key)
	if err != nil {
		return 0, err
	}
	limit = database.LimitOrDefault(limit)
	c, err := st.LoadChain(ctx, organization)
	if err != nil {
		return 0, err
	}
	for conflicts := 0; n < limit && conflicts < calls.MaxRaceRetries; {
		p, err := st.planRetention(ctx, k, organization, database.NewTimestamp(before), limit-n)
		if err == nil && (p == nil || p.checkpoint.seq > c.last.seq) { // one pass is enough
			return n, nil
		}
		if err == nil {
			err = st.applyRetention(ctx, k, p)
		}
		switch {
		case err == nil:
			n += len(p.invocations) + len(p.refusals)
		case errors.Is(err, ErrConcurrentAppend):
			conflicts++
		default:
			return n, fmt.Errorf("removing old invocations: %w", err)
		}
	}
	return n, nil
}

// planRetention plans what can be removed of the chain's first links. It returns nil if
// there is nothing to remove.
func (st *Store) planRetention(ctx context.Context, k AuditKey, organization string, before database.Timestamp, limit int) (*retentionPlan, error) {
	c, err := st.LoadChain(ctx, organization)
	if err != nil {
		return nil, err
	}
	if f := c.faults(k); len(f) > 0 {
		return nil, c.brokenError(f[0], "removed")
	}
	// The first invocation or count decides whether there is anything to do: policy
	// changes before it are sealed again only if it is removed.
	first, err := st.firstCompletion(ctx, organization, c.checkpoint.seq)
	if err != nil || first.Time.IsZero() || !first.Time.Before(before.Time) {
		return nil, err
	}
	links, err := st.verifiedPrefix(ctx, k, c)
	if err != nil {
		return nil, err
	}
	r := &retentionScan{links: links}
	if err := r.read(ctx, st, organization); err != nil {
		return nil, err
	}
	return r.plan(k, c, before, limit, database.NewTimestamp(st.db.Now())), nil
}

// FirstCompletionSQL reads when the first sealed invocation or count of refusals of the
// chain ended.
const FirstCompletionSQL = `SELECT coalesce(i.completed_at, r.last_at) FROM audit_seals s
LEFT JOIN invocations i ON s.kind = 'invocation' AND i.id = s.row_id
LEFT JOIN refusal_counts r ON s.kind = 'refusal' AND r.id = s.row_id
WHERE s.organization_id = ? AND s.seq > ? AND (i.id IS NOT NULL OR r.id IS NOT NULL) ORDER BY s.seq LIMIT 1`

func (st *Store) firstCompletion(ctx context.Context, organization string, after int64) (ended database.Timestamp, err error) {
	err = st.db.ForEachRow(ctx, st.db.Read.NewRaw(FirstCompletionSQL, organization, after), func(rows *sql.Rows) error { return rows.Scan(&ended) })
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return database.Timestamp{}, fmt.Errorf("reading the start of the audit log: %w", err)
	}
	return ended, nil
}

// verifiedPrefix returns the first links up to the first one with a fault.
func (st *Store) verifiedPrefix(ctx context.Context, k AuditKey, c *chain) ([]SealRow, error) {
	v := &Verification{Store: st, Key: k, Organization: c.organization}
	p, err := v.checkSegment(ctx, c.checkpoint.position, min(c.last.seq, c.checkpoint.seq+SealBatch))
	if err != nil {
		return nil, fmt.Errorf("checking the start of the audit log: %w", err)
	}
	if len(p.faults) == 0 {
		return p.links, nil
	}
	f := p.faults[0]
	good := slices.IndexFunc(p.links, func(l SealRow) bool { return l.Seq >= f.Seq })
	if good > 0 {
		return p.links[:good], nil
	}
	now, err := st.LoadChain(ctx, c.organization)
	switch {
	case err != nil:
		return nil, err
	case now.checkpoint.seq != c.checkpoint.seq:
		return nil, ErrConcurrentAppend
	}
	return nil, c.brokenError(f, "removed")
}

// applyRetention executes the plan unless the chain changed meanwhile.
func (st *Store) applyRetention(ctx context.Context, k AuditKey, p *retentionPlan) error {
	c := p.chain
	head := k.Extend(c, p.kept, p.checkpoint.at)
	return st.db.Write.Do(ctx, &database.Job{InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
		if err := p.lockAndRecheck(ctx, tx); err != nil {
			return err
		}
		n, err := database.RowsAffected(tx.NewRaw(`INSERT INTO audit_checkpoints (organization_id, seq, hash, mac, until, at, removed) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (organization_id) DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, mac = EXCLUDED.mac,
			until = EXCLUDED.until, at = EXCLUDED.at, removed = EXCLUDED.removed WHERE audit_checkpoints.seq = ?`,
			c.organization, p.checkpoint.seq, p.checkpoint.hash, p.checkpoint.mac, p.checkpoint.until, p.checkpoint.at, p.checkpoint.removed, c.checkpoint.seq).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrConcurrentAppend
		}
		if len(p.invocations) > 0 {
			if err := deleteInvocations(ctx, tx, c.organization, p.invocations); err != nil {
				return err
			}
		}
		if len(p.refusals) > 0 {
			if _, err := tx.NewDelete().Table("refusal_counts").Where(database.WhereIDs, bun.List(p.refusals), c.organization).Exec(ctx); err != nil {
				return err
			}
		}
		_, err = tx.NewDelete().Table("audit_seals").Where("organization_id = ?", c.organization).Where("seq <= ?", p.checkpoint.seq).Exec(ctx)
		if err != nil {
			return err
		}
		return c.Append(ctx, tx, st.stmts.link, st.stmts.links, head, p.kept)
	}})
}

// deleteInvocations deletes the invocations and what belongs to them.
func deleteInvocations(ctx context.Context, tx bun.IDB, organization string, ids []string) error {
	if _, err := DeleteInvocations(tx, organization, ids).Exec(ctx); err != nil {
		return err
	}
	for _, table := range DependentTables {
		if _, err := DeleteDependents(tx, table, ids).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DependentTables have rows that belong to an invocation, open or ended, and are deleted
// with it. A foreign key could refer only to one of the two tables.
var DependentTables = []string{"invocation_events", "idempotency_keys", "rounds", "returning_callers"}

// DeleteDependents deletes the rows of a table that belong to the invocations.
func DeleteDependents(db bun.IDB, table string, ids []string) *bun.DeleteQuery {
	return db.NewDelete().Table(table).Where("invocation_id IN (?)", bun.List(ids))
}

// DeleteInvocations deletes the invocations with the IDs.
func DeleteInvocations(db bun.IDB, organization string, ids []string) *bun.DeleteQuery {
	return db.NewDelete().Table("invocations").Where(database.WhereIDs, bun.List(ids), organization)
}

// lockAndRecheck locks the invocations to remove and checks that no event was appended to
// them meanwhile, which would otherwise be lost without a trace.
func (p *retentionPlan) lockAndRecheck(ctx context.Context, tx bun.IDB) error {
	if len(p.invocations) == 0 {
		return nil
	}
	if database.Shared(tx) {
		lock := tx.NewSelect().Table("invocations").Column("id").Where(database.WhereIDs, bun.List(p.invocations), p.chain.organization).Order("id").For("UPDATE")
		if _, err := lock.Exec(ctx); err != nil {
			return err
		}
	}
	n, err := InvocationEvents(tx, p.chain.organization, p.invocations).Count(ctx)
	if err == nil && n != int64(p.events) {
		err = ErrConcurrentAppend
	}
	return err
}

const (
	// exportRows bounds the rows that an export keeps in memory.
	exportRows = 100

	// ExportStep is the number of rows that one statement scans.
	ExportStep = 1000
)

// Export calls yield with every invocation that matches the filter, oldest first, and
// stops at the first error of yield. It ignores the filter's limit and cursor. It reads in
// batches and keeps no transaction open, so that yield may be slow. Reads that are still
// queued may be missing.
func (st *Store) Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error {
	s, err := st.calls.Search(ctx, f)
	if err != nil {
		return err
	}
	interval := s.F.TimeRange()
	s.OldestFirst = true
	for n := exportRows; ; n = ExportStep { // a small first step, so that output starts soon
		cursors, err := st.calls.NextCursors(ctx, s, &interval, n)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		last := len(cursors) < n
		if cursors, err = st.calls.FilterMatching(ctx, s, cursors); err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		if err := st.exportPages(ctx, s, cursors, yield); err != nil || last {
			return err
		}
	}
}

// exportPages yields the invocations that the cursors point to.
func (st *Store) exportPages(ctx context.Context, s *calls.Search, cursors []database.Cursor, yield func(action.Invocation) error) error {
	for page := range slices.Chunk(cursors, exportRows) {
		list, err := st.calls.InvocationsAt(ctx, s, page)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		for _, inv := range list {
			if err := yield(inv); err != nil {
				return err
			}
		}
	}
	return nil
}

// PolicyEventsPage selects policy changes after a cursor, oldest first.
func PolicyEventsPage(db bun.IDB, organization string, after database.Cursor, from, to time.Time) *bun.SelectQuery {
	q := db.NewSelect().Model((*history.PolicyEventRow)(nil)).Where("organization_id = ?", organization).OrderExpr("at, id").Limit(exportRows)
	if !to.IsZero() {
		q = q.Where("at < ?", database.NewTimestamp(to))
	}
	if after.ID != "" {
		return q.Where("(at, id) > (?, ?)", after.Time, after.ID)
	}
	return q.Where("at >= ?", database.NewTimestamp(from).Or(database.Epoch))
}

// ExportPolicy calls yield with every policy change of the organization in [from, to), as
// [Store.Export] does. A zero time is no bound.
func (st *Store) ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error {
	for after, n := (database.Cursor{}), exportRows; n == exportRows; {
		var rows []history.PolicyEventRow
		if err := PolicyEventsPage(st.db.Read, organization, after, from, to).Scan(ctx, &rows); err != nil {
			return fmt.Errorf("exporting changes of policy: %w", err)
		}
		for _, r := range rows {
			after = database.Cursor{Time: r.At, ID: r.ID}
			if err := yield(r.Event()); err != nil {
				return err
			}
		}
		n = len(rows)
	}
	return nil
}
