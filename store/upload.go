package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type uploadRow struct {
	bun.BaseModel `bun:"table:evidence_uploads"`

	Session      string `bun:"session_id,pk"`
	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Folder       opt    `bun:"folder"`
	Manifest     opt    `bun:"manifest"`
	CreatedAt    stamp  `bun:"created_at"`
	TouchedAt    stamp  `bun:"touched_at"`
	SealedAt     stamp  `bun:"sealed_at"`
	GoneAt       stamp  `bun:"gone_at"`
}

func (r *uploadRow) upload() action.Upload {
	return action.Upload{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Folder: string(r.Folder), Manifest: string(r.Manifest),
		Prefix: action.UploadPrefix(r.Organization, r.Session, r.ID), CreatedAt: r.CreatedAt.t, SealedAt: r.SealedAt.ptr(),
	}
}

type uploadFileRow struct {
	bun.BaseModel `bun:"table:evidence_files"`

	Session  string `bun:"session_id,pk"`
	Upload   string `bun:"upload_id,pk"`
	Name     string `bun:"name,pk"`
	Size     int64  `bun:"size"`
	SHA256   string `bun:"sha256"`
	Type     string `bun:"content_type"`
	StoredAt stamp  `bun:"stored_at"`
}

func (r *uploadFileRow) file() action.UploadFile {
	return action.UploadFile{Name: r.Name, Size: r.Size, SHA256: r.SHA256, Type: r.Type, StoredAt: r.StoredAt.ptr()}
}

// ReserveFile makes room for a file in an upload, and the upload with its first
// file. There tells that its bytes are stored already. Errors: ErrInvalid and
// ErrTooLarge of the file; those of a session that is unknown or not live;
// ErrConflict when other bytes have the name, or the upload is sealed or gone;
// ErrTooLarge when it would have too many files or bytes, or its session.
func (db *DB) ReserveFile(ctx context.Context, ref action.UploadRef, f action.UploadFile) (there bool, err error) {
	if !action.ValidUploadID(ref.ID) {
		return false, invalid("/upload", "An upload is named by a UUID, in lower case.")
	}
	if err := f.Check(); err != nil {
		return false, err
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		there, err = db.reserve(ctx, tx, ref, f)
		return err
	})
	return there, err
}

func (db *DB) reserve(ctx context.Context, tx bun.Tx, ref action.UploadRef, f action.UploadFile) (there bool, err error) {
	s, err := sessionIn(ctx, tx, ref.Organization, ref.Session)
	if err != nil {
		return false, err
	}
	now := db.now()
	if err := s.Accepts(now); err != nil {
		return false, err
	}
	u, err := touchUpload(ctx, tx, ref, at(now))
	if err != nil {
		return false, err
	}
	row := &uploadFileRow{Session: ref.Session, Upload: ref.ID, Name: f.Name}
	err = tx.NewSelect().Model(row).WherePK().Scan(ctx)
	switch {
	case err == nil && (row.SHA256 != f.SHA256 || row.Size != f.Size):
		return false, action.NewError("other_bytes")
	case err == nil && row.StoredAt.ptr() != nil:
		return true, nil
	case u.SealedAt.ptr() != nil:
		return false, action.NewError("upload_sealed")
	case err == nil:
		return false, nil
	case !errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("reading a file of upload %s: %w", ref.ID, err)
	}
	if err := roomFor(ctx, tx, ref, f.Size); err != nil {
		return false, err
	}
	row = &uploadFileRow{Session: ref.Session, Upload: ref.ID, Name: f.Name, Size: f.Size, SHA256: f.SHA256, Type: action.GuessType(f.Name)}
	if _, err := tx.NewInsert().Model(row).Exec(ctx); err != nil {
		return false, fmt.Errorf("writing a file of upload %s: %w", ref.ID, err)
	}
	return false, nil
}

// touchUpload returns the upload, which is made if there is none. The session's
// row is held first, so that what its uploads have in all is counted by one at
// a time.
func touchUpload(ctx context.Context, tx bun.Tx, ref action.UploadRef, now stamp) (*uploadRow, error) {
	if shared(tx) {
		if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sessions WHERE id = ? FOR NO KEY UPDATE", ref.Session); err != nil {
			return nil, fmt.Errorf("holding session %s: %w", ref.Session, err)
		}
	}
	made, err := affected(tx.NewInsert().Model(&uploadRow{Session: ref.Session, ID: ref.ID, Organization: ref.Organization, CreatedAt: now, TouchedAt: now}).
		On("CONFLICT (session_id, id) DO NOTHING").Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("writing upload %s: %w", ref.ID, err)
	}
	if made > 0 {
		if err := oneMoreUpload(ctx, tx, ref); err != nil {
			return nil, err
		}
	} else if _, err := tx.NewUpdate().Table("evidence_uploads").Set("touched_at = ?", now).
		Where("session_id = ?", ref.Session).Where("id = ?", ref.ID).Where("sealed_at IS NULL").Where("gone_at IS NULL").Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing upload %s: %w", ref.ID, err)
	}
	u, err := readUpload(ctx, tx, ref)
	if err != nil {
		return nil, err
	}
	if u.GoneAt.ptr() != nil {
		return nil, uploadGone()
	}
	return u, nil
}

func oneMoreUpload(ctx context.Context, tx bun.Tx, ref action.UploadRef) error {
	n, err := tx.NewSelect().Table("evidence_uploads").Where("session_id = ?", ref.Session).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting uploads of session %s: %w", ref.Session, err)
	}
	if n > action.MaxUploads {
		return action.NewError("too_many_uploads", action.MaxUploads)
	}
	return nil
}

// roomFor refuses a file that would be too much for its upload or its session.
func roomFor(ctx context.Context, tx bun.Tx, ref action.UploadRef, size int64) error {
	sum := func(q *bun.SelectQuery) (count int, bytes int64, err error) {
		err = q.Table("evidence_files").ColumnExpr("count(*), coalesce(sum(size), 0)").Where("session_id = ?", ref.Session).Scan(ctx, &count, &bytes)
		return count, bytes, err
	}
	count, bytes, err := sum(tx.NewSelect().Where("upload_id = ?", ref.ID))
	if err != nil {
		return fmt.Errorf("counting files of upload %s: %w", ref.ID, err)
	}
	if count >= action.MaxUploadFiles || bytes+size > action.MaxUploadBytes {
		return action.NewError("upload_full", action.MaxUploadFiles, action.MaxUploadBytes>>20)
	}
	_, all, err := sum(tx.NewSelect())
	if err != nil {
		return fmt.Errorf("counting files of session %s: %w", ref.Session, err)
	}
	if all+size > action.MaxUploadedEver {
		return action.NewError("evidence_full", action.MaxUploadedEver>>20)
	}
	return nil
}

// FileStored writes down that the bytes of a file are there. ErrConflict when
// its upload is gone meanwhile.
func (db *DB) FileStored(ctx context.Context, ref action.UploadRef, name string) error {
	now := at(db.now())
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewUpdate().Table("evidence_files").Set("stored_at = coalesce(stored_at, ?)", now).
			Where("session_id = ?", ref.Session).Where("upload_id = ?", ref.ID).Where("name = ?", name).
			Where("EXISTS (SELECT 1 FROM evidence_uploads AS u WHERE u.session_id = evidence_files.session_id AND u.id = evidence_files.upload_id AND u.organization_id = ? AND u.sealed_at IS NULL AND u.gone_at IS NULL)", ref.Organization).
			Exec(ctx))
		if err != nil {
			return fmt.Errorf("writing that a file of upload %s is stored: %w", ref.ID, err)
		}
		if n > 0 {
			return nil
		}
		if u, err := readUpload(ctx, tx, ref); err == nil && u.SealedAt.ptr() != nil {
			return nil // who sealed it saw the bytes
		}
		return uploadGone()
	})
}

func uploadGone() error {
	return action.NewError("upload_gone")
}

func readUpload(ctx context.Context, db bun.IDB, ref action.UploadRef) (*uploadRow, error) {
	r, err := one[uploadRow](ctx, rowsOf[uploadRow](db, ref.Organization).Where("session_id = ?", ref.Session).Where("id = ?", ref.ID),
		action.NewError("upload_not_found"))
	return &r, err
}
