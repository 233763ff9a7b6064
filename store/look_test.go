package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// sample is an invocation as a search sees it.
type sample struct {
	action.Invocation
	s action.Session
}

// is reports whether the filter wants it: what the database is asked in
// statements, said in Go.
func (c *sample) is(f *action.InvocationFilter) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return c.Organization == f.Organization && same(f.Session, c.Session) && same(f.Automation, c.s.Automation) && same(f.Group, c.s.Group) &&
		same(f.Person, c.ApprovedBy) && same(f.Source, c.Source) && same(f.Action, c.Action) &&
		same(string(f.Risk), string(c.Risk)) && same(string(f.Mode), string(c.Mode)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, c.Status)) &&
		!c.CreatedAt.Before(f.From) && (f.To.IsZero() || c.CreatedAt.Before(f.To))
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// samples writes calls of all kinds, three at each moment, and returns them
// newest first.
func samples(t *testing.T, db *DB, r *rand.Rand, n int) (list []*sample) {
	t.Helper()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var sessions []action.Session
	for _, organization := range []string{DefaultOrganization, DefaultOrganization, DefaultOrganization, DefaultOrganization, "other"} {
		if _, err := db.EnsureOrganization(t.Context(), organization, "O"); err != nil {
			t.Fatal(err)
		}
		s := action.Session{Organization: organization, CreatedBy: "me", CreatedAt: start, Group: []string{"", "g", "h", "g", "g"}[len(sessions)], Automation: []string{"", "", "a", "b", "a"}[len(sessions)]}
		s, err := db.CreateSession(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	for i := range n {
		s := pick(r, sessions...)
		c := &sample{action.Invocation{
			ID: fmt.Sprintf("i%04d", r.IntN(10)*1000+i), Organization: s.Organization, Session: s.ID, CreatedAt: start.Add(time.Duration(i/3) * time.Second),
			Source: pick(r, "linear", "slack"), Action: pick(r, "x", "y", "z"), Risk: pick(r, action.RiskRead, action.RiskWrite, action.RiskWrite, action.RiskDanger),
			Mode:   pick(r, action.ModeAllow, action.ModeAllow, action.ModeRequireApproval),
			Status: pick(r, action.StatusPending, action.StatusExecuting, action.StatusCompleted, action.StatusCompleted, action.StatusFailed, action.StatusDenied, action.StatusExpired),
		}, s}
		switch c.Status {
		case action.StatusPending:
			c.Mode = action.ModeRequireApproval
		case action.StatusDenied:
			c.Mode = pick(r, action.ModeDeny, action.ModeRequireApproval)
		}
		if c.Mode == action.ModeRequireApproval && c.Status != action.StatusPending {
			c.ApprovedBy = pick(r, "ann", "ben")
		}
		c.write(t, db)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *sample) int {
		if d := b.CreatedAt.Compare(a.CreatedAt); d != 0 {
			return d
		}
		return strings.Compare(b.ID, a.ID)
	})
	return list
}

func (c *sample) write(t *testing.T, db *DB) {
	t.Helper()
	row := map[string]any{
		"id": c.ID, "organization_id": c.Organization, "session_id": c.Session, "status": c.Status, "joins": 0, "unattended": 0,
		"created_at": database.NewTimestamp(c.CreatedAt), "waiter_seen_at": database.NewTimestamp(c.CreatedAt), "policy_version": 1, "source_id": c.Source, "source_name": c.Source,
		"action": c.Action, "params_hash": "", "tool_hash": "", "revision": "", "risk": c.Risk, "mode": c.Mode, "mode_source": "inferred",
		"approved_by": database.NullString(c.ApprovedBy), "decision": "[]", "params": "{}",
	}
	times := map[action.Status][]string{
		action.StatusPending: {"expires_at"}, action.StatusExecuting: {"lease_until", "started_at"}, action.StatusCompleted: {"started_at", "completed_at"},
		action.StatusFailed: {"completed_at"}, action.StatusDenied: {"completed_at"}, action.StatusExpired: {"completed_at"},
	}
	for _, column := range times[c.Status] {
		row[column] = database.NewTimestamp(c.CreatedAt)
	}
	switch c.Status {
	case action.StatusExecuting:
		row["executor"] = "e"
	case action.StatusFailed:
		row["error_code"] = "x"
	case action.StatusDenied:
		row["denied_reason"] = action.DeniedHuman
	}
	if _, err := db.db.Write.DB.NewInsert().Model(&row).Table(tableOf(c.Status)).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// tableOf is the table of the calls with a status.
func tableOf(status action.Status) string {
	if status.Terminal() {
		return "invocations"
	}
	return "open_calls"
}

// wanted is any filter: most ask for one to three things.
func wanted(r *rand.Rand, list []*sample) action.InvocationFilter {
	f := action.InvocationFilter{Organization: DefaultOrganization, Limit: 1 + r.IntN(40)}
	of := list[r.IntN(len(list))]
	for range 1 + r.IntN(3) {
		switch r.IntN(10) {
		case 0:
			f.Session = of.Session
		case 1:
			f.Automation = pick(r, "a", "b", "none")
		case 2:
			f.Group = pick(r, "g", "h")
		case 3:
			f.Person = pick(r, "ann", "ben", "eve")
		case 4:
			f.Statuses = append(f.Statuses, of.Status, pick(r, action.StatusPending, action.StatusExecuting, action.StatusDenied, action.StatusApproved))
		case 5:
			f.Source = of.Source
		case 6:
			f.Action = of.Action
		case 7:
			f.Risk = of.Risk
		case 8:
			f.Mode = of.Mode
		case 9:
			f.From, f.To = of.CreatedAt, of.CreatedAt.Add(time.Duration(r.IntN(90))*time.Second)
			if r.IntN(2) == 0 {
				f.From = time.Time{}
			}
		}
	}
	return f
}

// Whatever is asked for, all pages together have what fulfils it, in order and
// once, however little one search may look at; and so has an export.
func TestSearch(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *DB{
		"SQLite":   func(t *testing.T) *DB { return openAt(t, newPath(t)) },
		"Postgres": func(t *testing.T) *DB { return openPostgres(t, Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			r := rand.New(rand.NewPCG(7, 7))
			list := samples(t, db, r, 340) // more than one step
			for range 160 {
				db.ScanLimit = pick(r, 7, 60, calls.MaxScanned)
				f := wanted(r, list)
				var want []string
				for _, c := range list {
					if c.is(&f) {
						want = append(want, c.ID)
					}
				}
				checkSearch(t, db, f, want)
				if t.Failed() {
					t.Fatalf("with %+v, looking at %d", f, db.ScanLimit)
				}
			}
		})
	}
}

func checkSearch(t *testing.T, db *DB, f action.InvocationFilter, want []string) {
	t.Helper()
	var got []string
	for pages := 0; ; pages++ {
		p, err := db.ListInvocations(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if p.Total > len(want) || p.Total != len(want) && !p.Capped || p.Capped && db.ScanLimit == calls.MaxScanned {
			t.Errorf("total %d (capped %t) of %d", p.Total, p.Capped, len(want))
		}
		if !p.SearchedSince.IsZero() && (p.Next == "" || len(p.Items) > f.Limit) {
			t.Errorf("a page that looked back to %v has %d calls and leads to %q", p.SearchedSince, len(p.Items), p.Next)
		}
		if p.SearchedSince.IsZero() && p.Next != "" && len(p.Items) != f.Limit {
			t.Errorf("a page of %d calls, not %d, leads on", len(p.Items), f.Limit)
		}
		for _, inv := range p.Items {
			got = append(got, inv.ID)
		}
		if f.Cursor = p.Next; f.Cursor == "" {
			break
		}
		if pages > 1000 {
			t.Fatal("the list has no end")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	var exported []string
	if err := db.Export(t.Context(), f, func(inv action.Invocation) error { exported = append(exported, inv.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(exported)
	if diff := cmp.Diff(want, exported); diff != "" {
		t.Errorf("the export, turned round (-want +got):\n%s", diff)
	}
}

// Each call of a group has an origin, however it is written, and what goes
// leaves none.
func TestInvocationOrigins(t *testing.T) {
	onBoth(t, func(t *testing.T, raw *sql.DB) {
		mustExec(t, raw, `INSERT INTO sessions (id, organization_id, kind, type, group_id, created_by, created_at) VALUES ('g', 'default', 'interactive', 'coding', 'g', 'me', '`+when+`')`)
		seed(t, raw)
		origins := func() (n int) {
			t.Helper()
			if err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM invocation_origins").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := origins(); n != 0 {
			t.Errorf("%d origins of calls that have none", n)
		}
		if err := insertRow(t, raw, "one", "expired", "completed_at = 'T', session_id = 'g'"); err != nil {
			t.Fatal(err)
		}
		if err := insertRow(t, raw, "two", "pending", "expires_at = 'T', session_id = 'g'"); err != nil {
			t.Fatal(err)
		}
		if n := origins(); n != 2 {
			t.Errorf("%d origins of two calls", n)
		}
		drop := "DROP TRIGGER invocations_kept" // which keeps what was not sealed
		if _, ok := raw.Driver().(*stdlib.Driver); ok {
			drop += " ON invocations"
		}
		mustExec(t, raw, drop)
		mustExec(t, raw, "DELETE FROM invocations WHERE id = 'one'")
		if n := origins(); n != 1 {
			t.Errorf("%d origins of the call that is left", n)
		}
	})
}
