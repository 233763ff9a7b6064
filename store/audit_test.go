package store

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/evidence"
)

var testAuditKey = bytes.Repeat([]byte{7}, 32)

// sealedRows writes and seals, of the default organization, an event (link 1)
// of the third of ten invocations (links 2 to 11), and a change of policy
// (link 12).
func sealedRows(t *testing.T, db *DB, raw *sql.DB) {
	t.Helper()
	mustExec(t, raw, `INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'default', 'interactive', 'coding', 'me', '`+when+`')`)
	for i := range 10 {
		id := fmt.Sprintf("i%02d", i+1)
		err := insertRow(t, raw, id, "completed", fmt.Sprintf("approved_by = 'me', started_at = 'T', completed_at = 'T', duration_ms = %d, params = '{\"n\":%d}'", i, i))
		if err != nil {
			t.Fatal(err)
		}
	}
	mustChange(t, raw, insertEvent("e03", "i03"))
	mustChange(t, raw, `INSERT INTO policy_events (id, organization_id, kind, subject, by, at, before, after) VALUES ('p1', 'default', 'mode', 'linear:x', 'me', 'T', 'null', '{}')`)
	if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 12 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
}

func isPostgres(raw *sql.DB) bool { _, ok := raw.Driver().(*stdlib.Driver); return ok }

func mustChange(t *testing.T, raw *sql.DB, text string) {
	t.Helper()
	if err := change(t, raw, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// onSealed runs a test on [sealedRows] in both databases.
func onSealed(t *testing.T, test func(t *testing.T, db *DB, raw *sql.DB)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		db := openAt(t, newPath(t))
		sealedRows(t, db, db.db.Write.DB.DB)
		test(t, db, db.db.Write.DB.DB)
	})
	t.Run("Postgres", func(t *testing.T) {
		url := dbtest.PostgresFrom(t, "sealed", func(url string) error {
			db, err := Open(t.Context(), Config{URL: url})
			if err != nil {
				return err
			}
			sealedRows(t, db, db.db.Read.DB)
			return db.db.Close()
		})
		db, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.db.Close() })
		test(t, db, db.db.Read.DB)
	})
}

// unguard takes away every trigger: who writes to the database may do that.
func unguard(t *testing.T, raw *sql.DB) {
	t.Helper()
	list, drop := "SELECT name FROM sqlite_master WHERE type = 'trigger'", "DROP TRIGGER %s"
	if isPostgres(raw) {
		list, drop = "SELECT DISTINCT event_object_table FROM information_schema.triggers", "ALTER TABLE %s DISABLE TRIGGER USER"
	}
	rows, err := raw.QueryContext(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(names) < 4 {
		t.Fatalf("triggers %v, %v", names, err)
	}
	for _, name := range names {
		mustExec(t, raw, fmt.Sprintf(drop, name))
	}
}

// found are the faults that a look at the chain finds, in one line each.
func found(t *testing.T, db *DB, known *action.AuditHead) []string {
	t.Helper()
	r, err := db.VerifyAudit(t.Context(), DefaultOrganization, testAuditKey, known)
	if err != nil {
		t.Fatal(err)
	}
	if r.OK != (len(r.Faults) == 0) || r.More {
		t.Errorf("the report is %+v", r)
	}
	list := []string{}
	for _, f := range r.Faults {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d %s", f.Kind, f.Seq, f.Row)))
	}
	return list
}

const (
	forgedPolicy = `INSERT INTO policy_events (id, organization_id, kind, subject, by, at, before, after) VALUES ('p99', 'default', 'mode', 'x', 'eve', 'T', 'null', '{}')`
	forgedSeal   = `INSERT INTO audit_seals (organization_id, seq, kind, row_id, digest, hash, sealed_at) SELECT organization_id, 13, 'event', 'e99', digest, hash, sealed_at FROM audit_seals WHERE seq = 12`
	// A checkpoint at a link, with the code of the head.
	forgedCut = `INSERT INTO audit_checkpoints (organization_id, seq, hash, mac, until, at, removed)
		SELECT s.organization_id, s.seq, s.hash, h.mac, h.at, h.at, 9 FROM audit_seals s, audit_heads h WHERE s.seq = 3`
)

// insertEvent writes an event of an invocation.
func insertEvent(id, invocation string) string {
	return "INSERT INTO invocation_events (id, organization_id, invocation_id, kind, at, data) VALUES ('" + id + "', 'default', '" + invocation + "', 'late_outcome', 'T', '{}')"
}

// tampering is every way to change history past the gateway, and the faults
// that tell of it.
var tampering = []struct {
	name   string
	do     []string
	faults []string
}{
	{"nothing", nil, nil},
	{"sealed columns and those of delivery", []string{"UPDATE invocations SET sealed_result = BYTES, pickup_until = 'T', delivered_at = 'T'"}, nil},
	{"a param", []string{`UPDATE invocations SET params = '{"n":9}' WHERE id = 'i03'`}, []string{"altered 4 invocation i03"}},
	{"a status", []string{`UPDATE invocations SET status = 'failed', error_code = 'x' WHERE id = 'i03'`}, []string{"altered 4 invocation i03"}},
	{"the fault of a call", []string{`UPDATE invocations SET error_fault = 'upstream_auth' WHERE id = 'i03'`}, []string{"altered 4 invocation i03"}},
	{"who approved", []string{`UPDATE invocations SET approved_by = 'bob' WHERE id = 'i03'`}, []string{"altered 4 invocation i03"}},
	{"a value that moves to another column", []string{`UPDATE invocations SET summary = approved_by, approved_by = NULL, mode = 'allow' WHERE id = 'i03'`}, []string{"altered 4 invocation i03"}},
	{"an event", []string{`UPDATE invocation_events SET kind = 'params_revealed'`}, []string{"altered 1 event e03"}},
	{"a change of policy", []string{`UPDATE policy_events SET by = 'bob'`}, []string{"altered 12 policy p1"}},
	{"a row removed", []string{`DELETE FROM invocations WHERE id = 'i05'`}, []string{"removed 6 invocation i05"}},
	{"a row removed with its events", []string{`DELETE FROM invocations WHERE id = 'i03'`, `DELETE FROM invocation_events`}, []string{"removed 1 event e03", "removed 4 invocation i03"}},
	{"a row removed with its link", []string{`DELETE FROM invocations WHERE id = 'i05'`, `DELETE FROM audit_seals WHERE seq = 6`}, []string{"removed 6"}},
	{"a link removed", []string{`DELETE FROM audit_seals WHERE seq = 6`}, []string{"removed 6", "unchained 0 invocation i05"}},
	{"the first links removed", []string{`DELETE FROM invocations WHERE id = 'i03'`, `DELETE FROM invocation_events`, `DELETE FROM invocations WHERE id < 'i03'`, `DELETE FROM audit_seals WHERE seq <= 4`}, []string{"removed 1"}},
	{"the tail removed", []string{`DELETE FROM policy_events`, `DELETE FROM invocations WHERE id = 'i10'`, `DELETE FROM audit_seals WHERE seq > 10`}, []string{"cut_off 11"}},
	{"all links removed", []string{`DELETE FROM audit_seals`, `DELETE FROM policy_events`, `DELETE FROM invocations`, `DELETE FROM invocation_events`}, []string{"cut_off 1"}},
	{"two rows swapped", []string{
		`UPDATE invocations SET id = 'x' WHERE id = 'i05'`, `UPDATE invocations SET id = 'i05' WHERE id = 'i06'`, `UPDATE invocations SET id = 'i06' WHERE id = 'x'`,
	}, []string{"altered 6 invocation i05", "altered 7 invocation i06"}},
	{"two links swapped", []string{
		`UPDATE audit_seals SET seq = 99 WHERE seq = 6`, `UPDATE audit_seals SET seq = 6 WHERE seq = 7`, `UPDATE audit_seals SET seq = 7 WHERE seq = 99`,
	}, []string{"link 6 invocation i06", "link 7 invocation i05", "link 8 invocation i07"}},
	{"a row and its digest", []string{`DELETE FROM invocations WHERE id = 'i05'`, `UPDATE audit_seals SET digest = DIGEST WHERE seq = 6`}, []string{"link 6 invocation i05", "removed 6 invocation i05"}},
	{"the hash of a link", []string{`UPDATE audit_seals SET hash = digest WHERE seq = 6`}, []string{"link 6 invocation i05", "link 7 invocation i06"}},
	{"the hash of the last link", []string{`UPDATE audit_seals SET hash = digest WHERE seq = 12`}, []string{"head 12", "link 12 policy p1"}},
	{"the time of a link", []string{`UPDATE audit_seals SET sealed_at = 'T' WHERE seq = 6`}, []string{"link 6 invocation i05"}},
	{"a forged row", []string{"FORGED"}, []string{"unchained 0 invocation i99"}},
	{"a forged event", []string{insertEvent("e99", "i04")}, []string{"unchained 0 event e99"}},
	{"a forged change of policy", []string{forgedPolicy}, []string{"unchained 0 policy p99"}},
	{"a forged event with a link", []string{insertEvent("e99", "i04"), forgedSeal}, []string{"head 12", "link 13 event e99", "altered 13 event e99"}},
	{"a forged head", []string{`UPDATE audit_heads SET at = 'T'`}, []string{"head 12"}},
	{"a head of another link", []string{`UPDATE audit_heads SET hash = (SELECT hash FROM audit_seals WHERE seq = 11)`}, []string{"head 12"}},
	{"the head removed", []string{`DELETE FROM audit_heads`}, []string{"head 12"}},
	{"a forged checkpoint", []string{
		forgedCut, `DELETE FROM invocations WHERE id < 'i03'`, `DELETE FROM audit_seals WHERE seq <= 3`,
	}, []string{"checkpoint 3", "unchained 0 event e03"}},
	{"a checkpoint beyond the end", []string{forgedCut, `UPDATE audit_checkpoints SET seq = 99`}, []string{"checkpoint 99", "head 12"}},
}

func TestVerifyFindsTampering(t *testing.T) {
	for _, c := range tampering {
		t.Run(c.name, func(t *testing.T) {
			onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
				unguard(t, raw)
				for _, text := range c.do {
					if text == "FORGED" {
						if err := insertRow(t, raw, "i99", "expired", "completed_at = 'T'"); err != nil {
							t.Fatal(err)
						}
						continue
					}
					mustChange(t, raw, strings.ReplaceAll(text, "DIGEST", bytesOf(raw, evidence.MissingDigest)))
				}
				if d := cmp.Diff(append([]string{}, c.faults...), found(t, db, nil)); d != "" {
					t.Errorf("faults (-want +got):\n%s", d)
				}
			})
		})
	}
}

// bytesOf is a literal of the dialect.
func bytesOf(raw *sql.DB, b []byte) string {
	if isPostgres(raw) {
		return `'\x` + hex.EncodeToString(b) + "'"
	}
	return "X'" + hex.EncodeToString(b) + "'"
}

func TestVerifyFindsRollbackByKnownHead(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		heads, err := db.AuditHeads(t.Context(), DefaultOrganization)
		if err != nil {
			t.Fatal(err)
		}
		old := heads[0]
		mustChange(t, raw, "CREATE TABLE kept AS SELECT * FROM audit_heads")
		putBack := func(rows string) {
			mustChange(t, raw, rows)
			mustChange(t, raw, "DELETE FROM audit_seals WHERE seq > 12")
			mustChange(t, raw, "DELETE FROM audit_heads")
			mustChange(t, raw, "INSERT INTO audit_heads SELECT * FROM kept")
		}
		if err := insertRow(t, raw, "j01", "expired", "completed_at = 'T'"); err != nil {
			t.Fatal(err)
		}
		if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 1 || err != nil {
			t.Fatalf("sealed %d, %v", n, err)
		}
		heads, err = db.AuditHeads(t.Context(), DefaultOrganization)
		if err != nil {
			t.Fatal(err)
		}
		last := heads[0]
		if got := found(t, db, &last); len(got) > 0 {
			t.Fatalf("before anything was done: %v", got)
		}
		unguard(t, raw)
		mustChange(t, raw, "UPDATE audit_heads SET seq = (SELECT seq FROM kept), hash = (SELECT hash FROM kept), mac = (SELECT mac FROM kept), at = (SELECT at FROM kept)")
		if got := found(t, db, nil); !slices.Equal(got, []string{"head 12"}) {
			t.Errorf("an earlier head alone: %v", got)
		}
		putBack("DELETE FROM invocations WHERE id = 'j01'")
		if got := found(t, db, nil); len(got) > 0 {
			t.Errorf("without a head that was kept: %v", got)
		}
		if got := found(t, db, &last); !slices.Equal(got, []string{"cut_off 13"}) {
			t.Errorf("with the last head: %v", got)
		}
		if got := found(t, db, &old); len(got) > 0 {
			t.Errorf("with the head that was put back: %v", got)
		}
		// Another end is sealed, which the key makes as well as the first.
		mustChange(t, raw, insertEvent("e98", "i04"))
		mustChange(t, raw, "INSERT INTO seal_queue (row_id, kind, organization_id) VALUES ('e98', 'event', 'default')")
		if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 1 || err != nil {
			t.Fatalf("sealed %d, %v", n, err)
		}
		if got := found(t, db, &last); !slices.Equal(got, []string{"link 13 event e98"}) {
			t.Errorf("another history: %v", got)
		}
	})
}

// TestVerifyChecksConcurrentCheckpoint has links vanish while they are
// followed, as retention would have it.
func TestVerifyChecksConcurrentCheckpoint(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		v := &evidence.Verification{Store: db.evidenceStore, Key: testAuditKey, Organization: DefaultOrganization}
		c, err := db.LoadChain(t.Context(), DefaultOrganization)
		if err != nil {
			t.Fatal(err)
		}
		unguard(t, raw)
		mustChange(t, raw, forgedCut)
		mustChange(t, raw, "DELETE FROM audit_seals WHERE seq <= 3")
		if err := v.Links(t.Context(), c); err != nil || len(v.Report.Faults) != 1 || v.Report.Faults[0].Kind != "removed" {
			t.Errorf("faults %+v, %v", v.Report.Faults, err)
		}
	})
}

// TestRetainKeepsTamperedRows has retention stop before it.
func TestRetainKeepsTamperedRows(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		unguard(t, raw)
		mustChange(t, raw, "UPDATE invocations SET risk = 'read' WHERE id = 'i06'")
		n, err := db.Retain(t.Context(), DefaultOrganization, db.db.Now(), testAuditKey, 100)
		var e *action.Error
		if n != 5 || !errors.As(err, &e) || e.Code != "audit_broken" || !strings.Contains(e.Message, "link 7") {
			t.Errorf("removed %d, %v", n, err)
		}
		if got := found(t, db, nil); !slices.Equal(got, []string{"altered 7 invocation i06"}) {
			t.Errorf("faults %v", got)
		}
	})
}

// TestSealRefusesBrokenChain has its head removed: a new one would hide that.
func TestSealRefusesBrokenChain(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		mustChange(t, raw, "DELETE FROM audit_heads")
		mustChange(t, raw, insertEvent("e98", "i04"))
		sealed, sealing := db.Seal(t.Context(), testAuditKey, 100)
		removed, removing := db.Retain(t.Context(), DefaultOrganization, db.db.Now(), testAuditKey, 100)
		var a, b *action.Error
		if !errors.As(sealing, &a) || !errors.As(removing, &b) || a.Code != "audit_broken" || b.Code != "audit_broken" || sealed+removed > 0 {
			t.Errorf("sealed %d, %v; removed %d, %v", sealed, sealing, removed, removing)
		}
		if got := found(t, db, nil); !slices.Equal(got, []string{"head 12"}) {
			t.Errorf("faults %v", got)
		}
	})
}

// TestRetainKeepsInvocationWithConcurrentEvent has one that is not committed yet as
// retention comes.
func TestRetainKeepsInvocationWithConcurrentEvent(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		if !isPostgres(raw) {
			return // there is one writer
		}
		tx, err := raw.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), strings.Replace(insertEvent("e98", "i04"), "'T'", "now()", 1)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		removed := 0
		go func() {
			var err error
			removed, err = db.Retain(t.Context(), DefaultOrganization, db.db.Now(), testAuditKey, 100)
			done <- err
		}()
		for waits := 0; waits == 0; time.Sleep(time.Millisecond) {
			const locked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
			if err := raw.QueryRowContext(t.Context(), locked).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(tx.Commit(), <-done); err != nil || removed != 9 {
			t.Errorf("removed %d, %v", removed, err)
		}
		if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 1 || err != nil {
			t.Errorf("sealed %d, %v", n, err)
		}
		if got := found(t, db, nil); len(got) > 0 {
			t.Errorf("faults %v", got)
		}
	})
}

// TestVerifyReportsRowDeletedBeforeSeal has one that is, and one that
// waits twice.
func TestVerifyReportsRowDeletedBeforeSeal(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		mustChange(t, raw, "INSERT INTO seal_queue (row_id, kind, organization_id) VALUES ('i05', 'invocation', 'default'), ('z1', 'invocation', 'default')")
		if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 2 || err != nil {
			t.Errorf("sealed %d, %v", n, err)
		}
		if n, err := db.Seal(t.Context(), testAuditKey, 100); n != 0 || err != nil {
			t.Errorf("sealed again %d, %v", n, err)
		}
		if got := found(t, db, nil); !slices.Equal(got, []string{"removed 13 invocation z1"}) {
			t.Errorf("faults %v", got)
		}
	})
}

func TestVerifyLimitsFaults(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		unguard(t, raw)
		for i := range evidence.MaxFaults + 1 {
			if err := insertRow(t, raw, fmt.Sprintf("x%03d", i), "expired", "completed_at = 'T'"); err != nil {
				t.Fatal(err)
			}
		}
		r, err := db.VerifyAudit(t.Context(), DefaultOrganization, testAuditKey, nil)
		if err != nil || r.OK || !r.More || len(r.Faults) != evidence.MaxFaults {
			t.Errorf("ok %t, more %t, %d faults, %v", r.OK, r.More, len(r.Faults), err)
		}
	})
}

// TestHistoryCannotBeChanged tries what nobody should do by mistake.
func TestHistoryCannotBeChanged(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		refused := func(text, want string) {
			t.Helper()
			if err := change(t, raw, text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
		}
		refused("UPDATE invocation_events SET by = 'x'", "history does not change")
		refused("DELETE FROM invocation_events", "history does not change")
		refused("UPDATE policy_events SET by = 'x'", "history does not change")
		refused("DELETE FROM policy_events", "history does not change")
		refused("UPDATE audit_seals SET seq = 99 WHERE seq = 12", "history does not change")
		refused("DELETE FROM audit_seals WHERE seq = 1", "no checkpoint covers this seal")
		refused("DELETE FROM invocations WHERE id = 'i01'", "no checkpoint covers this invocation")
		mustChange(t, raw, forgedCut) // up to i02
		refused("DELETE FROM invocations WHERE id = 'i03'", "no checkpoint covers this invocation")
		refused("DELETE FROM audit_seals WHERE seq = 4", "no checkpoint covers this seal")
		mustChange(t, raw, "DELETE FROM invocations WHERE id = 'i02'")
		mustChange(t, raw, "DELETE FROM audit_seals WHERE seq = 3")
		if err := insertRow(t, raw, "open", "pending", "expires_at = 'T'"); err != nil {
			t.Fatal(err)
		}
		refused("DELETE FROM open_calls WHERE id = 'open'", "an open call is not removed")
	})
}

// Who asked is in the session, and sealed with each of its calls.
func TestSealCoversSession(t *testing.T) {
	for _, change := range []string{"created_by = 'eve'", "group_id = 'ops'", "task_id = 'T-9'", "kind = 'unattended', automation_id = 'nightly'", "event_id = 'e'"} {
		t.Run(change, func(t *testing.T) {
			onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
				unguard(t, raw)
				mustChange(t, raw, "UPDATE sessions SET "+change)
				faults := found(t, db, nil)
				if len(faults) < 10 || !strings.HasPrefix(faults[0], "altered ") {
					t.Errorf("faults %q", faults)
				}
			})
		})
	}
}
