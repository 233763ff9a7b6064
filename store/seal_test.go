package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"sallyport/store/database"
	"sallyport/store/evidence"
)

// TestDigestsAreEqualOnBothDatabases compares with what this version of the encoding
// gave when it was written: another one would make every old chain fail.
func TestDigestsAreEqualOnBothDatabases(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		fullRows(t, raw)
		keys := []evidence.RowKey{{Kind: evidence.SealedInvocation, ID: "i03"}, {Kind: evidence.SealedEvent, ID: "e03"}, {Kind: evidence.SealedPolicy, ID: "p1"}, {Kind: evidence.SealedEvent, ID: "none"}, {Kind: evidence.SealedInvocation, ID: "full"}, {Kind: evidence.SealedInvocation, ID: "denied"}}
		got, err := db.Digests(t.Context(), DefaultOrganization, keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{
			"a6e5a453ca88e1d28e93b51fe860c97d24e88f627b081176d60ce49fb3b780e2",
			"f2e6b70ef55ce986ec0db373f6cc640e4b04b5058688ded999a5fa43e99d6914",
			"fa2838fe8a73759d914760fc55024996d38201afb5014b7568d201d48d42cd27",
			"",
			"18318012478f61789d53e0205144824b7bc5cce13ab3c25d7da4f9d6d6e2fc8b",
			"bb3bbaa4c662731016b20963e9fc35dfd9c0568b8807005e1b0c084fd3ec464b",
		} {
			if hex.EncodeToString(got[keys[i]]) != want {
				t.Errorf("the digest of %s is %x", keys[i], got[keys[i]])
			}
		}
	})
}

// fullRows inserts two calls that have a value in every column between them, in a
// session that has one in every column of a digest.
func fullRows(t *testing.T, raw *sql.DB) {
	t.Helper()
	mustExec(t, raw, `INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at, automation_id, group_id, task_id, event_id, connections)
		VALUES ('full', 'default', 'unattended', 'coding', 'me', '`+when+`', 'nightly', 'developers', 'T-42', 'event', '["account"]')`)
	const common = "session_id = 'full', unattended = 1, answered = 1, expires_at = 'T', completed_at = 'T', denied_note = 'why', summary = 'Do it', " +
		"integration_id = 'account', tool_hash = 'tool', revision = 'r1', decision = '[{\"layer\":\"grant\"}]'"
	err := insertRow(t, raw, "full", "failed", common+", mode = 'allow', mode_source = 'grant', grant_id = 'grant', approved_by = 'me', approved_at = 'T', "+
		"started_at = 'T', lease_until = 'T', pickup_until = 'T', delivered_at = 'T', duration_ms = 7, executor = 'here', "+
		"error_code = 'tool_error', error_message = 'It broke.', result = '{\"a\":1}', result_summary = 'It broke'")
	if err := errors.Join(err, insertRow(t, raw, "denied", "denied", common+", denied_reason = 'human'")); err != nil {
		t.Fatal(err)
	}
}

// TestDigestsCoverEveryColumn fails for a column that is added and neither
// covered nor left out on purpose.
func TestDigestsCoverEveryColumn(t *testing.T) {
	free := []string{"sealed_params", "sealed_result", "pickup_until", "delivered_at"}
	onBoth(t, func(t *testing.T, raw *sql.DB) {
		for _, e := range evidence.Tables {
			if !slices.IsSorted(e.Columns) {
				t.Errorf("the columns of %s are not sorted", e.Name)
			}
			columns := columnsOf(t, raw, e.Name)
			columns = slices.DeleteFunc(columns, func(c string) bool { return e.Kind == evidence.SealedInvocation && slices.Contains(free, c) })
			slices.Sort(columns)
			if d := cmp.Diff(columns, e.Columns); d != "" {
				t.Errorf("columns of %s (-table +digest):\n%s", e.Name, d)
			}
		}
	})
}

func columnsOf(t *testing.T, raw *sql.DB, table string) []string {
	t.Helper()
	rows, err := raw.QueryContext(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err := errors.Join(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	return columns
}

// TestConcurrentSealer has one write what it read before the chain went
// on and retention removed the links whose places it would take.
func TestConcurrentSealer(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		c, err := db.LoadChain(t.Context(), DefaultOrganization)
		if err != nil {
			t.Fatal(err)
		}
		links := []evidence.SealRow{{Organization: DefaultOrganization, Kind: evidence.SealedEvent, Row: "e98", Digest: evidence.MissingDigest}}
		head := evidence.AuditKey(testAuditKey).Extend(c, links, database.NewTimestamp(db.db.Now()))
		for _, id := range []string{"j01", "j02"} {
			if err := insertRow(t, raw, id, "expired", "completed_at = 'T'"); err != nil {
				t.Fatal(err)
			}
		}
		_, err = db.Seal(t.Context(), testAuditKey, 10)
		n, bad := db.Retain(t.Context(), DefaultOrganization, db.db.Now(), testAuditKey, 100)
		if err := errors.Join(err, bad); err != nil || n != 12 {
			t.Fatalf("removed %d, %v", n, err)
		}
		err = db.db.Write.Do(t.Context(), &database.Job{InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
			return c.Append(ctx, tx, statementOf(t, db, evidence.InsertLinkSQL), statementOf(t, db, evidence.InsertLinksSQL), head, links)
		}})
		if !errors.Is(err, evidence.ErrConcurrentAppend) {
			t.Errorf("appended: %v", err)
		}
		if got := found(t, db, nil); len(got) > 0 {
			t.Errorf("faults %v", got)
		}
	})
}

// writes counts the statements of the writer.
type writes struct{ n int }

func (w *writes) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (w *writes) AfterQuery(context.Context, *bun.QueryEvent) { w.n++ }

// TestSealCost seals 20,000 rows that ended before there was a
// chain, in a number of statements that grows with batches and not with rows.
func TestSealCost(t *testing.T) {
	db := openAt(t, newPath(t))
	seed(t, db.db.Write.DB.DB)
	mustExec(t, db.db.Write.DB.DB, `INSERT INTO invocation_events (id, organization_id, invocation_id, kind, at, data)
		WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)
		SELECT printf('e%06d', n), 'default', 'completed', 'late_outcome', '`+when+`', '{}' FROM c`)
	w := &writes{}
	db.db.Write.DB = db.db.Write.DB.WithQueryHook(w)
	sealed, calls := 0, 0
	for n := evidence.SealBatch; n == evidence.SealBatch; calls++ {
		var err error
		if n, err = db.Seal(t.Context(), testAuditKey, evidence.SealBatch); err != nil {
			t.Fatal(err)
		}
		sealed += n
	}
	if sealed != 20004 || w.n > 6*calls || w.n < 3*calls {
		t.Errorf("sealed %d rows in %d calls and %d statements", sealed, calls, w.n)
	}
	r, err := db.VerifyAudit(t.Context(), DefaultOrganization, testAuditKey, nil)
	if err != nil || !r.OK || r.Checked != 20004 {
		t.Errorf("the report is %+v, %v", r, err)
	}
	mustChange(t, db.db.Write.DB.DB, insertEvent("e999999", "completed"))
	mustChange(t, db.db.Write.DB.DB, "DELETE FROM seal_queue")
	if got := found(t, db, nil); !slices.Equal(got, []string{"unchained 0 event e999999"}) {
		t.Errorf("faults %v", got)
	}
}

// TestMigrationQueuesEndedRows brings tables up to date in which calls ended
// before there was a chain.
func TestMigrationQueuesEndedRows(t *testing.T) {
	onEmpty(t, whatEndedBeforeIsQueued)
}

func whatEndedBeforeIsQueued(t *testing.T, db *bun.DB) {
	all, err := database.Migrations(database.Shared(db))
	if err != nil {
		t.Fatal(err)
	}
	files, err := database.ReadMigrations(all)
	if err != nil {
		t.Fatal(err)
	}
	some := fstest.MapFS{}
	apply := func(in func(name string) bool) {
		for _, m := range files {
			if in(m.Name) {
				some[m.Name] = &fstest.MapFile{Data: []byte(m.SQL)}
			}
		}
		if _, err := database.MigrateFiles(t.Context(), db, some, time.Now); err != nil {
			t.Fatal(err)
		}
	}
	apply(func(name string) bool { return name < "0005" })
	mustExec(t, db.DB, "INSERT INTO organizations (id, name, created_at) VALUES ('default', 'D', '"+when+"')")
	seed(t, db.DB)
	mustChange(t, db.DB, insertEvent("e1", "pending"))
	mustChange(t, db.DB, forgedPolicy)
	apply(func(string) bool { return true })
	var queue []string
	if err := db.NewRaw("SELECT kind || ' ' || row_id FROM seal_queue WHERE organization_id = 'default' ORDER BY row_id").Scan(t.Context(), &queue); err != nil {
		t.Fatal(err)
	}
	want := []string{"invocation completed", "invocation denied", "event e1", "invocation expired", "invocation failed", "policy p99"}
	if d := cmp.Diff(want, queue); d != "" {
		t.Errorf("the queue (-want +got):\n%s", d)
	}
}

// TestSealReportsBrokenChains has one chain that does not hold, one that is
// left out, and one whose rows all are younger.
func TestSealReportsBrokenChains(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		for _, id := range []string{"idle", "late"} {
			if _, err := db.EnsureOrganization(t.Context(), id, id); err != nil {
				t.Fatal(err)
			}
		}
		for i, organization := range []string{"default", "default", "default", "idle", "late"} {
			id := fmt.Sprint("p9", i)
			mustChange(t, raw, strings.NewReplacer("p99", id, "default", organization).Replace(forgedPolicy))
		}
		mustChange(t, raw, "UPDATE audit_heads SET at = 'T'")
		left := func(want int, but ...string) (list []string) {
			t.Helper()
			n, err := db.Seal(t.Context(), testAuditKey, 1, but...)
			var failed evidence.SealErrors
			if err != nil && !errors.As(err, &failed) || n != want {
				t.Errorf("sealed %d, %v", n, err)
			}
			return slices.Sorted(maps.Keys(failed))
		}
		if got := left(1, "idle"); !slices.Equal(got, []string{"default"}) {
			t.Errorf("left out %v", got)
		}
		if got := left(0, "idle"); !slices.Equal(got, []string{"default"}) {
			t.Errorf("left out with nothing else to do: %v", got)
		}
		if got := left(1, "default"); len(got) > 0 {
			t.Errorf("left out without those that were: %v", got)
		}
		broken, late := db.Sealable(t.Context(), DefaultOrganization, testAuditKey), db.Sealable(t.Context(), "late", testAuditKey)
		if broken == nil || late != nil {
			t.Errorf("sealable: %v and %v", broken, late)
		}
		if list, err := db.QueuedOrganizations(t.Context()); err != nil || !slices.Equal(list, []string{DefaultOrganization}) {
			t.Errorf("rows wait for %v, %v", list, err)
		}
	})
}
