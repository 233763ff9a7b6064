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

// Counts is how many calls statistics look at, the newest ones first. Each row
// must be read: an index that had all of this would cost every call something.
type Counts struct {
	All     int
	Special int // of those that were held, and of those that were denied
	AtOnce  int // in one statement, which has a connection for itself meanwhile
}

// Statistics counts the calls of an organization in a period. It reads short
// parts of rows one after the other, and nothing that grows with what the
// period has: of more calls than it looks at, only the newest ones are counted.
// A call that changes meanwhile is counted as it was or as it is, and once.
func (st *Store) Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error) {
	return st.CallStatistics(ctx, organization, p, Counts{All: 50_000, Special: 10_000, AtOnce: 1000})
}

// CallStatistics returns the statistics of calls with the given bounds on the rows counted.
func (st *Store) CallStatistics(ctx context.Context, organization string, p action.Period, most Counts) (action.Statistics, error) {
	calls, held, denied := newTally(p), &holdTally{}, denialTally{}
	s := action.Statistics{From: p.From, To: p.To, Width: int(p.Width.Seconds())}
	for _, part := range []struct {
		rows Counted
		into *action.Extent
	}{
		{Counted{"", most.All, most.AtOnce, calls.add}, &s.Calls},
		{Counted{HeldCalls, most.Special, most.AtOnce, held.add}, &s.Held.Extent},
		{Counted{DeniedCalls, most.Special, most.AtOnce, denied.add}, &s.Denied.Extent},
	} {
		var err error
		if *part.into, err = st.count(ctx, organization, p, part.rows); err != nil {
			return s, fmt.Errorf("counting calls: %w", err)
		}
	}
	calls.write(&s)
	held.write(&s.Held)
	s.Denied.Reasons = denied.list()
	var err error
	s.Queues, err = st.queues(ctx, organization)
	return s, err
}

// These name what is in an index, word by word.
const (
	HeldCalls   = "mode = 'require_approval' AND mode <> 'allow'"
	DeniedCalls = "status = 'denied'"
)

// Counted is some of a period's calls, and what counts each: all of them, or
// those of a where that an index has in the order of time.
type Counted struct {
	Where  string
	limit  int
	atOnce int
	add    func(*InvocationRow)
}

// countedColumns are what is counted. They stand before the wide ones in the
// table, which SQLite therefore does not read.
const countedColumns = `created_at, id, status, mode, mode_source, risk, source_id, source_name, action,
  denied_reason, approved_at, completed_at, duration_ms`

func (r *InvocationRow) countedFields() []any {
	return []any{
		&r.CreatedAt, &r.ID, &r.Status, &r.Mode, &r.ModeSource, &r.Risk, &r.Source, &r.SourceName, &r.Action,
		&r.DeniedReason, &r.ApprovedAt, &r.CompletedAt, &r.DurationMS,
	}
}

// count reads calls, newest first, until there are no more or enough.
func (st *Store) count(ctx context.Context, organization string, p action.Period, c Counted) (action.Extent, error) {
	e := action.Extent{Since: p.From}
	row := &InvocationRow{} // each in its turn
	fields := row.countedFields()
	for before := (database.Cursor{Time: database.NewTimestamp(p.To)}); ; {
		n, last := 0, before
		want := min(c.atOnce, c.limit+1-e.Count) // one more tells whether there are more
		err := st.db.ForEachRow(ctx, c.Find(st.db.Read, organization, p, before, want), func(rows *sql.Rows) error {
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

// Find selects the next calls before a place. What was made at From is behind
// the lower place, as no id is empty.
func (c Counted) Find(db bun.IDB, organization string, p action.Period, before database.Cursor, n int) *bun.SelectQuery {
	q := db.NewSelect().Table("invocations").ColumnExpr(countedColumns).Where("organization_id = ?", organization)
	if c.Where != "" {
		q = q.Where(c.Where)
	}
	return q.Where("(created_at, id) > (?, '')", database.NewTimestamp(p.From)).Where("(created_at, id) < (?, ?)", before.Time, before.ID).
		OrderExpr("created_at DESC, id DESC").Limit(int64(n))
}

// How many of each are listed.
const (
	maxActionCounts = 20
	maxSourceCounts = 50
)

// tally counts calls by time, action and source. Calls come newest first.
type tally struct {
	period  action.Period
	buckets []action.Bucket
	actions map[action.Key]*action.ActionCount
	sources map[string]*sourceTally
}

type sourceTally struct {
	action.SourceCount
	took []int64
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
		s.took = append(s.took, *r.DurationMS)
	}
	if r.Status == string(action.StatusFailed) {
		s.Failed++
		if failed := r.CompletedAt.Time; s.LastFailedAt == nil || s.LastFailedAt.Before(failed) {
			s.LastFailedAt = &failed
		}
	}
}

// write lists what was counted.
func (t *tally) write(s *action.Statistics) {
	first := 0
	if s.Calls.Capped {
		first = int(s.Calls.Since.Sub(t.period.From) / t.period.Width)
	}
	s.Buckets = t.buckets[first:]
	s.Actions = make([]action.ActionCount, 0, len(t.actions))
	for _, a := range t.actions {
		s.Actions = append(s.Actions, *a)
	}
	slices.SortFunc(s.Actions, func(a, b action.ActionCount) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Source, b.Source), cmp.Compare(a.Action, b.Action))
	})
	s.Sources = make([]action.SourceCount, 0, len(t.sources))
	for _, source := range t.sources {
		slices.Sort(source.took)
		source.Ran, source.P50MS, source.P95MS = len(source.took), percentile(source.took, 50), percentile(source.took, 95)
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

// percentile is the smallest of sorted values that p of a hundred do not
// exceed; nil of none.
func percentile(sorted []int64, p int) *int64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[(len(sorted)*p+99)/100-1]
}

// WaitBins are how long people let calls wait: 5 minutes and 24 hours are when
// calls expire.
func WaitBins() []time.Duration {
	return []time.Duration{
		5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

// holdTally counts held calls.
type holdTally struct {
	holds  action.Holds
	waited []int64 // milliseconds, of those that a person decided
}

func (t *holdTally) add(r *InvocationRow) {
	h := &t.holds
	switch {
	case !r.ApprovedAt.Time.IsZero():
		h.Approved++
		t.wait(r, r.ApprovedAt)
	case r.DeniedReason == action.DeniedHuman:
		h.Denied++
		t.wait(r, r.CompletedAt)
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

func (t *holdTally) wait(r *InvocationRow, until database.Timestamp) {
	t.waited = append(t.waited, max(0, until.Time.Sub(r.CreatedAt.Time).Milliseconds()))
}

// write completes what is said of held calls.
func (t *holdTally) write(h *action.Holds) {
	t.holds.Extent = h.Extent
	*h = t.holds
	slices.Sort(t.waited)
	h.P50MS, h.P90MS = percentile(t.waited, 50), percentile(t.waited, 90)
	rest := t.waited
	for _, upTo := range WaitBins() {
		n, _ := slices.BinarySearch(rest, upTo.Milliseconds()+1)
		h.Bins = append(h.Bins, action.Bin{UpToMS: upTo.Milliseconds(), Calls: n})
		rest = rest[n:]
	}
	h.Bins = append(h.Bins, action.Bin{Calls: len(rest)})
}

// denialTally counts denied calls by reason, and those that policy denied by
// the part of it.
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
