package store

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"sallyport/store/evidence"
)

func insertRefusal(id string) string {
	return "INSERT INTO refusal_counts (id, organization_id, session_id, kind, count, first_at, last_at) VALUES ('" + id + "', 'default', 's', 'rate_limited', 3, 'T', 'T')"
}

// TestRefusalCountsDoNotChange changes and removes counts, with the triggers and
// without.
func TestRefusalCountsDoNotChange(t *testing.T) {
	for _, c := range []struct {
		name, do, fault string
	}{
		{"a number", "UPDATE refusal_counts SET count = 1", "altered 13 refusal r1"},
		{"a session", "UPDATE refusal_counts SET session_id = 'x'", "altered 13 refusal r1"},
		{"a removed count", "DELETE FROM refusal_counts", "removed 13 refusal r1"},
		{"a forged count", "", "unchained 0 refusal r9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
				mustChange(t, raw, insertRefusal("r1"))
				if n, err := db.Seal(t.Context(), testAuditKey, 10); n != 1 || err != nil {
					t.Fatalf("sealed %d, %v", n, err)
				}
				if got := found(t, db, nil); len(got) > 0 {
					t.Errorf("faults %v before", got)
				}
				if c.do != "" {
					if err := change(t, raw, c.do); err == nil || !strings.Contains(err.Error(), "history does not change") {
						t.Errorf("%s: %v", c.do, err)
					}
				}
				unguard(t, raw)
				mustChange(t, raw, cmp.Or(c.do, insertRefusal("r9")))
				if got := found(t, db, nil); !slices.Equal(got, []string{c.fault}) {
					t.Errorf("faults %v", got)
				}
			})
		})
	}
}

// TestEarlierVersionsDoNotSealRefusals looks at the queue that they read.
func TestEarlierVersionsDoNotSealRefusals(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		mustChange(t, raw, insertRefusal("r1"))
		for queue, q := range map[string]*bun.SelectQuery{
			"seal_queue": evidence.QueuedRows(db.db.Read, DefaultOrganization, 9), "refusal_queue": evidence.QueuedRefusals(db.db.Read, DefaultOrganization, 9),
		} {
			want := map[string]int64{"seal_queue": 0, "refusal_queue": 1}[queue]
			if n, err := q.Count(t.Context()); n != want || err != nil {
				t.Errorf("%s has %d rows, %v", queue, n, err)
			}
		}
	})
}
