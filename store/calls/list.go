package calls

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// ListInvocations returns a page of invocations, newest first. Reads that are still queued
// may be missing for a moment.
//
// If no index lists the matches in order, a bounded number of calls is scanned. Such a page
// may be short or empty and reports how far back it searched. Its total covers the same
// number of the newest calls.
func (st *Store) ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error) {
	var page action.Page[action.Invocation]
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	s, err := st.Search(ctx, f)
	if err != nil {
		return page, err
	}
	if s.listsExactly() {
		return st.listDirect(ctx, s, after)
	}
	return st.listScanned(ctx, s, after)
}

// InvocationFilter is a filter together with the sessions of its run.
type InvocationFilter struct {
	action.InvocationFilter
	Sessions []string
}

// Search checks a filter and looks up the sessions of its run.
func (st *Store) Search(ctx context.Context, filter action.InvocationFilter) (*Search, error) {
	f := &InvocationFilter{InvocationFilter: filter}
	for _, s := range f.Statuses {
		if !s.Valid() {
			return nil, database.Invalid("/status", fmt.Sprintf("There is no status %q. Use pending, approved, executing, completed, failed, denied or expired.", s))
		}
	}
	switch f.Risk {
	case "", action.RiskRead, action.RiskWrite, action.RiskDanger:
	default:
		return nil, database.Invalid("/risk", fmt.Sprintf("There is no risk %q. Use read, write or danger.", f.Risk))
	}
	switch f.Mode {
	case "", action.ModeAllow, action.ModeDeny, action.ModeRequireApproval:
	default:
		return nil, database.Invalid("/mode", fmt.Sprintf("There is no mode %q. Use allow, deny or require_approval.", f.Mode))
	}
	if f.Run != "" {
		sessions, err := st.sessions.SessionsOfRun(ctx, f.Organization, f.Run)
		if err != nil {
			return nil, err
		}
		f.Sessions = sessions
	}
	return f.Search(), nil
}

// listDirect returns a page of matches that one index of each table lists in order.
func (st *Store) listDirect(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	var rows []action.Invocation
	total, capped := 0, false
	// Open calls are listed first: a call that ends meanwhile is found twice and not missed.
	for _, list := range s.Lists {
		part, err := scanInvocations(ctx, list.SelectPage(st.db.Read, s.F.Organization, s.F.TimeRange().Until(after), limit+1))
		if err != nil {
			return page, fmt.Errorf("listing invocations: %w", err)
		}
		n, more, err := database.CountUpTo(ctx, list.Match(st.db.Read.NewSelect(), s.F.Organization, s.F.TimeRange()))
		if err != nil {
			return page, fmt.Errorf("counting invocations: %w", err)
		}
		rows, total, capped = append(rows, part...), total+n, capped || more
	}
	rows = newestFirst(rows)
	rows = rows[:min(len(rows), limit+1)]
	return database.NewPage(rows, limit, min(total, database.MaxCount), capped || total > database.MaxCount, func(i action.Invocation) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(i.CreatedAt), ID: i.ID}
	}), nil
}

// newestFirst merges lists of calls. Of a call that is in several, the last one counts,
// which is that of its end.
func newestFirst(rows []action.Invocation) []action.Invocation {
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b action.Invocation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return slices.CompactFunc(rows, func(a, b action.Invocation) bool { return a.ID == b.ID })
}

// listScanned returns a page of matches found by a scan.
func (st *Store) listScanned(ctx context.Context, s *Search, after database.Cursor) (page action.Page[action.Invocation], err error) {
	limit := database.PageSize(s.F.Limit)
	result, err := st.scan(ctx, s, s.F.TimeRange(), database.MaxCount+1)
	if err != nil {
		return page, fmt.Errorf("counting invocations: %w", err)
	}
	page.Total, page.Capped = min(len(result.found), database.MaxCount), len(result.found) > database.MaxCount || !result.all
	if after.ID != "" {
		if result, err = st.scan(ctx, s, s.F.TimeRange().Until(after), limit+1); err != nil {
			return page, fmt.Errorf("searching invocations: %w", err)
		}
	}
	switch {
	case len(result.found) > limit:
		result.found = result.found[:limit]
		page.Next = result.found[limit-1].String()
	case !result.all:
		page.Next, page.SearchedSince = result.last.String(), result.last.Time.Time
	}
	if page.Items, err = st.InvocationsAt(ctx, s, result.found); err != nil {
		return page, fmt.Errorf("listing invocations: %w", err)
	}
	return page, nil
}

// InvocationsAt returns the invocations that the cursors point to, in the same order.
func (st *Store) InvocationsAt(ctx context.Context, s *Search, cursors []database.Cursor) ([]action.Invocation, error) {
	if len(cursors) == 0 {
		return nil, nil
	}
	rows, err := st.list(ctx, s.SelectMatching(st.db.Read.NewSelect().Model((*InvocationRow)(nil)), cursors))
	if err != nil {
		return nil, err
	}
	known := make(map[string]action.Invocation, len(rows))
	for _, inv := range rows {
		known[inv.ID] = inv
	}
	list := make([]action.Invocation, 0, len(rows))
	for _, cursor := range cursors {
		if inv, ok := known[cursor.ID]; ok { // otherwise it has changed since
			list = append(list, inv)
		}
	}
	return list, nil
}

// SelectPage selects the newest n calls of the list within a range.
func (o sortedIndex) SelectPage(db bun.IDB, organization string, within TimeRange, n int) *bun.SelectQuery {
	columns := PublicColumnNames
	if o.table == openTable {
		columns = OpenPublicColumnNames
	}
	return o.order(o.Match(db.NewSelect(), organization, within), false).Column(columns...).Limit(int64(n))
}

// The tables of calls before and after their end.
const openTable, endedTable = "open_calls", "invocations"

// originsTable lists calls by the automation or group of their session.
const originsTable = "invocation_origins"

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

// condition is one part of a filter, with its SQL.
type condition struct {
	name, where string
	args        []any
}

// sortedIndex is the part of an index that lists, in order of time, the invocations with
// given values in the index's leading columns.
type sortedIndex struct {
	table     string
	condition string // name of the condition that it satisfies, if any
	columns   []string
	values    []any
	filter    string // the predicate of a partial index, or of what no index has
	args      []any  // of filter
}

// Match restricts q to the rows of the index within a range. The leading columns are
// compared together with the position and not separately, because PostgreSQL would
// otherwise sort all rows with a value that it believes to be rare.
func (o sortedIndex) Match(q *bun.SelectQuery, organization string, within TimeRange) *bun.SelectQuery {
	q = q.Table(o.table).Where("organization_id = ?", organization)
	if o.filter != "" {
		q = q.Where(o.filter, o.args...)
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

// order sorts q by the index.
func (o sortedIndex) order(q *bun.SelectQuery, oldest bool) *bun.SelectQuery {
	if oldest {
		return q.OrderExpr(strings.Join(o.names(), ", "))
	}
	return q.OrderExpr(strings.Join(o.names(), " DESC, ") + " DESC")
}

// names returns the columns of a position.
func (o sortedIndex) names() []string { return append(slices.Clone(o.columns), "created_at", "id") }

// Search is a filter with the index lists that it scans.
type Search struct {
	F           *InvocationFilter
	Lists       []sortedIndex // empty if nothing can match the filter
	conditions  []condition
	exact       bool // the lists contain only rows that match the filter
	OldestFirst bool
}

// maxTime is after every stored time.
var maxTime = database.Timestamp{Time: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}

// Search chooses the index lists that are probably the shortest.
func (f *InvocationFilter) Search() *Search {
	s := &Search{F: f, conditions: f.conditions()}
	both := func(list sortedIndex) {
		for _, list.table = range []string{openTable, endedTable} {
			s.Lists = append(s.Lists, list)
		}
	}
	// Open calls are few and have no index of their own for these.
	by := func(of, column string, value any, partial string) {
		s.Lists = []sortedIndex{
			{table: openTable, condition: of, filter: column + " = ?", args: []any{value}},
			{table: endedTable, condition: of, columns: []string{column}, values: []any{value}, filter: partial},
		}
	}
	inSession := func(of, id string) {
		both(sortedIndex{condition: of, columns: []string{"session_id"}, values: []any{id}})
	}
	from := func(kind, name string) {
		s.Lists = []sortedIndex{{table: originsTable, condition: kind, columns: []string{"kind", "name"}, values: []any{kind, name}}}
	}
	switch {
	case f.Session != "":
		inSession("session", f.Session)
	case f.Run != "" && len(f.Sessions) <= maxMergedLists:
		for _, id := range f.Sessions {
			inSession("run", id)
		}
	case len(f.Statuses) > 0 && (f.onlyOpen() || f.unselective()):
		for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
			table := openTable
			if status.Terminal() {
				table = endedTable
			}
			// One list per status, as several statuses have no common order.
			s.Lists = append(s.Lists, sortedIndex{table: table, condition: "status", columns: []string{"status"}, values: []any{status}})
		}
	case f.Person != "":
		by("person", "approved_by", f.Person, "approved_by IS NOT NULL")
	case f.Automation != "":
		from("automation", f.Automation)
	case f.Group != "":
		from("group", f.Group)
	case f.Risk == action.RiskDanger:
		both(sortedIndex{condition: "risk", filter: "risk = 'danger'"})
	case f.Mode != "" && f.Mode != action.ModeAllow:
		by("mode", "mode", f.Mode, "mode <> 'allow'")
	default:
		both(sortedIndex{})
	}
	s.Lists = slices.DeleteFunc(s.Lists, func(o sortedIndex) bool {
		return o.table == openTable && f.onlyEnded() || o.table == endedTable && f.onlyOpen()
	})
	s.exact = len(s.Lists) == 0 || !slices.ContainsFunc(s.conditions, func(w condition) bool { return w.name != s.Lists[0].condition })
	return s
}

// onlyOpen reports whether the filter selects only pending and running calls, which are
// always few.
func (f *InvocationFilter) onlyOpen() bool {
	return len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, action.Status.Terminal)
}

// onlyEnded reports whether the filter selects only calls that ended.
func (f *InvocationFilter) onlyEnded() bool {
	return len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, func(s action.Status) bool { return !s.Terminal() })
}

// unselective reports whether the filter has no condition that only few calls satisfy.
func (f *InvocationFilter) unselective() bool {
	return f.Person == "" && f.Automation == "" && f.Group == "" && f.Risk != action.RiskDanger && (f.Mode == "" || f.Mode == action.ModeAllow)
}

// conditions returns all parts of the filter except its time range, as expressions that
// no index covers, so that the planner uses the primary key.
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

// listsExactly reports whether one index of each table lists all matches in order. Of
// several statuses it does not, because a call that changes would be missed between two lists.
func (s *Search) listsExactly() bool {
	direct := len(s.Lists) == 1 && s.Lists[0].table != originsTable || len(s.Lists) == 2 && s.Lists[0].condition != "status"
	return s.exact && direct
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

// searchResult is the result of a scan.
type searchResult struct {
	found []database.Cursor // matches, in the order of the search
	last  database.Cursor   // last scanned position
	all   bool              // the end of the range was reached
}

// scan searches an interval for want matches, up to ScanLimit rows, in steps of increasing
// size.
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
	err := st.db.ForEachRow(ctx, s.SelectMatching(st.db.Read.NewSelect().Table("all_calls").Column("id"), cursors), func(rows *sql.Rows) error {
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
