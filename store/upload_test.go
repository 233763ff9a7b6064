package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
)

func liveSession(t *testing.T, db *DB) action.Session {
	t.Helper()
	s, err := db.CreateSession(t.Context(), action.Session{Organization: "default", CreatedBy: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newUpload(s action.Session) action.UploadRef {
	return action.UploadRef{Organization: s.Organization, Session: s.ID, ID: uuid.NewString()}
}

func aFile(name string, size int64) action.UploadFile {
	return action.UploadFile{Name: name, Size: size, SHA256: strings.Repeat("ab", 32)}
}

func sends(t *testing.T, db *DB, ref action.UploadRef, f action.UploadFile) {
	t.Helper()
	if _, err := db.ReserveFile(t.Context(), ref, f); err != nil {
		t.Fatal(err)
	}
	if err := db.FileStored(t.Context(), ref, f.Name); err != nil {
		t.Fatal(err)
	}
}

func refusedAs(t *testing.T, err error, kind error, code string) {
	t.Helper()
	if !errors.Is(err, kind) || action.Public(err).Code != code {
		t.Errorf("want %s, got %v", code, err)
	}
}

func TestSealUploadOnce(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		s := liveSession(t, db)
		ref := newUpload(s)
		sends(t, db, ref, aFile("b/log.txt", 5))
		if _, err := db.ReserveFile(t.Context(), ref, aFile("a.png", 7)); err != nil {
			t.Fatal(err)
		}
		_, err := db.SealUpload(t.Context(), ref, "")
		refusedAs(t, err, action.ErrConflict, "upload_incomplete")
		if err := db.FileStored(t.Context(), ref, "a.png"); err != nil {
			t.Fatal(err)
		}
		there, err := db.ReserveFile(t.Context(), ref, aFile("a.png", 7))
		if !there || err != nil {
			t.Errorf("the same bytes again: %v, %v", there, err)
		}
		_, err = db.ReserveFile(t.Context(), ref, aFile("a.png", 8))
		refusedAs(t, err, action.ErrConflict, "other_bytes")

		u, err := db.SealUpload(t.Context(), ref, ".sallyport/verification/")
		if err != nil || u.Count != 2 || u.Bytes != 12 || u.Files[0].Name != "a.png" || u.Files[0].Type != "image/png" || u.SealedAt == nil || len(u.Manifest) != 64 {
			t.Fatalf("%+v, %v", u, err)
		}
		again, err := db.SealUpload(t.Context(), ref, "another")
		if diff := cmp.Diff(u, again); diff != "" || err != nil {
			t.Errorf("sealed again, %v:\n%s", err, diff)
		}
		read, err := db.Upload(t.Context(), ref)
		if diff := cmp.Diff(u, read); diff != "" || err != nil {
			t.Errorf("read, %v:\n%s", err, diff)
		}
		_, err = db.ReserveFile(t.Context(), ref, aFile("new", 1))
		refusedAs(t, err, action.ErrConflict, "upload_sealed")
		if there, err := db.ReserveFile(t.Context(), ref, aFile("a.png", 7)); !there || err != nil {
			t.Errorf("what is sealed, again: %v, %v", there, err)
		}
		open := newUpload(s)
		sends(t, db, open, aFile("moves", 1))
		for _, change := range []string{
			`UPDATE evidence_files SET upload_id = '` + open.ID + `' WHERE upload_id = '` + ref.ID + `' AND name = 'a.png'`,
			`UPDATE evidence_files SET upload_id = '` + ref.ID + `' WHERE upload_id = '` + open.ID + `'`,
			`UPDATE evidence_files SET sha256 = '` + strings.Repeat("c", 64) + `' WHERE session_id = '` + s.ID + `'`,
			`UPDATE evidence_uploads SET folder = 'x' WHERE session_id = '` + s.ID + `'`,
			`INSERT INTO evidence_files (session_id, upload_id, name, size, sha256, content_type) VALUES ('` + s.ID + `', '` + ref.ID + `', 'late', 1, '` + strings.Repeat("c", 64) + `', 'x')`,
		} {
			if _, err := raw.ExecContext(t.Context(), change); err == nil {
				t.Errorf("sealed evidence was changed by %s", change)
			}
		}
	})
}

func TestUploadsAreScoped(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		mine, other := liveSession(t, db), liveSession(t, db)
		ref := newUpload(mine)
		sends(t, db, ref, aFile("a", 1))
		for _, wrong := range []action.UploadRef{
			{Organization: "org2", Session: mine.ID, ID: ref.ID},
			{Organization: mine.Organization, Session: other.ID, ID: ref.ID},
			{Organization: mine.Organization, Session: mine.ID, ID: uuid.NewString()},
		} {
			_, err := db.Upload(t.Context(), wrong)
			refusedAs(t, err, action.ErrNotFound, "upload_not_found")
			_, err = db.SealUpload(t.Context(), wrong, "")
			refusedAs(t, err, action.ErrNotFound, "upload_not_found")
			if err := db.FileStored(t.Context(), wrong, "a"); err == nil {
				t.Errorf("%v: stored", wrong)
			}
		}
		_, err := db.ReserveFile(t.Context(), action.UploadRef{Organization: "org2", Session: mine.ID, ID: ref.ID}, aFile("a", 1))
		refusedAs(t, err, action.ErrNotFound, "session_not_found")
		if _, err := db.RevokeSession(t.Context(), mine.Organization, mine.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ReserveFile(t.Context(), ref, aFile("b", 1)); !errors.Is(err, action.ErrUnauthenticated) {
			t.Errorf("a revoked session sends: %v", err)
		}
		page, err := db.ListUploads(t.Context(), mine.Organization, mine.ID, 0, "")
		if err != nil || len(page.Items) != 1 || page.Items[0].Count != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		if page, err = db.ListUploads(t.Context(), "org2", mine.ID, 0, ""); err != nil || len(page.Items) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// However many uploads a page has, their files are read at once.
func TestListUploads(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		s := liveSession(t, db)
		for i := range 5 {
			ref := newUpload(s)
			for f := range max(i, 1) {
				sends(t, db, ref, aFile(fmt.Sprint(f), int64(f)))
			}
		}
		reads := &writes{}
		db.db.Read = db.db.Read.WithQueryHook(reads)
		page, err := db.ListUploads(t.Context(), s.Organization, s.ID, 0, "")
		if err != nil || reads.n > 3 {
			t.Errorf("%d statements for %d uploads, %v", reads.n, len(page.Items), err)
		}
		var counts []int
		for _, u := range page.Items {
			if again, err := db.Upload(t.Context(), action.UploadRef{Organization: u.Organization, Session: u.Session, ID: u.ID}); err != nil || cmp.Diff(again, u) != "" {
				t.Errorf("%v: in the list it is\n%s", err, cmp.Diff(again, u))
			}
			counts = append(counts, u.Count)
		}
		if fmt.Sprint(counts) != "[4 3 2 1 1]" {
			t.Errorf("files %v", counts)
		}
	})
}

func TestUploadLimits(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		s := liveSession(t, db)
		ref := newUpload(s)
		_, err := db.ReserveFile(t.Context(), ref, aFile("big", action.MaxUploadFile+1))
		refusedAs(t, err, action.ErrTooLarge, "file_too_large")
		for i := range 4 {
			sends(t, db, ref, aFile(fmt.Sprint(i), action.MaxUploadFile))
		}
		_, err = db.ReserveFile(t.Context(), ref, aFile("over", 1))
		refusedAs(t, err, action.ErrTooLarge, "upload_full")
		for range 4 {
			next := newUpload(s)
			for i := range 4 {
				sends(t, db, next, aFile(fmt.Sprint(i), action.MaxUploadFile))
			}
		}
		_, err = db.ReserveFile(t.Context(), newUpload(s), aFile("over", 1))
		refusedAs(t, err, action.ErrTooLarge, "evidence_full")

		many := newUpload(liveSession(t, db))
		var wait sync.WaitGroup
		var mu sync.Mutex
		taken := 0
		for i := range 110 {
			wait.Go(func() {
				if _, err := db.ReserveFile(t.Context(), many, aFile(fmt.Sprint(i), 0)); err == nil {
					mu.Lock()
					defer mu.Unlock()
					taken++
				}
			})
		}
		wait.Wait()
		if taken != action.MaxUploadFiles {
			t.Errorf("%d files at once were taken", taken)
		}
	})
}

func TestUploadFileNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "/a", "a//b", "a/", "./a", "../a", "a/../b", "a/..", `a\b`, "a\x00b", "a\nb", "a\x7f", "\xff", strings.Repeat("a", 301)} {
		f := aFile(name, 1)
		if err := f.Check(); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("%q is taken: %v", name, err)
		}
	}
	for _, name := range []string{"a", "a b/ü.png", "..a", "a..", `"quoted" 'name' <b>;&.html`, "a\u202eb", ".hidden", strings.Repeat("a", 300)} {
		f := aFile(name, 1)
		if err := f.Check(); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
}

func TestAbandonedUploads(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		s, gone := liveSession(t, db), liveSession(t, db)
		open, kept, orphan := newUpload(s), newUpload(s), newUpload(gone)
		for _, ref := range []action.UploadRef{open, kept, orphan} {
			sends(t, db, ref, aFile("a", 1))
		}
		for _, ref := range []action.UploadRef{kept, orphan} {
			if _, err := db.SealUpload(t.Context(), ref, ""); err != nil {
				t.Fatal(err)
			}
		}
		due := func(before time.Time) []action.UploadRef {
			refs, err := db.GoneUploads(t.Context(), before, 10)
			if err != nil {
				t.Fatal(err)
			}
			return refs
		}
		if refs := due(db.db.Now().Add(-time.Hour)); len(refs) != 0 {
			t.Errorf("given up too early: %v", refs)
		}
		if _, err := raw.ExecContext(t.Context(), `DELETE FROM sessions WHERE id = '`+gone.ID+`'`); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a sweep that was interrupted goes on
			if diff := cmp.Diff([]action.UploadRef{orphan, open}, due(db.db.Now().Add(time.Second))); diff != "" {
				t.Errorf("what goes:\n%s", diff)
			}
		}
		_, err := db.ReserveFile(t.Context(), open, aFile("b", 1))
		refusedAs(t, err, action.ErrConflict, "upload_gone")
		_, err = db.SealUpload(t.Context(), open, "")
		refusedAs(t, err, action.ErrConflict, "upload_gone")
		for _, ref := range []action.UploadRef{orphan, open, kept} {
			if err := db.ForgetUpload(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		var left int
		if err := raw.QueryRowContext(t.Context(), `SELECT count(*) FROM evidence_files`).Scan(&left); err != nil || left != 1 {
			t.Errorf("%d files are left, %v", left, err)
		}
	})
}
