package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
)

// purges counts the statements of the writer, and those of them that delete
// sessions.
type purges struct {
	writes
	deletes int
}

func (p *purges) AfterQuery(ctx context.Context, e *bun.QueryEvent) {
	p.writes.AfterQuery(ctx, e)
	if strings.HasPrefix(e.Query, "DELETE FROM sessions") {
		p.deletes++
	}
}

// The writer, which calls wait for, is asked for what goes and no more, and for a
// few sessions at once.
func TestPurgeReadsFirst(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		alive := liveSession(t, db)
		for range 2*calls.PurgeBatch + 5 {
			if _, err := db.RevokeSession(t.Context(), alive.Organization, liveSession(t, db).ID); err != nil {
				t.Fatal(err)
			}
		}
		w := &purges{}
		db.db.Write.DB = db.db.Write.DB.WithQueryHook(w)
		if n, err := db.PurgeSessions(t.Context(), time.Now().Add(-time.Hour), 0); n != 0 || err != nil || w.n != 0 {
			t.Errorf("before their time: %d, %v, with %d statements of the writer", n, err, w.n)
		}
		later := time.Now().Add(time.Hour)
		if n, err := db.PurgeSessions(t.Context(), later, 0); n != 2*calls.PurgeBatch+5 || err != nil || w.deletes != 3 {
			t.Errorf("after it: %d, %v, in %d steps", n, err, w.deletes)
		}
		if n, err := db.PurgeSessions(t.Context(), later, 0); n != 0 || err != nil {
			t.Errorf("once more: %d, %v", n, err)
		}
		if _, err := db.Session(t.Context(), alive.ID); err != nil {
			t.Errorf("one that lives: %v", err)
		}
	})
}

// A key whose session is deleted while it is asked for makes no session out of
// nothing.
func TestMakeSessionRetries(t *testing.T) {
	db := openAt(t, newPath(t))
	mustExec(t, db.db.Write.DB.DB, "CREATE TRIGGER lost BEFORE INSERT ON sessions BEGIN SELECT RAISE(IGNORE); END")
	s, existed, err := db.MakeSession(t.Context(), action.Session{Organization: DefaultOrganization, CreatedBy: "ada"}, action.Idempotency{Key: "k", Hash: "h"})
	if !errors.Is(err, action.ErrUnavailable) || existed || s.ID != "" {
		t.Errorf("made %q, existed %t, %v", s.ID, existed, err)
	}
}
