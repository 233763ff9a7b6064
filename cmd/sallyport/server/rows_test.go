package server

import (
	"os"
	"path/filepath"
	"testing"

	"sallyport/internal/dbtest"
	"sallyport/store"
)

// withTables writes a database with tables and nothing else to path: making them
// takes a second or two on SQLite with the race detector.
func withTables(t *testing.T, path string) string {
	t.Helper()
	dbtest.FileFrom(t, "tables", path, func(path string) error { return makeTables(t, store.Config{Path: path}) })
	return path
}

// postgresTables returns the URL of such a database on PostgreSQL.
func postgresTables(t *testing.T) string {
	t.Helper()
	return dbtest.PostgresFrom(t, "tables", func(url string) error { return makeTables(t, store.Config{URL: url}) })
}

func makeTables(t *testing.T, c store.Config) error {
	t.Helper()
	db, err := store.Open(t.Context(), c)
	if err != nil {
		return err
	}
	return db.Close()
}

// prepareRows gives a gateway's new folder its tables.
func prepareRows(t *testing.T, o *Options) {
	t.Helper()
	file := filepath.Join(o.Data, "sallyport.db")
	if _, err := os.Stat(file); o.DatabaseURL == "" && os.IsNotExist(err) {
		withTables(t, file)
	}
}
