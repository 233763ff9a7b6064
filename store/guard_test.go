package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/evidence"
)

// evidenceNames are the tables of history and its chain, in an order in which
// they can be emptied.
var evidenceNames = []string{"seal_queue", "refusal_queue", "audit_seals", "audit_checkpoints", "audit_heads", "invocation_events", "policy_events", "refusal_counts", "invocations"}

// TestVerifyFindsDeletedEvidence has nothing left that could be wrong by itself,
// and a new chain that would hide that.
func TestVerifyFindsDeletedEvidence(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		heads, err := db.AuditHeads(t.Context(), DefaultOrganization)
		if err != nil {
			t.Fatal(err)
		}
		unguard(t, raw)
		for _, table := range evidenceNames {
			mustChange(t, raw, "DELETE FROM "+table)
		}
		if got := found(t, db, nil); !slices.Equal(got, []string{"head 0"}) {
			t.Errorf("faults %v", got)
		}
		if got := found(t, db, &heads[0]); !slices.Equal(got, []string{"head 0", "cut_off 1"}) {
			t.Errorf("with the last head: %v", got)
		}
		mustChange(t, raw, forgedPolicy)
		mustChange(t, raw, "INSERT INTO seal_queue (row_id, kind, organization_id) VALUES ('p99', 'policy', 'default')")
		n, err := db.Seal(t.Context(), testAuditKey, 10)
		var e *action.Error
		if n != 0 || !errors.As(err, &e) || e.Code != "audit_broken" {
			t.Errorf("sealed %d, %v", n, err)
		}
	})
}

// TestChainedFlagCannotBeCleared tries to take the sign away.
func TestChainedFlagCannotBeCleared(t *testing.T) {
	onSealed(t, func(t *testing.T, _ *DB, raw *sql.DB) {
		if err := change(t, raw, "UPDATE organizations SET chained = 0"); err == nil || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("taken away: %v", err)
		}
	})
}

// TestSealsCannotBeReplaced has statements that no trigger of an update or a
// removal sees.
func TestSealsCannotBeReplaced(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		mustChange(t, raw, insertRefusal("r1"))
		var all []string
		for _, table := range evidenceNames {
			all = append(all, "TRUNCATE "+table+" CASCADE")
		}
		all = append(all, "TRUNCATE organizations CASCADE")
		if !isPostgres(raw) {
			if err := insertRow(t, raw, "open", "pending", "expires_at = 'T'"); err != nil {
				t.Fatal(err)
			}
			all = []string{"UPDATE OR REPLACE open_calls SET id = 'i03' WHERE id = 'open'"}
			for _, table := range []string{"invocations", "invocation_events", "policy_events", "refusal_counts", "audit_seals"} {
				all = append(all, "REPLACE INTO "+table+" SELECT * FROM "+table+" LIMIT 1")
			}
			for _, e := range evidence.Tables {
				columns := strings.Join(e.Columns, ", ")
				all = append(all, "REPLACE INTO "+e.Name+" (rowid, "+columns+") SELECT rowid, "+strings.Replace(columns, " id,", " 'x' || id,", 1)+" FROM "+e.Name+" LIMIT 1")
			}
		}
		for _, text := range all {
			if err := change(t, raw, text); err == nil || !strings.Contains(err.Error(), "not change") {
				t.Errorf("%s: %v", text, err)
			}
		}
		if got := found(t, db, nil); len(got) > 0 {
			t.Errorf("faults %v", got)
		}
	})
}

// TestRowIsSealedOnce has a sealer know of a row what another did meanwhile.
func TestRowIsSealedOnce(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, _ *sql.DB) {
		err := db.SealRows(t.Context(), testAuditKey, DefaultOrganization, []evidence.QueuedRow{{RowKey: evidence.RowKey{Kind: evidence.SealedEvent, ID: "e03"}}})
		if !errors.Is(err, evidence.ErrConcurrentAppend) {
			t.Errorf("sealed again: %v", err)
		}
	})
}

// TestVerifyNotesRemovedHead has one of a link that is not there to
// compare with, and the one that the checkpoint is of.
func TestVerifyNotesRemovedHead(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		var kept []*action.AuditHead
		for _, id := range []string{"j01", "j02"} {
			heads, err := db.AuditHeads(t.Context(), DefaultOrganization)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, &heads[0])
			if err := insertRow(t, raw, id, "expired", "completed_at = 'T'"); err != nil {
				t.Fatal(err)
			}
			if n, err := db.Seal(t.Context(), testAuditKey, 10); n != 1 || err != nil {
				t.Fatalf("sealed %d, %v", n, err)
			}
		}
		note := func(known *action.AuditHead) string {
			t.Helper()
			r, err := db.VerifyAudit(t.Context(), DefaultOrganization, testAuditKey, known)
			if err != nil || !r.OK {
				t.Errorf("the report is %+v, %v", r, err)
			}
			return r.Note
		}
		for _, known := range append(kept, nil) {
			if got := note(known); got != "" {
				t.Errorf("before anything went: %s", got)
			}
		}
		if n, err := db.Retain(t.Context(), DefaultOrganization, db.db.Now(), testAuditKey, 11); n != 11 || err != nil {
			t.Fatalf("removed %d, %v", n, err)
		}
		if got := note(kept[0]); !strings.Contains(got, "link 12, which retention removed with all before link 14") {
			t.Errorf("a head before the checkpoint: %q", got)
		}
		if got := note(kept[1]); got != "" {
			t.Errorf("the checkpoint's: %s", got)
		}
	})
}

// leaver ends a context with the first links that are read.
type leaver struct {
	leave context.CancelFunc
	reads int
}

func (l *leaver) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (l *leaver) AfterQuery(context.Context, *bun.QueryEvent) { l.reads++; l.leave() }

// TestVerifyStopsWithContext has one that leaves before it is through.
func TestVerifyStopsWithContext(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, _ *sql.DB) {
		ctx, leave := context.WithCancel(t.Context())
		l := &leaver{leave: leave}
		db.db.Read = db.db.Read.WithQueryHook(l)
		r, err := db.VerifyAudit(ctx, DefaultOrganization, testAuditKey, nil)
		if !errors.Is(err, context.Canceled) || l.reads != 1 || r.OK || r.Checked > 0 {
			t.Errorf("after %d reads of links: %+v, %v", l.reads, r, err)
		}
	})
}
