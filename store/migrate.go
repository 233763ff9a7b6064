package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"time"

	"github.com/uptrace/bun"
)

// migration is one applied file. The checksum tells when it was edited
// afterwards: then the tables are not what the files say.
type migration struct {
	bun.BaseModel `bun:"table:schema_migrations"`

	Name      string `bun:"name,pk"`
	Checksum  string `bun:"checksum"`
	AppliedAt stamp  `bun:"applied_at"`
}

const migrationTable = `CREATE TABLE IF NOT EXISTS schema_migrations (
	name TEXT NOT NULL PRIMARY KEY, checksum TEXT NOT NULL, applied_at TEXT NOT NULL)`

// migrate brings the tables up to date, each file in one transaction with the
// row that says so.
func migrate(ctx context.Context, db *bun.DB, now func() time.Time) error {
	files, err := migrations()
	if err != nil {
		return err
	}
	return migrateFiles(ctx, db, files, now)
}

func migrateFiles(ctx context.Context, db *bun.DB, files fs.FS, now func() time.Time) error {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, migrationTable); err != nil {
		return fmt.Errorf("making the table of migrations: %w", err)
	}
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := migrateFile(ctx, db, name, text, applied, now()); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		delete(applied, name)
	}
	for name := range applied {
		return fmt.Errorf("migration %s was applied by a newer version of this program; use that version", name)
	}
	return nil
}

func appliedMigrations(ctx context.Context, db *bun.DB) (map[string]string, error) {
	var rows []migration
	if err := db.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading applied migrations: %w", err)
	}
	applied := make(map[string]string, len(rows))
	for _, m := range rows {
		applied[m.Name] = m.Checksum
	}
	return applied, nil
}

func migrateFile(ctx context.Context, db *bun.DB, name string, text []byte, applied map[string]string, now time.Time) error {
	sum := sha256.Sum256(text)
	m := &migration{Name: name, Checksum: hex.EncodeToString(sum[:]), AppliedAt: at(now)}
	if before, ok := applied[name]; ok {
		if before != m.Checksum {
			return fmt.Errorf("the file differs from what was applied to this database (sha256 %.12s, applied %.12s); use the version of the program that wrote it", m.Checksum, before)
		}
		return nil
	}
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		// The embedded transaction runs the text as it is: bun's own would
		// look for placeholders in it.
		if _, err := tx.Tx.ExecContext(ctx, string(text)); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(m).Exec(ctx)
		return err
	})
}
