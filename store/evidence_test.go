package store

import (
	"database/sql"
	"errors"
	"testing"

	"sallyport/action"
)

// A call tells whether it is sealed, where, and whether it is what was sealed.
func TestEvidenceOfACall(t *testing.T) {
	onSealed(t, func(t *testing.T, db *DB, raw *sql.DB) {
		of := func(id string) action.Evidence {
			t.Helper()
			e, err := db.Evidence(t.Context(), DefaultOrganization, id)
			if err != nil || len(e.Digest) != 64 {
				t.Fatalf("%+v, %v", e, err)
			}
			return e
		}
		before := of("i02")
		if before.Seq == 0 || before.SealedAt == nil || before.Changed {
			t.Errorf("a sealed call says %+v", before)
		}
		if err := insertRow(t, raw, "open", "pending", "expires_at = 'T'"); err != nil {
			t.Fatal(err)
		}
		if e := of("open"); e.Seq != 0 || e.SealedAt != nil || e.Changed || e.DeliveredAt != nil {
			t.Errorf("a call that waits says %+v", e)
		}
		if _, err := db.Evidence(t.Context(), "other", "i02"); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("another organization's call: %v", err)
		}
		unguard(t, raw)
		mustChange(t, raw, "UPDATE invocations SET params = '{\"a\":99}' WHERE id = 'i02'")
		if e := of("i02"); !e.Changed || e.Digest == before.Digest || e.Seq != before.Seq {
			t.Errorf("a call that was altered says %+v", e)
		}
	})
}
