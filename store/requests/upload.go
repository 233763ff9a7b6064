package requests

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

type uploadRow struct {
	bun.BaseModel `bun:"table:evidence_uploads"`

	Session      string              `bun:"session_id,pk"`
	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Folder       database.NullString `bun:"folder"`
	Manifest     database.NullString `bun:"manifest"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	TouchedAt    database.Timestamp  `bun:"touched_at"`
	SealedAt     database.Timestamp  `bun:"sealed_at"`
	GoneAt       database.Timestamp  `bun:"gone_at"`
}

type uploadFileRow struct {
	bun.BaseModel `bun:"table:evidence_files"`

	Session  string             `bun:"session_id,pk"`
	Upload   string             `bun:"upload_id,pk"`
	Name     string             `bun:"name,pk"`
	Size     int64              `bun:"size"`
	SHA256   string             `bun:"sha256"`
	Type     string             `bun:"content_type"`
	StoredAt database.Timestamp `bun:"stored_at"`
}

// ReserveFile adds a file to an upload, which it creates with the first file. stored
// reports whether the bytes of the file are stored already. Errors: ErrInvalid and
// ErrTooLarge of the file; those of a session that is unknown or has ended;
// ErrConflict if the name has other bytes, or the upload is sealed or abandoned;
// ErrTooLarge if the upload or its session would exceed its limits.
func (st *Store) ReserveFile(ctx context.Context, ref action.UploadRef, f action.UploadFile) (stored bool, err error) {
	if !action.ValidUploadID(ref.ID) {
		return false, database.Invalid("/upload", "The ID of an upload must be a UUID in lower case.")
	}
	if err := f.Check(); err != nil {
		return false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		stored, err = st.reserve(ctx, tx, ref, f)
		return err
	})
	return stored, err
}

func (st *Store) reserve(ctx context.Context, tx bun.Tx, ref action.UploadRef, f action.UploadFile) (stored bool, err error) {
	s, err := sessions.ReadSession(ctx, tx, ref.Organization, ref.Session)
	if err != nil {
		return false, err
	}
	now := st.db.Now()
	if err := s.Accepts(now); err != nil {
		return false, err
	}
	u, err := touchUpload(ctx, tx, ref, database.NewTimestamp(now))
	if err != nil {
		return false, err
	}
	row := &uploadFileRow{Session: ref.Session, Upload: ref.ID, Name: f.Name}
	err = tx.NewSelect().Model(row).WherePK().Scan(ctx)
	switch {
	case err == nil && (row.SHA256 != f.SHA256 || row.Size != f.Size):
		return false, action.NewError("other_bytes")
	case err == nil && row.StoredAt.Ptr() != nil:
		return true, nil
	case u.SealedAt.Ptr() != nil:
		return false, action.NewError("upload_sealed")
	case err == nil:
		return false, nil
	case !errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("reading a file of upload %s: %w", ref.ID, err)
	}
	if err := checkUploadSize(ctx, tx, ref, f.Size); err != nil {
		return false, err
	}
	row = &uploadFileRow{Session: ref.Session, Upload: ref.ID, Name: f.Name, Size: f.Size, SHA256: f.SHA256, Type: action.GuessType(f.Name)}
	if _, err := tx.NewInsert().Model(row).Exec(ctx); err != nil {
		return false, fmt.Errorf("writing a file of upload %s: %w", ref.ID, err)
	}
	return false, nil
}

// touchUpload returns the upload, created if it does not exist. It locks the session's
// row first, so that only one transaction at a time counts the session's uploads.
func touchUpload(ctx context.Context, tx bun.Tx, ref action.UploadRef, now database.Timestamp) (*uploadRow, error) {
	if database.Shared(tx) {
		if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sessions WHERE id = ? FOR NO KEY UPDATE", ref.Session); err != nil {
			return nil, fmt.Errorf("locking session %s: %w", ref.Session, err)
		}
	}
	created, err := database.RowsAffected(tx.NewInsert().Model(&uploadRow{Session: ref.Session, ID: ref.ID, Organization: ref.Organization, CreatedAt: now, TouchedAt: now}).
		On("CONFLICT (session_id, id) DO NOTHING").Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("writing upload %s: %w", ref.ID, err)
	}
	if created > 0 {
		n, err := tx.NewSelect().Table("evidence_uploads").Where("session_id = ?", ref.Session).Count(ctx)
		if err != nil {
			return nil, fmt.Errorf("counting uploads of session %s: %w", ref.Session, err)
		}
		if n > action.MaxUploads {
			return nil, action.NewError("too_many_uploads", action.MaxUploads)
		}
	} else if _, err := tx.NewUpdate().Table("evidence_uploads").Set("touched_at = ?", now).
		Where("session_id = ?", ref.Session).Where("id = ?", ref.ID).Where("sealed_at IS NULL").Where("gone_at IS NULL").Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing upload %s: %w", ref.ID, err)
	}
	u, err := readUpload(ctx, tx, ref)
	if err != nil {
		return nil, err
	}
	if u.GoneAt.Ptr() != nil {
		return nil, uploadGone()
	}
	return u, nil
}

// checkUploadSize refuses a file that exceeds the limits of its upload or session.
func checkUploadSize(ctx context.Context, tx bun.Tx, ref action.UploadRef, size int64) error {
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
	if all+size > action.MaxSessionUploadBytes {
		return action.NewError("evidence_full", action.MaxSessionUploadBytes>>20)
	}
	return nil
}

// FileStored records that the bytes of a file are stored. ErrConflict if its upload
// was abandoned.
func (st *Store) FileStored(ctx context.Context, ref action.UploadRef, name string) error {
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("evidence_files").Set("stored_at = coalesce(stored_at, ?)", now).
			Where("session_id = ?", ref.Session).Where("upload_id = ?", ref.ID).Where("name = ?", name).
			Where("EXISTS (SELECT 1 FROM evidence_uploads AS u WHERE u.session_id = evidence_files.session_id AND u.id = evidence_files.upload_id AND u.organization_id = ? AND u.sealed_at IS NULL AND u.gone_at IS NULL)", ref.Organization).
			Exec(ctx))
		if err != nil {
			return fmt.Errorf("recording a stored file of upload %s: %w", ref.ID, err)
		}
		if n > 0 {
			return nil
		}
		if u, err := readUpload(ctx, tx, ref); err == nil && u.SealedAt.Ptr() != nil {
			return nil // the seal checked that the bytes are stored
		}
		return uploadGone()
	})
}

func uploadGone() error {
	return action.NewError("upload_gone")
}

func readUpload(ctx context.Context, db bun.IDB, ref action.UploadRef) (*uploadRow, error) {
	r, err := database.One[uploadRow](ctx, database.RowsOf[uploadRow](db, ref.Organization).Where("session_id = ?", ref.Session).Where("id = ?", ref.ID),
		action.NewError("upload_not_found"))
	return &r, err
}

// SealUpload seals an upload: it becomes visible and immutable. Sealing it again
// returns the sealed upload. Errors: ErrNotFound; ErrConflict if it was abandoned or
// the bytes of a file are missing.
func (st *Store) SealUpload(ctx context.Context, ref action.UploadRef, folder string) (u action.Upload, err error) {
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if database.Shared(tx) { // ReserveFile takes the same lock
			if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sessions WHERE id = ? FOR NO KEY UPDATE", ref.Session); err != nil {
				return fmt.Errorf("locking session %s: %w", ref.Session, err)
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
	if r.GoneAt.Ptr() != nil {
		return action.Upload{}, uploadGone()
	}
	files, err := uploadFiles(ctx, tx, ref)
	if err != nil || r.SealedAt.Ptr() != nil {
		return r.withFiles(files), err
	}
	var missing []string
	for _, f := range files {
		if f.StoredAt == nil {
			missing = append(missing, f.Name)
		}
	}
	if len(missing) > 0 {
		return action.Upload{}, action.NewError("upload_incomplete", len(missing), missing[0])
	}
	r.Folder, r.Manifest, r.SealedAt = database.NullString(folder), database.NullString(manifest(files)), database.NewTimestamp(now)
	if _, err := tx.NewUpdate().Model(r).Column("folder", "manifest", "sealed_at").WherePK().Exec(ctx); err != nil {
		return action.Upload{}, fmt.Errorf("sealing upload %s: %w", ref.ID, err)
	}
	return r.withFiles(files), nil
}

// manifest returns the digest of an upload: the SHA-256 of one line per file, sorted
// by name, in the format of sha256sum with the size in front.
func manifest(files []action.UploadFile) string {
	var lines strings.Builder
	for _, f := range files {
		fmt.Fprintf(&lines, "%d %s  %s\n", f.Size, f.SHA256, f.Name)
	}
	sum := sha256.Sum256([]byte(lines.String()))
	return hex.EncodeToString(sum[:])
}

func (r *uploadRow) withFiles(files []action.UploadFile) action.Upload {
	u := action.Upload{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Folder: string(r.Folder), Manifest: string(r.Manifest),
		Prefix: action.UploadPrefix(r.Organization, r.Session, r.ID), CreatedAt: r.CreatedAt.Time, SealedAt: r.SealedAt.Ptr(), Files: files, Count: len(files),
	}
	for _, f := range files {
		u.Bytes += f.Size
	}
	return u
}

func uploadFiles(ctx context.Context, db bun.IDB, ref action.UploadRef) ([]action.UploadFile, error) {
	files, err := filesByUpload(ctx, db, ref.Session, []string{ref.ID})
	return append([]action.UploadFile{}, files[ref.ID]...), err
}

// filesByUpload reads the files of uploads of a session, by upload id.
func filesByUpload(ctx context.Context, db bun.IDB, session string, uploads []string) (map[string][]action.UploadFile, error) {
	if len(uploads) == 0 {
		return nil, nil
	}
	var rows []uploadFileRow
	err := db.NewSelect().Model(&rows).Where("session_id = ?", session).Where("upload_id IN (?)", bun.List(uploads)).Order("upload_id", "name").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading files of uploads: %w", err)
	}
	files := make(map[string][]action.UploadFile, len(uploads))
	for _, r := range rows {
		files[r.Upload] = append(files[r.Upload], action.UploadFile{Name: r.Name, Size: r.Size, SHA256: r.SHA256, Type: r.Type, StoredAt: r.StoredAt.Ptr()})
	}
	return files, nil
}

// Upload returns an upload with its files; ErrNotFound.
func (st *Store) Upload(ctx context.Context, ref action.UploadRef) (action.Upload, error) {
	r, err := readUpload(ctx, st.db.Read, ref)
	if err != nil {
		return action.Upload{}, err
	}
	files, err := uploadFiles(ctx, st.db.Read, ref)
	return r.withFiles(files), err
}

// ListUploads returns a page of a session's uploads, newest first, with their files.
// It omits abandoned ones.
func (st *Store) ListUploads(ctx context.Context, organization, session string, limit int, cursor string) (action.Page[action.Upload], error) {
	var page action.Page[action.Upload]
	after, err := database.ParseCursor(cursor)
	if err != nil {
		return page, err
	}
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("organization_id = ?", organization).Where("session_id = ?", session).Where("gone_at IS NULL")
	}
	var rows []uploadRow
	if err := database.NewestFirst(match(st.db.Read.NewSelect().Model(&rows)), after, database.PageSize(limit)).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing uploads: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, match(st.db.Read.NewSelect().Table("evidence_uploads")))
	if err != nil {
		return page, fmt.Errorf("counting uploads: %w", err)
	}
	ids := make([]string, 0, len(rows))
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	files, err := filesByUpload(ctx, st.db.Read, session, ids)
	if err != nil {
		return page, err
	}
	list := make([]action.Upload, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].withFiles(append([]action.UploadFile{}, files[rows[i].ID]...)))
	}
	return database.NewPage(list, database.PageSize(limit), total, capped, func(u action.Upload) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(u.CreatedAt), ID: u.ID}
	}), nil
}

// GoneUploads abandons unsealed uploads without activity since a time; they accept no
// further files. It returns at most limit uploads whose files must be removed: these,
// and those of deleted sessions.
func (st *Store) GoneUploads(ctx context.Context, before time.Time, limit int) ([]action.UploadRef, error) {
	open := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Table("evidence_uploads").Where("sealed_at IS NULL").Where("gone_at IS NULL").Where("touched_at < ?", database.NewTimestamp(before))
	}
	exists, err := database.Exists(ctx, open(st.db.Read.NewSelect().ColumnExpr("1")).Limit(1))
	if err == nil && exists {
		err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
			ids := open(tx.NewSelect().ColumnExpr("session_id, id")).Order("touched_at").Limit(int64(database.LimitOrDefault(limit)))
			_, err := tx.NewUpdate().Table("evidence_uploads").Set("gone_at = ?", database.NewTimestamp(st.db.Now())).
				Where("(session_id, id) IN (?)", ids).Where("sealed_at IS NULL").Where("touched_at < ?", database.NewTimestamp(before)).Exec(ctx)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("abandoning uploads: %w", err)
	}
	var rows []uploadRow
	err = st.db.Read.NewSelect().Model(&rows).Where("gone_at IS NOT NULL").Order("gone_at").Limit(int64(database.LimitOrDefault(limit))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading abandoned uploads: %w", err)
	}
	return database.Values(rows, func(r *uploadRow) action.UploadRef {
		return action.UploadRef{Organization: r.Organization, Session: r.Session, ID: r.ID}
	}), nil
}

// ForgetUpload deletes the rows of an abandoned upload, after its files are removed.
func (st *Store) ForgetUpload(ctx context.Context, ref action.UploadRef) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("evidence_uploads").Where("organization_id = ?", ref.Organization).
			Where("session_id = ?", ref.Session).Where("id = ?", ref.ID).Where("gone_at IS NOT NULL").Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting upload %s: %w", ref.ID, err)
		}
		return nil
	})
}
