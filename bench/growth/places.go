package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"sallyport/internal/dbtest"
	"sallyport/store"
	"sallyport/store/database"
)

// host is where databases of one kind are.
type host struct {
	words  dialect
	driver string
	server *dbtest.Server // nil: SQLite
	dir    string
}

func hostOf(kind, parent, dir string) (*host, error) {
	if kind == "sqlite" {
		return &host{words: sqliteWords(), driver: "sqlite", dir: dir}, nil
	}
	server, err := dbtest.StartPostgresAt(parent, "shared_buffers=512MB", "max_wal_size=2GB")
	if err != nil {
		return nil, err
	}
	return &host{words: postgresWords(), driver: "pgx", server: server}, nil
}

func (h *host) close() {
	if h.server != nil {
		h.server.Close()
	}
}

// config makes an empty database of the name, and says what the store and the
// driver need to open it.
func (h *host) config(ctx context.Context, name string) (c store.Config, driverName string, err error) {
	if h.server == nil {
		path := filepath.Join(h.dir, name+".db")
		return store.Config{Path: path}, path, nil
	}
	db, err := sql.Open(h.driver, h.server.URL)
	if err != nil {
		return c, "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return c, "", err
	}
	url := strings.Replace(h.server.URL, "/postgres?", "/"+name+"?", 1)
	return store.Config{URL: url}, url + "&default_query_exec_mode=simple_protocol", nil
}

// fill makes a database with so many invocations.
func (h *host) fill(ctx context.Context, name string, rows int) (*place, error) {
	c, driverName, err := h.config(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := database.Migrate(ctx, c); err != nil {
		return nil, err
	}
	raw, err := sql.Open(h.driver, driverName)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(history(ctx, raw, h.words, rows), raw.Close()); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &place{db: db, rows: rows}
	return p, p.prepare(ctx)
}
