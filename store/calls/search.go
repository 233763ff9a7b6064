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
	// MaxLookBack is how many calls one search looks at. More would make people
	// wait, and less make them ask too often.
	MaxLookBack = 10_000

	// maxLists bounds the lists that one statement merges.
	maxLists = 100
)

// Span is a time in the order of lists: what is behind one place and before
// another. The zero place is no bound.
type Span struct{ After, Before database.Cursor }

// Span is the time that the filter wants. No id is empty, so that what was
// made at From is behind the place, and what was made at To not before it.
func (f *InvocationFilter) Span() Span {
	return Span{database.Cursor{At: database.At(f.From)}, database.Cursor{At: database.At(f.To)}}
}

// UpTo is the part of the span before a place.
func (s Span) UpTo(place database.Cursor) Span {
	if place.ID != "" && (s.Before.At.T.IsZero() || !s.Before.At.T.Before(place.At.T)) {
		s.Before = place
	}
	return s
}

// wish is a part of a filter: a name, and what it says in SQL.
type wish struct {
	name, where string
	args        []any
}

// orderly is what an index has in the order of time: the invocations with
// certain values in the columns before the time.
type orderly struct {
	table   string
	of      string // which wish it fulfils; empty: none
	columns []string
	values  []any
	partial string // what all in the index have; empty: the index has all
}

// Match restricts q to what the index has in a span. The columns are part of
// the places and of the order, and not compared by themselves: what PostgreSQL
// believes of a value's share would lead it to sort all that has it.
func (o orderly) Match(q *bun.SelectQuery, organization string, within Span) *bun.SelectQuery {
	if q.GetModel() == nil {
		q = q.Table(o.table)
	}
	q = q.Where("organization_id = ?", organization)
	if o.partial != "" {
		q = q.Where(o.partial)
	}
	names := bun.Safe(strings.Join(o.names(), ", "))
	bounded := len(o.columns) > 0
	if bounded || !within.After.At.T.IsZero() {
		q = q.Where("(?) > (?)", names, bun.List(append(slices.Clone(o.values), within.After.At.Or(database.Epoch), within.After.ID)))
	}
	if bounded || !within.Before.At.T.IsZero() {
		q = q.Where("(?) < (?)", names, bun.List(append(slices.Clone(o.values), within.Before.At.Or(doomsday), within.Before.ID)))
	}
	return q
}

// order has q in the order of the index.
func (o orderly) order(q *bun.SelectQuery, oldest bool) *bun.SelectQuery {
	if oldest {
		return q.OrderExpr(strings.Join(o.names(), ", "))
	}
	return q.OrderExpr(strings.Join(o.names(), " DESC, ") + " DESC")
}

// names are the columns of a place.
func (o orderly) names() []string { return append(slices.Clone(o.columns), "created_at", "id") }

// Search is a filter and the lists where it is looked for.
type Search struct {
	F      *InvocationFilter
	Lists  []orderly // none: nothing fulfils the filter
	wishes []wish
	exact  bool // the lists have what fulfils the filter, and nothing else
	Oldest bool // first
}

// doomsday is after every time in a row.
var doomsday = database.Stamp{T: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}

// Search chooses the lists that promise to be the shortest.
func (f *InvocationFilter) Search() *Search {
	s := &Search{F: f, wishes: f.wishes()}
	by := func(of, column string, value any, partial string) {
		s.Lists = append(s.Lists, orderly{"invocations", of, []string{column}, []any{value}, partial})
	}
	from := func(kind, name string) {
		s.Lists = []orderly{{"invocation_origins", kind, []string{"kind", "name"}, []any{kind, name}, ""}}
	}
	switch {
	case f.Session != "":
		by("session", "session_id", f.Session, "")
	case f.Run != "" && len(f.Sessions) <= maxLists:
		for _, id := range f.Sessions {
			by("run", "session_id", id, "")
		}
	case len(f.Statuses) > 0 && (f.onlyOpen() || f.common()):
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
		s.Lists = []orderly{{table: "invocations", of: "risk", partial: "risk = 'danger'"}}
	case f.Mode != "" && f.Mode != action.ModeAllow:
		by("mode", "mode", f.Mode, "mode <> 'allow'")
	default:
		s.Lists = []orderly{{table: "invocations"}}
	}
	s.exact = len(s.Lists) == 0 || !slices.ContainsFunc(s.wishes, func(w wish) bool { return w.name != s.Lists[0].of })
	return s
}

// onlyOpen reports whether only what waits or runs is wanted: there is never
// much of it.
func (f *InvocationFilter) onlyOpen() bool {
	return len(f.Statuses) > 0 && !slices.ContainsFunc(f.Statuses, action.Status.Terminal)
}

// common reports whether nothing that few calls have is wanted.
func (f *InvocationFilter) common() bool {
	return f.Person == "" && f.Automation == "" && f.Group == "" && f.Risk != action.RiskDanger && (f.Mode == "" || f.Mode == action.ModeAllow)
}

// wishes are all parts of the filter but its time, as expressions that no index
// has: rows are taken by their ids.
func (f *InvocationFilter) wishes() (all []wish) {
	add := func(name, where string, wanted bool, args ...any) {
		if wanted {
			all = append(all, wish{name, where, args})
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

// direct reports whether one index of the rows themselves has all in order.
func (s *Search) direct() bool {
	return s.exact && len(s.Lists) == 1 && s.Lists[0].table == "invocations"
}

// Places selects the next n places of the lists.
func (s *Search) Places(db bun.IDB, within Span, n int) *bun.SelectQuery {
	of := func(o orderly) *bun.SelectQuery {
		return o.order(o.Match(db.NewSelect(), s.F.Organization, within), s.Oldest).Column("created_at", "id").Limit(int64(n))
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
	if s.Oldest {
		order = "created_at, id"
	}
	return db.NewSelect().TableExpr("(?) AS place", merged).Column("created_at", "id").OrderExpr(order).Limit(int64(n))
}

// Among selects the rows at the places that fulfil the filter. The organization
// is an expression, so that they are taken by their ids and in no other way.
func (s *Search) Among(q *bun.SelectQuery, places []database.Cursor) *bun.SelectQuery {
	ids := make([]string, len(places))
	for i, place := range places {
		ids[i] = place.ID
	}
	q = q.Where(database.WithIDs, bun.List(ids), s.F.Organization)
	for _, w := range s.wishes {
		q = q.Where(w.where, w.args...)
	}
	return q
}

// sight is what a search saw.
type sight struct {
	found []database.Cursor // that fulfil the filter, in the order of the search
	last  database.Cursor   // that was looked at
	all   bool              // there is nothing behind it
}

// look looks for want places in a span, and at no more than a search may. It
// takes larger and larger steps.
func (st *Store) look(ctx context.Context, s *Search, within Span, want int) (seen sight, err error) {
	for looked, n := 0, database.Chunk; len(seen.found) < want && looked < st.LookBack && !seen.all; n = min(2*n, 4*database.Chunk) {
		n = min(n, st.LookBack-looked)
		places, err := st.Step(ctx, s, &within, n)
		if err != nil {
			return seen, err
		}
		looked += len(places)
		if seen.all = len(places) < n; len(places) > 0 {
			seen.last = places[len(places)-1]
		}
		found, err := st.Fulfilling(ctx, s, places)
		if err != nil {
			return seen, err
		}
		seen.found = append(seen.found, found...)
	}
	return seen, nil
}

// Step reads the next n places, and leaves what is behind them of the span.
func (st *Store) Step(ctx context.Context, s *Search, within *Span, n int) (places []database.Cursor, err error) {
	if len(s.Lists) == 0 {
		return nil, nil
	}
	err = st.db.Each(ctx, s.Places(st.db.Read, *within, n), func(rows *sql.Rows) error {
		var place database.Cursor
		err := rows.Scan(&place.At, &place.ID)
		places = append(places, place)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil && s.Oldest {
		within.After = places[len(places)-1]
	} else if err == nil {
		within.Before = places[len(places)-1]
	}
	return places, err
}

// Fulfilling are those of the places that fulfil the filter.
func (st *Store) Fulfilling(ctx context.Context, s *Search, places []database.Cursor) ([]database.Cursor, error) {
	if s.exact || len(places) == 0 {
		return places, nil
	}
	found := map[string]bool{}
	err := st.db.Each(ctx, s.Among(st.db.Read.NewSelect().Table("invocations").Column("id"), places), func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		found[id] = true
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return slices.DeleteFunc(places, func(place database.Cursor) bool { return !found[place.ID] }), nil
}
