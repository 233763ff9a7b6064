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
	"sallyport/store/database"
)

// Backup writes what the SQLite file at path holds into a new file, while
// another process may write to it. It is one read transaction: the copy is of
// one moment, and has everything that was durable before Backup was called. It
// takes no lock that a writer would wait for; what is written meanwhile stays
// in the journal until it ends. Free pages are left out, so that the copy has
// nothing of rows that were deleted.
func Backup(ctx context.Context, path, to string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database at %s; give --data the folder of the gateway, or where its rows are in PostgreSQL its --database-url", path)
	}
	db, err := database.Connect(path, 1, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)"}})
	if err != nil {
		return err
	}
	defer db.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("making the copy: %w", err)
	}
	defer f.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return f.Sync() // SQLite does not, for a copy
}

// Integrity has SQLite look at every page, index and reference of the file; the
// error says what does not hold.
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
		return fmt.Errorf("the database is damaged: %d rows refer to rows that are not there", dangling)
	}
	return nil
}

// StoredFile is where bytes are kept that an agent sent, and what they are.
type StoredFile struct {
	Key    string // in the store of files
	Size   int64
	SHA256 string
}

// StoredFiles calls f with each file that rows say is kept.
func (db *DB) StoredFiles(ctx context.Context, f func(StoredFile) error) error {
	rows, err := db.db.Read.NewSelect().Distinct().TableExpr("evidence_files AS f").
		Join("JOIN evidence_uploads AS u ON u.session_id = f.session_id AND u.id = f.upload_id").
		ColumnExpr("u.organization_id, u.session_id, u.id, f.sha256, f.size").
		Where("f.stored_at IS NOT NULL").Where("u.gone_at IS NULL").Rows(ctx)
	if err != nil {
		return fmt.Errorf("reading what files are kept: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ref action.UploadRef
		var one StoredFile
		if err := rows.Scan(&ref.Organization, &ref.Session, &ref.ID, &one.SHA256, &one.Size); err != nil {
			return fmt.Errorf("reading what files are kept: %w", err)
		}
		one.Key = action.UploadPrefix(ref.Organization, ref.Session, ref.ID) + one.SHA256
		if err := f(one); err != nil {
			return err
		}
	}
	return rows.Err()
}

// EndWaiting expires every call that is held or approved, and returns how many
// there were. It is for rows that come from a backup: such a call may have run
// after the backup was taken, and must not run again.
func (db *DB) EndWaiting(ctx context.Context) (n int, err error) {
	err = db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err = database.RowsAffected(tx.NewUpdate().Table("invocations").
			Set("status = 'expired', completed_at = ?, sealed_params = NULL", database.NewTimestamp(db.db.Now())).
			Where("status IN ('pending', 'approved')").Exec(ctx))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expiring calls that waited when the backup was taken: %w", err)
	}
	return n, nil
}
