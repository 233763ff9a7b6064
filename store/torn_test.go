package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"sallyport/action"
)

// torn is a database whose answers break off before their first row.
type torn struct{ driver.Conn }

var errTorn = errors.New("torn")

func (t torn) Connect(context.Context) (driver.Conn, error) { return t, nil }

func (torn) Driver() driver.Driver { return nil }

func (torn) Close() error { return nil }

func (t torn) Prepare(string) (driver.Stmt, error) { return tornStmt{}, nil }

type tornStmt struct{ driver.Stmt }

func (tornStmt) Close() error { return nil }

func (tornStmt) NumInput() int { return -1 }

func (tornStmt) Query([]driver.Value) (driver.Rows, error) { return tornStmt{}, nil }

func (tornStmt) Columns() []string { return []string{"id"} }

func (tornStmt) Next([]driver.Value) error { return errTorn }

// A read that broke off says nothing of what there is: a session of which that is
// taken for an answer ends.
func TestAbortedReadsAreErrors(t *testing.T) {
	pool := sql.OpenDB(torn{})
	t.Cleanup(func() { pool.Close() })
	db := openAt(t, newPath(t))
	db.db.Read = bun.NewDB(pool, sqlitedialect.New())
	for _, s := range db.db.Statements() {
		err := s.Prepared.Close()
		if err != nil {
			t.Fatal(err)
		}
		if s.Prepared, err = pool.PrepareContext(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func() error{
		"session":    func() error { _, err := db.Session(t.Context(), "s"); return err },
		"user":       func() error { _, err := db.User(t.Context(), "o", "u"); return err },
		"key":        func() error { _, _, err := db.APIKey(t.Context(), "k"); return err },
		"returning":  func() error { _, err := db.CallerFeatures(t.Context(), "o", "i"); return err },
		"connectors": func() error { _, err := db.ListConnectors(t.Context(), "o"); return err },
	} {
		if err := read(); !errors.Is(err, errTorn) || errors.Is(err, action.ErrNotFound) || strings.Contains(err.Error(), "no rows") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
