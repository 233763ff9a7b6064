package calls

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

const (
	// MaxScanned bounds the calls that one search scans: a compromise between the wait for
	// a page and the number of pages.
	MaxScanned = 10_000

	// maxMergedLists bounds the sorted lists that one statement merges.
	maxMergedLists = 100
)

// TimeRange is a range of the sort order, between two cursors. The zero cursor is no
// bound.
type TimeRange struct{ After, Before database.Cursor }

// TimeRange returns the filter's range, [From, To). The cursors have no ID and so sort
// before every row of the same time.
func (f *InvocationFilter) TimeRange() TimeRange {
	return TimeRange{database.Cursor{Time: database.NewTimestamp(f.From)}, database.Cursor{Time: database.NewTimestamp(f.To)}}
}

// Until returns the part of the range before a cursor.
func (s TimeRange) Until(cursor database.Cursor) TimeRange {
	if cursor.ID != "" && (s.Before.Time.Time.IsZero() || !s.Before.Time.Time.Before(cursor.Time.Time)) {
		s.Before = cursor
	}
	return s
}

// condition is a part of a filter: a name, and what it says in SQL.
type condition struct {
	name, where string
	args        []any
}

// sortedIndex is what an index has in the order of time: the invocations with
// certain values in the columns before the time.
type sortedIndex struct {
	table     string
	condition string // which wish it fulfils; empty: none
	columns   []string
	values    []any
	partial   string // what all in the index have; empty: the index has all
}

// Match restricts q to what the index has in a span. The columns are part of
// the places and of the order, and not compared by themselves: what PostgreSQL
// believes of a value's share would lead it to sort all that has it.
func (o sortedIndex) Match(q *bun.SelectQuery, organization string, within TimeRange) *bun.SelectQuery {
	if q.GetModel() == nil {
		q = q.Table(o.table)
	}
	q = q.Where("organization_id = ?", organization)
	if o.partial != "" {
		q = q.Where(o.partial)
	}
	names := bun.Safe(strings.Join(o.names(), ", "))
	bounded := len(o.columns) > 0
	if bounded || !within.After.Time.Time.IsZero() {
		q = q.Where("(?) > (?)", names, bun.List(append(slices.Clone(o.values), within.After.Time.Or(database.Epoch), within.After.ID)))
	}
	if bounded || !within.Before.Time.Time.IsZero() {
		q = q.Where("(?) < (?)", names, bun.List(append(slices.Clone(o.values), within.Before.Time.Or(maxTime), within.Before.ID)))
	}
	return q
}

// order has q in the order of the index.
func (o sortedIndex) order(q *bun.SelectQuery, oldest bool) *bun.SelectQuery {
	if oldest {
		return q.OrderExpr(strings.Join(o.names(), ", "))
	}
	return q.OrderExpr(strings.Join(o.names(), " DESC, ") + " DESC")
}

// names are the columns of a place.
func (o sortedIndex) names() []string { return append(slices.Clone(o.columns), "created_at", "id") }

// Search is a filter with the index lists that it scans.
type Search struct {
	F           *InvocationFilter
	Lists       []sortedIndex // none: nothing fulfils the filter
	conditions  []condition
	exact       bool // the lists have what fulfils the filter, and nothing else
	OldestFirst bool // first
}

// maxTime is after every time in a row.
var maxTime = database.Timestamp{Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}

// Search chooses the index lists that are probably the shortest.
func (f *InvocationFilter) Search() *Search {
	s := &Search{F: f, conditions: f.conditions()}
	by := func(of, column string, value any, partial string) {
		s.Lists = append(s.Lists, sortedIndex{"invocations", of, []string{column}, []any{value}, partial})
	}
	from := func(kind, name string) {
		s.Lists = []sortedIndex{{"invocation_origins", kind, []string{"kind", "name"}, []any{kind, name}, ""}}
	}
	switch {
	case f.Session != "":
		by("session", "session_id", f.Session, "")
	case f.Run != "" && len(f.Sessions) <= maxMergedLists:
		for _, id := range f.Sessions {
			by("run", "session_id", id, "")
		}
	case len(f.Statuses) > 0 && (f.onlyOpen() || f.unselective()):
		for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
			by("status", "status", status, "") // together they are in no order
		}
	case f.Person != "":
		by("person", "approved_by", f.Person, "approved_by IS NOT NULL")
	case f.Automation != "":
		from("automation", f.Automation)
	case f.Group != "":
		from("group", f.Group)
	case f.Risk == action.RiskDanger:
		s.Lists = []sortedIndex{{table: "invocations", condition: "risk", partial: "risk = 'danger'"}}
	case f.Mode != "" && f.Mode != action.ModeAllow:
		by("mode", "mode", f.Mode, "mode <> 'allow'")
	default:
		s.Lists = []sortedIndex{{table: "invocations"}}
	}
	s.exact = len(s.Lists) == 0 || !slices.ContainsFunc(s.conditions, func(w condition) bool { return w.name != s.Lists[0].condition })
	return s
}

// onlyOpen reports whether only what waits or runs is wanted: there is never
// much of it.
func (f *InvocationFilter) onlyOpen() bool {
	return len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, action.Status.Terminal)
}

// unselective reports whether nothing that few calls have is wanted.
func (f *InvocationFilter) unselective() bool {
	return f.Person == "" && f.Automation == "" && f.Group == "" && f.Risk != action.RiskDanger && (f.Mode == "" || f.Mode == action.ModeAllow)
}

// conditions are all parts of the filter but its time, as expressions that no index
// has: rows are taken by their ids.
func (f *InvocationFilter) conditions() (all []condition) {
	add := func(name, where string, used bool, args ...any) {
		if used {
			all = append(all, condition{name, where, args})
		}
	}
	const session = "(SELECT s.? FROM sessions AS s WHERE s.id = session_id) = ?"
	add("session", "session_id || '' = ?", f.Session != "", f.Session)
	add("run", "session_id || '' IN (?)", f.Run != "", bun.List(f.Sessions))
	add("automation", session, f.Automation != "", bun.Ident("automation_id"), f.Automation)
	add("group", session, f.Group != "", bun.Ident("group_id"), f.Group)
	add("person", "coalesce(approved_by, '') = ?", f.Person != "", f.Person)
	add("status", "status || '' IN (?)", len(f.Statuses) > 0, bun.List(f.Statuses))
	add("source", "source_id || '' = ?", f.Source != "", f.Source)
	add("action", "action || '' = ?", f.Action != "", f.Action)
	add("risk", "risk || '' = ?", f.Risk != "", f.Risk)
	add("mode", "mode || '' = ?", f.Mode != "", f.Mode)
	return all
}

// usesOneIndex reports whether one index of the rows themselves has all in order.
func (s *Search) usesOneIndex() bool {
	return s.exact && len(s.Lists) == 1 && s.Lists[0].table == "invocations"
}

// SelectCursors selects the next n positions of the merged lists.
func (s *Search) SelectCursors(db bun.IDB, interval TimeRange, n int) *bun.SelectQuery {
	of := func(o sortedIndex) *bun.SelectQuery {
		return o.order(o.Match(db.NewSelect(), s.F.Organization, interval), s.OldestFirst).Column("created_at", "id").Limit(int64(n))
	}
	if len(s.Lists) == 1 {
		return of(s.Lists[0])
	}
	var merged *bun.SelectQuery
	for _, o := range s.Lists {
		part := db.NewSelect().TableExpr("(?) AS part", of(o)).Column("created_at", "id")
		if merged == nil {
			merged = part
		} else {
			merged = merged.UnionAll(part)
		}
	}
	order := "created_at DESC, id DESC"
	if s.OldestFirst {
		order = "created_at, id"
	}
	return db.NewSelect().TableExpr("(?) AS place", merged).Column("created_at", "id").OrderExpr(order).Limit(int64(n))
}

// SelectMatching selects those of the rows at the cursors that match the filter. The
// organization is an expression so that the planner uses the primary key.
func (s *Search) SelectMatching(q *bun.SelectQuery, cursors []database.Cursor) *bun.SelectQuery {
	ids := make([]string, len(cursors))
	for i, cursor := range cursors {
		ids[i] = cursor.ID
	}
	q = q.Where(database.WhereIDs, bun.List(ids), s.F.Organization)
	for _, w := range s.conditions {
		q = q.Where(w.where, w.args...)
	}
	return q
}

// searchResult is what a search saw.
type searchResult struct {
	found []database.Cursor // that fulfil the filter, in the order of the search
	last  database.Cursor   // that was looked at
	all   bool              // there is nothing behind it
}

// scan looks for want places in a span, and at no more than a search may. It
// takes larger and larger steps.
func (st *Store) scan(ctx context.Context, s *Search, interval TimeRange, want int) (result searchResult, err error) {
	for scanned, n := 0, database.MaxIDsPerStatement; len(result.found) < want && scanned < st.ScanLimit && !result.all; n = min(2*n, 4*database.MaxIDsPerStatement) {
		n = min(n, st.ScanLimit-scanned)
		places, err := st.NextCursors(ctx, s, &interval, n)
		if err != nil {
			return result, err
		}
		scanned += len(places)
		if result.all = len(places) < n; len(places) > 0 {
			result.last = places[len(places)-1]
		}
		found, err := st.FilterMatching(ctx, s, places)
		if err != nil {
			return result, err
		}
		result.found = append(result.found, found...)
	}
	return result, nil
}

// NextCursors reads the next n positions and shortens the interval accordingly.
func (st *Store) NextCursors(ctx context.Context, s *Search, interval *TimeRange, n int) (cursors []database.Cursor, err error) {
	if len(s.Lists) == 0 {
		return nil, nil
	}
	err = st.db.ForEachRow(ctx, s.SelectCursors(st.db.Read, *interval, n), func(rows *sql.Rows) error {
		var cursor database.Cursor
		err := rows.Scan(&cursor.Time, &cursor.ID)
		cursors = append(cursors, cursor)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil && s.OldestFirst {
		interval.After = cursors[len(cursors)-1]
	} else if err == nil {
		interval.Before = cursors[len(cursors)-1]
	}
	return cursors, err
}

// FilterMatching returns those of the cursors whose rows match the filter.
func (st *Store) FilterMatching(ctx context.Context, s *Search, cursors []database.Cursor) ([]database.Cursor, error) {
	if s.exact || len(cursors) == 0 {
		return cursors, nil
	}
	found := map[string]bool{}
	err := st.db.ForEachRow(ctx, s.SelectMatching(st.db.Read.NewSelect().Table("invocations").Column("id"), cursors), func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		found[id] = true
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return slices.DeleteFunc(cursors, func(cursor database.Cursor) bool { return !found[cursor.ID] }), nil
}
