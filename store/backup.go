package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// Backup copies the SQLite file at path to a new file while another process may
// write to it. It runs in one read transaction, so the copy is a consistent
// snapshot with everything that was durable before. It does not block writers;
// their changes stay in the write-ahead log until it ends. Free pages are
// omitted, so the copy holds nothing of deleted rows.
func Backup(ctx context.Context, path, dest string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database at %s; set --data to the folder of the gateway, or --database-url if it uses PostgreSQL", path)
	}
	db, err := database.Connect(path, 1, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)"}})
	if err != nil {
		return err
	}
	defer db.Close()
	f, err := os.OpenFile(dest, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("creating the copy: %w", err)
	}
	defer f.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", dest); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return f.Sync() // SQLite does not, for a copy
}

// Integrity has SQLite check every page, index and reference of the file, and
// returns an error that describes the damage.
func (db *DB) Integrity(ctx context.Context) error {
	var found []string
	if err := db.db.Read.NewRaw("PRAGMA integrity_check(5)").Scan(ctx, &found); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("the database is damaged: %s", strings.Join(found, "; "))
	}
	var dangling int
	if err := db.db.Read.NewRaw("SELECT count(*) FROM pragma_foreign_key_check").Scan(ctx, &dangling); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if dangling > 0 {
		return fmt.Errorf("the database is damaged: %d rows refer to missing rows", dangling)
	}
	return nil
}

// StoredFile is an uploaded file in the file store.
type StoredFile struct {
	Key    string // in the file store
	Size   int64
	SHA256 string
}

// StoredFiles calls f for each stored file that rows refer to.
func (db *DB) StoredFiles(ctx context.Context, f func(StoredFile) error) error {
	rows, err := db.db.Read.NewSelect().Distinct().TableExpr("evidence_files AS f").
		Join("JOIN evidence_uploads AS u ON u.session_id = f.session_id AND u.id = f.upload_id").
		ColumnExpr("u.organization_id, u.session_id, u.id, f.sha256, f.size").
		Where("f.stored_at IS NOT NULL").Where("u.gone_at IS NULL").Rows(ctx)
	if err != nil {
		return fmt.Errorf("reading the stored files: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ref action.UploadRef
		var file StoredFile
		if err := rows.Scan(&ref.Organization, &ref.Session, &ref.ID, &file.SHA256, &file.Size); err != nil {
			return fmt.Errorf("reading the stored files: %w", err)
		}
		file.Key = action.UploadPrefix(ref.Organization, ref.Session, ref.ID) + file.SHA256
		if err := f(file); err != nil {
			return err
		}
	}
	return rows.Err()
}

// EndWaiting expires every pending or approved call, and returns their number.
// Use it on rows restored from a backup: such a call may have run after the
// backup, and must not run again.
func (db *DB) EndWaiting(ctx context.Context) (n int, err error) {
	err = db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err = calls.ExpireWaiting(ctx, tx, db.db.Now())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expiring calls that were pending at the backup: %w", err)
	}
	return n, nil
}
