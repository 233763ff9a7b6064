package calls

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// CountLimits bounds the rows that statistics read, newest first. The rows
// themselves are read, because a covering index would make every call more
// expensive.
type CountLimits struct {
	All          int
	HeldOrDenied int // for held calls, and for denied calls
	BatchSize    int // per statement, which occupies a connection
}

// Statistics counts the calls of an organization in a period. It reads only
// short columns, in batches, and its cost is bounded: of more calls than the
// limits allow, it counts the newest. A call that changes meanwhile is counted
// once, before or after the change.
func (st *Store) Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error) {
	return st.CallStatistics(ctx, organization, p, CountLimits{All: 50_000, HeldOrDenied: 10_000, BatchSize: 1000})
}

// CallStatistics returns the statistics of calls with the given limits.
func (st *Store) CallStatistics(ctx context.Context, organization string, p action.Period, limits CountLimits) (action.Statistics, error) {
	calls, held, denied := newTally(p), &holdTally{}, denialTally{}
	s := action.Statistics{From: p.From, To: p.To, Width: int(p.Width.Seconds())}
	for _, part := range []struct {
		rows CountQuery
		into *action.Extent
	}{
		{CountQuery{"", limits.All, limits.BatchSize, calls.add}, &s.Calls},
		{CountQuery{HeldCalls, limits.HeldOrDenied, limits.BatchSize, held.add}, &s.Held.Extent},
		{CountQuery{DeniedCalls, limits.HeldOrDenied, limits.BatchSize, denied.add}, &s.Denied.Extent},
	} {
		var err error
		if *part.into, err = st.count(ctx, organization, p, part.rows); err != nil {
			return s, fmt.Errorf("counting calls: %w", err)
		}
	}
	calls.fill(&s)
	held.fill(&s.Held)
	s.Denied.Reasons = denied.list()
	var err error
	s.Queues, err = st.queues(ctx, organization)
	return s, err
}

// The predicates of partial indexes, verbatim.
const (
	HeldCalls   = "mode = 'require_approval' AND mode <> 'allow'"
	DeniedCalls = "status = 'denied'"
)

// CountQuery selects calls of a period and counts each. Where is empty or the
// predicate of an index that is ordered by time.
type CountQuery struct {
	Where     string
	limit     int
	batchSize int
	add       func(*InvocationRow)
}

// countedColumns are the columns that statistics read. They come before the
// wide columns of the table, so SQLite does not read those.
const countedColumns = `created_at, id, status, mode, mode_source, risk, source_id, source_name, action,
  denied_reason, approved_at, completed_at, duration_ms`

// countedOpenColumns are the same of an open call.
const countedOpenColumns = `created_at, id, status, mode, mode_source, risk, source_id, source_name, action,
  NULL, approved_at, NULL, NULL`

func (r *InvocationRow) countedFields() []any {
	return []any{
		&r.CreatedAt, &r.ID, &r.Status, &r.Mode, &r.ModeSource, &r.Risk, &r.Source, &r.SourceName, &r.Action,
		&r.DeniedReason, &r.ApprovedAt, &r.CompletedAt, &r.DurationMS,
	}
}

// count reads calls, newest first, until the end or the limit.
func (st *Store) count(ctx context.Context, organization string, p action.Period, c CountQuery) (action.Extent, error) {
	e := action.Extent{Since: p.From}
	row := &InvocationRow{} // reused for every row
	fields := row.countedFields()
	for before := (database.Cursor{Time: database.NewTimestamp(p.To)}); ; {
		n, last := 0, before
		want := min(c.batchSize, c.limit+1-e.Count) // one more row shows whether the limit is exceeded
		err := st.db.ForEachRow(ctx, c.Select(st.db.Read, organization, p, before, want), func(rows *sql.Rows) error {
			if err := rows.Scan(fields...); err != nil {
				return err
			}
			if n++; e.Count == c.limit {
				e.Capped, e.Since = true, last.Time.Time
				return nil
			}
			last = database.Cursor{Time: row.CreatedAt, ID: row.ID}
			e.Count++
			c.add(row)
			return nil
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return e, err
		}
		if n < want || e.Capped {
			return e, nil
		}
		before = last
	}
}

// Select selects the next calls before a cursor. The lower bound includes calls
// created at From, because no ID is empty.
func (c CountQuery) Select(db bun.IDB, organization string, p action.Period, before database.Cursor, n int) *bun.RawQuery {
	where := "organization_id = ?0 AND (created_at, id) > (?1, '') AND (created_at, id) < (?2, ?3)"
	if c.Where != "" {
		where += " AND " + c.Where
	}
	text := "SELECT " + countedColumns + " FROM " + endedTable + " WHERE " + where
	if c.Where != DeniedCalls { // open calls are not denied
		text += "\nUNION ALL SELECT " + countedOpenColumns + " FROM " + openTable + " WHERE " + where
	}
	return db.NewRaw(text+"\nORDER BY created_at DESC, id DESC LIMIT ?4", organization, database.NewTimestamp(p.From), before.Time, before.ID, n)
}

// The limits of the lists in the result.
const (
	maxActionCounts = 20
	maxSourceCounts = 50
)

// tally counts calls by time, action and source. Calls must be added newest
// first.
type tally struct {
	period  action.Period
	buckets []action.Bucket
	actions map[action.Key]*action.ActionCount
	sources map[string]*sourceTally
}

type sourceTally struct {
	action.SourceCount
	durations []int64
}

func newTally(p action.Period) *tally {
	t := &tally{period: p, actions: map[action.Key]*action.ActionCount{}, sources: map[string]*sourceTally{}}
	for at := p.From; at.Before(p.To); at = at.Add(p.Width) {
		t.buckets = append(t.buckets, action.Bucket{At: at})
	}
	return t
}

func (t *tally) add(r *InvocationRow) {
	t.addBucket(&t.buckets[int(r.CreatedAt.Time.Sub(t.period.From)/t.period.Width)], r)
	t.addAction(r)
	t.addSource(r)
}

func (t *tally) addBucket(b *action.Bucket, r *InvocationRow) {
	switch action.Mode(r.Mode) {
	case action.ModeAllow:
		b.Allow++
	case action.ModeRequireApproval:
		b.RequireApproval++
	case action.ModeDeny:
		b.Deny++
	}
}

func (t *tally) addAction(r *InvocationRow) {
	key := action.Key{Source: r.Source, Action: r.Action}
	a := t.actions[key]
	if a == nil {
		a = &action.ActionCount{Source: r.Source, SourceName: r.SourceName, Action: r.Action, Risk: action.Risk(r.Risk)}
		t.actions[key] = a
	}
	a.Calls++
	switch action.Status(r.Status) {
	case action.StatusFailed:
		a.Failed++
	case action.StatusDenied:
		a.Denied++
	}
}

func (t *tally) addSource(r *InvocationRow) {
	s := t.sources[r.Source]
	if s == nil {
		s = &sourceTally{SourceCount: action.SourceCount{Source: r.Source, SourceName: r.SourceName}}
		t.sources[r.Source] = s
	}
	s.Calls++
	if r.DurationMS != nil {
		s.durations = append(s.durations, *r.DurationMS)
	}
	if r.Status == string(action.StatusFailed) {
		s.Failed++
		if failed := r.CompletedAt.Time; s.LastFailedAt == nil || s.LastFailedAt.Before(failed) {
			s.LastFailedAt = &failed
		}
	}
}

// fill writes the counts into s.
func (t *tally) fill(s *action.Statistics) {
	firstBucket := 0
	if s.Calls.Capped {
		firstBucket = int(s.Calls.Since.Sub(t.period.From) / t.period.Width)
	}
	s.Buckets = t.buckets[firstBucket:]
	s.Actions = make([]action.ActionCount, 0, len(t.actions))
	for _, a := range t.actions {
		s.Actions = append(s.Actions, *a)
	}
	slices.SortFunc(s.Actions, func(a, b action.ActionCount) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Source, b.Source), cmp.Compare(a.Action, b.Action))
	})
	s.Sources = make([]action.SourceCount, 0, len(t.sources))
	for _, source := range t.sources {
		slices.Sort(source.durations)
		source.Ran, source.P50MS, source.P95MS = len(source.durations), percentile(source.durations, 50), percentile(source.durations, 95)
		s.Sources = append(s.Sources, source.SourceCount)
	}
	slices.SortFunc(s.Sources, func(a, b action.SourceCount) int { return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Source, b.Source)) })
	s.Actions, s.OtherActions = Top(s.Actions, maxActionCounts)
	s.Sources, s.OtherSources = Top(s.Sources, maxSourceCounts)
}

// Top returns the first n of a list and the number of the others.
func Top[T any](list []T, n int) (first []T, others int) {
	n = min(n, len(list))
	return list[:n], len(list) - n
}

// percentile returns the smallest of the sorted values that at least p percent
// do not exceed; nil if there are none.
func percentile(sorted []int64, p int) *int64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[(len(sorted)*p+99)/100-1]
}

// WaitBins returns the upper bounds of the histogram of approval times. 5
// minutes and 24 hours are the usual expiry times of calls.
func WaitBins() []time.Duration {
	return []time.Duration{
		5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

// holdTally counts held calls.
type holdTally struct {
	holds action.Holds
	waits []int64 // milliseconds until a person decided
}

func (t *holdTally) add(r *InvocationRow) {
	h := &t.holds
	switch {
	case !r.ApprovedAt.Time.IsZero():
		h.Approved++
		t.addWait(r, r.ApprovedAt)
	case r.DeniedReason == action.DeniedHuman:
		h.Denied++
		t.addWait(r, r.CompletedAt)
	case r.DeniedReason == action.DeniedWithdrawn:
		h.Withdrawn++
	case r.DeniedReason != "":
		h.Refused++
	case r.Status == string(action.StatusExpired):
		h.Expired++
	default:
		h.Waiting++
	}
}

func (t *holdTally) addWait(r *InvocationRow, until database.Timestamp) {
	t.waits = append(t.waits, max(0, until.Time.Sub(r.CreatedAt.Time).Milliseconds()))
}

// fill writes the counts into h.
func (t *holdTally) fill(h *action.Holds) {
	t.holds.Extent = h.Extent
	*h = t.holds
	slices.Sort(t.waits)
	h.P50MS, h.P90MS = percentile(t.waits, 50), percentile(t.waits, 90)
	rest := t.waits
	for _, upTo := range WaitBins() {
		n, _ := slices.BinarySearch(rest, upTo.Milliseconds()+1)
		h.Bins = append(h.Bins, action.Bin{UpToMS: upTo.Milliseconds(), Calls: n})
		rest = rest[n:]
	}
	h.Bins = append(h.Bins, action.Bin{Calls: len(rest)})
}

// denialTally counts denied calls by reason, and policy denials also by layer.
type denialTally map[action.DenialCount]int

func (t denialTally) add(r *InvocationRow) {
	reason := action.DenialCount{Reason: string(r.DeniedReason)}
	if reason.Reason == action.DeniedPolicy {
		reason.Layer = action.Layer(r.ModeSource)
	}
	t[reason]++
}

func (t denialTally) list() []action.DenialCount {
	list := make([]action.DenialCount, 0, len(t))
	for reason, n := range t {
		reason.Calls = n
		list = append(list, reason)
	}
	slices.SortFunc(list, func(a, b action.DenialCount) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Layer, b.Layer))
	})
	return list
}

// queues counts pending and running work, each up to [MaxQueueCount].
func (st *Store) queues(ctx context.Context, organization string) (q action.Queues, err error) {
	for _, part := range []struct {
		rows *bun.SelectQuery
		into *action.Depth
	}{
		{RowsWithStatus(st.db.Read, "open_calls", organization, "pending"), &q.Pending},
		{RowsWithStatus(st.db.Read, "open_calls", organization, "approved"), &q.Approved},
		{RowsWithStatus(st.db.Read, "open_calls", organization, "executing"), &q.Executing},
		{RowsWithStatus(st.db.Read, "runs", organization, "queued"), &q.Runs},
		{RowsWithStatus(st.db.Read, "outbox", organization, "pending"), &q.Outbox},
	} {
		if part.into.Count, err = countUpToMax(ctx, st.db.Read, part.rows); err != nil {
			return q, err
		}
		part.into.Capped = part.into.Count == MaxQueueCount
	}
	// An organization's deliveries are counted among the first queued ones of all, because
	// an index by organization would slow down every delivery.
	var all int
	if err = OldestDeliveries(st.db.Read, organization).Scan(ctx, &q.Deliveries.Count, &all); err != nil {
		return q, fmt.Errorf("counting waiting deliveries: %w", err)
	}
	q.Deliveries.Capped = all == MaxQueueCount
	return q, nil
}

// RowsWithStatus selects an organization's rows with a status that is indexed.
func RowsWithStatus(db bun.IDB, table, organization, status string) *bun.SelectQuery {
	return db.NewSelect().Table(table).ColumnExpr("1").Where("organization_id = ?", organization).Where("status = ?", status)
}

// OldestDeliveries counts the organization's among the first [MaxQueueCount] queued deliveries
// of all organizations.
func OldestDeliveries(db bun.IDB, organization string) *bun.SelectQuery {
	first := db.NewSelect().Table("inbox").Column("organization_id").Where("status = 'queued'").OrderExpr("next_at, id").Limit(MaxQueueCount)
	return db.NewSelect().TableExpr("(?) AS waiting", first).
		ColumnExpr("coalesce(sum(CASE WHEN organization_id = ? THEN 1 ELSE 0 END), 0)", organization).ColumnExpr("count(*)")
}

// MaxQueueCount bounds the counts of queued work.
const MaxQueueCount = 10_000

// DeliveriesWaiting returns the number of queued deliveries of all organizations, counted
// up to 10,000.
func (st *Store) DeliveriesWaiting(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("inbox").ColumnExpr("1").Where("status = 'queued'"))
}

// RunsUndelivered returns the number of runs of all organizations that wait for delivery to
// their endpoint or for a worker, counted up to 10,000.
func (st *Store) RunsUndelivered(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("outbox").ColumnExpr("1").Where("status = 'pending'"))
}

// CallsPending returns the number of pending approvals of all organizations, counted up to
// 10,000.
func (st *Store) CallsPending(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("open_calls").ColumnExpr("1").Where("status = 'pending'"))
}

// ToolsUnreviewed returns the number of tools of all organizations that were never reviewed
// or changed since their review, counted up to 10,000.
func (st *Store) ToolsUnreviewed(ctx context.Context) (int, error) {
	return countUpToMax(ctx, st.db.Read, st.db.Read.NewSelect().Table("tool_reviews").ColumnExpr("1").
		Where("current_behaviour IS NOT NULL").Where("reviewed_behaviour IS NULL OR reviewed_behaviour <> current_behaviour"))
}

// InboxLag returns how long the oldest due delivery has been due, or zero.
func (st *Store) InboxLag(ctx context.Context) (time.Duration, error) {
	return st.lag(ctx, st.db.Read.NewSelect().Table("inbox").Column("next_at").Where("status = 'queued'").Order("next_at"), 1)
}

// OutboxLag returns how long the oldest due run has been due, among 10,000 of them, or zero.
func (st *Store) OutboxLag(ctx context.Context) (time.Duration, error) {
	return st.lag(ctx, st.db.Read.NewSelect().Table("outbox").Column("next_at").Where("status = 'pending'"), MaxQueueCount)
}

func (st *Store) lag(ctx context.Context, due *bun.SelectQuery, limit int) (time.Duration, error) {
	var first database.Timestamp
	err := st.db.Read.NewSelect().TableExpr("(?) AS due", due.Limit(int64(limit))).ColumnExpr("min(next_at)").Scan(ctx, &first)
	if err != nil {
		return 0, fmt.Errorf("reading due rows: %w", err)
	}
	if first.Ptr() == nil {
		return 0, nil
	}
	return max(0, st.db.Now().Sub(first.Time)), nil
}

func countUpToMax(ctx context.Context, db bun.IDB, rows *bun.SelectQuery) (n int, err error) {
	err = db.NewSelect().TableExpr("(?) AS waiting", rows.Limit(MaxQueueCount)).ColumnExpr("count(*)").Scan(ctx, &n)
	if err != nil {
		return 0, fmt.Errorf("counting waiting rows: %w", err)
	}
	return n, nil
}
