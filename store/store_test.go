package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store"
	"sallyport/store/database"
)

// The ledger is what the Gate asks for.
var _ action.Ledger = (*store.DB)(nil)

func TestMain(m *testing.M) {
	crashIfTold()
	os.Exit(dbtest.Main(m))
}

func open(t *testing.T, c store.Config) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), c)
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

func TestSQLite(t *testing.T) {
	exercise(t, func(t *testing.T) []*store.DB {
		path := filepath.Join(t.TempDir(), "data", "a b#1?%.db")
		dbtest.FileFrom(t, "store", path, func(path string) error {
			db, err := store.Open(context.Background(), store.Config{Path: path})
			if err != nil {
				return err
			}
			return db.Close()
		})
		return []*store.DB{open(t, store.Config{Path: path})}
	})
}

func TestPostgres(t *testing.T) {
	exercise(t, func(t *testing.T) []*store.DB {
		url := migrated(t)
		return []*store.DB{open(t, store.Config{URL: url}), open(t, store.Config{URL: url})}
	})
}

// migrated returns the URL of a database that has its tables.
func migrated(t testing.TB) string {
	t.Helper()
	return dbtest.PostgresFrom(t, "store", func(url string) error {
		_, err := database.Migrate(t.Context(), store.Config{URL: url})
		return err
	})
}
