package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// SealUpload ends an upload: from then on people see it, and it does not
// change. Sealing again returns what was sealed. Errors: ErrNotFound;
// ErrConflict when it is gone, or bytes of a file did not arrive.
func (db *DB) SealUpload(ctx context.Context, ref action.UploadRef, folder string) (u action.Upload, err error) {
	now := db.now()
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if shared(tx) { // whoever adds a file holds it, too
			if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sessions WHERE id = ? FOR NO KEY UPDATE", ref.Session); err != nil {
				return fmt.Errorf("holding session %s: %w", ref.Session, err)
			}
		}
		u, err = sealUpload(ctx, tx, ref, folder, now)
		return err
	})
	return u, err
}

func sealUpload(ctx context.Context, tx bun.IDB, ref action.UploadRef, folder string, now time.Time) (action.Upload, error) {
	r, err := readUpload(ctx, tx, ref)
	if err != nil {
		return action.Upload{}, err
	}
	if r.GoneAt.ptr() != nil {
		return action.Upload{}, uploadGone()
	}
	files, err := uploadFiles(ctx, tx, ref)
	if err != nil || r.SealedAt.ptr() != nil {
		return r.with(files), err
	}
	var away []string
	for _, f := range files {
		if f.StoredAt == nil {
			away = append(away, f.Name)
		}
	}
	if len(away) > 0 {
		return action.Upload{}, action.NewError("upload_incomplete", len(away), away[0])
	}
	r.Folder, r.Manifest, r.SealedAt = opt(folder), opt(manifest(files)), at(now)
	if _, err := tx.NewUpdate().Model(r).Column("folder", "manifest", "sealed_at").WherePK().Exec(ctx); err != nil {
		return action.Upload{}, fmt.Errorf("sealing upload %s: %w", ref.ID, err)
	}
	return r.with(files), nil
}

// manifest is the digest of what is in an upload: of lines as sha256sum makes
// them, in the order of names, with the size before.
func manifest(files []action.UploadFile) string {
	var lines strings.Builder
	for _, f := range files {
		fmt.Fprintf(&lines, "%d %s  %s\n", f.Size, f.SHA256, f.Name)
	}
	sum := sha256.Sum256([]byte(lines.String()))
	return hex.EncodeToString(sum[:])
}

func (r *uploadRow) with(files []action.UploadFile) action.Upload {
	u := r.upload()
	u.Files, u.Count = files, len(files)
	for _, f := range files {
		u.Bytes += f.Size
	}
	return u
}

func uploadFiles(ctx context.Context, db bun.IDB, ref action.UploadRef) ([]action.UploadFile, error) {
	files, err := filesOf(ctx, db, ref.Session, []string{ref.ID})
	return append([]action.UploadFile{}, files[ref.ID]...), err
}

// filesOf reads the files of some uploads of a session, by upload.
func filesOf(ctx context.Context, db bun.IDB, session string, uploads []string) (map[string][]action.UploadFile, error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	var rows []uploadFileRow
	err := db.NewSelect().Model(&rows).Where("session_id = ?", session).Where("upload_id IN (?)", bun.List(uploads)).Order("upload_id", "name").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading files of uploads: %w", err)
	}
	files := make(map[string][]action.UploadFile, len(uploads))
	for i := range rows {
		files[rows[i].Upload] = append(files[rows[i].Upload], rows[i].file())
	}
	return files, nil
}

// Upload returns one upload with its files; ErrNotFound.
func (db *DB) Upload(ctx context.Context, ref action.UploadRef) (action.Upload, error) {
	r, err := readUpload(ctx, db.read, ref)
	if err != nil {
		return action.Upload{}, err
	}
	files, err := uploadFiles(ctx, db.read, ref)
	return r.with(files), err
}

// ListUploads returns a page of a session's uploads, newest first, with their
// files.
func (db *DB) ListUploads(ctx context.Context, organization, session string, limit int, from string) (action.Page[action.Upload], error) {
	var page action.Page[action.Upload]
	after, err := parseCursor(from)
	if err != nil {
		return page, err
	}
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("organization_id = ?", organization).Where("session_id = ?", session).Where("gone_at IS NULL")
	}
	var rows []uploadRow
	if err := newestFirst(match(db.read.NewSelect().Model(&rows)), after, pageSize(limit)).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing uploads: %w", err)
	}
	total, capped, err := countUpTo(ctx, match(db.read.NewSelect().Table("evidence_uploads")))
	if err != nil {
		return page, fmt.Errorf("counting uploads: %w", err)
	}
	ids := make([]string, 0, len(rows))
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	files, err := filesOf(ctx, db.read, session, ids)
	if err != nil {
		return page, err
	}
	list := make([]action.Upload, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].with(append([]action.UploadFile{}, files[rows[i].ID]...)))
	}
	return newPage(list, pageSize(limit), total, capped, func(u action.Upload) cursor { return cursor{at(u.CreatedAt), u.ID} }), nil
}
