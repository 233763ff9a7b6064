package store_test

import (
	"path/filepath"
	"testing"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/storetest"
)

// The ledger is what the Gate asks for.
var _ action.Ledger = (*store.DB)(nil)

func open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "data", "a b#1?%.db"), ReservedSlugs: []string{"gateway"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestSQLite(t *testing.T) { storetest.Exercise(t, open) }
