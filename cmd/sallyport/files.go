package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/store"
	"sallyport/store/files"
)

// openFiles opens where evidence is kept.
func (g *gateway) openFiles(ctx context.Context) (err error) {
	at := g.options.Evidence
	if at == "" {
		if at, err = evidenceURL(g.options.Data); err != nil {
			return err
		}
		if g.db.Shared() {
			g.log.Warn("evidence of agents is kept on this machine alone; instances that share a database should share a store of evidence, too: set --evidence", "folder", filepath.Join(g.options.Data, evidenceFolder))
		}
	}
	if g.files, err = files.Open(ctx, at); err != nil {
		return fmt.Errorf("%w (--evidence)", err)
	}
	return nil
}

// unsealedKept is how long files wait to be sealed: longer than a call of verify
// may be held.
const unsealedKept = 25 * time.Hour

// sweepEvidence removes files that nobody needs, and then what is known of
// them: if it stops between, the next round goes on.
func (g *gateway) sweepEvidence(ctx context.Context, now time.Time, limit int) (n int, err error) {
	if g.files == nil {
		return 0, nil
	}
	refs, err := g.db.GoneUploads(ctx, now.Add(-cmp.Or(g.options.Intervals.EvidenceKept, unsealedKept)), limit)
	for _, ref := range refs { // one that cannot be removed keeps no other
		one := g.files.RemoveAll(ctx, action.UploadPrefix(ref.Organization, ref.Session, ref.ID))
		if one == nil {
			one = g.db.ForgetUpload(ctx, ref)
		}
		if one != nil {
			err = errors.Join(err, one)
			continue
		}
		n++
	}
	return n, err
}

type uploadRows struct{ *store.DB }

func (r uploadRows) ReserveFile(ctx context.Context, ref dashboard.UploadRef, f action.UploadFile) (there bool, err error) {
	return r.DB.ReserveFile(ctx, store.UploadRef(ref), f)
}

func (r uploadRows) FileStored(ctx context.Context, ref dashboard.UploadRef, name string) error {
	return r.DB.FileStored(ctx, store.UploadRef(ref), name)
}

func (r uploadRows) Upload(ctx context.Context, ref dashboard.UploadRef) (action.Upload, error) {
	return r.DB.Upload(ctx, store.UploadRef(ref))
}

func (r uploadRows) ListUploads(ctx context.Context, organization, session string, q dashboard.Query) (dashboard.Page[action.Upload], error) {
	page, err := r.DB.ListUploads(ctx, organization, session, q.Limit, q.Cursor)
	return dashboard.Page[action.Upload](page), err
}

type envRows struct{ *store.DB }

func (r envRows) ListEnvRequests(ctx context.Context, f dashboard.EnvFilter) (dashboard.Page[action.EnvRequest], error) {
	page, err := r.DB.ListEnvRequests(ctx, store.EnvFilter{Organization: f.Organization, Session: f.Session, Status: f.Status, Limit: f.Limit, Cursor: f.Cursor})
	return dashboard.Page[action.EnvRequest](page), err
}

func (r envRows) DecideEnv(ctx context.Context, v dashboard.EnvVerdict) (action.EnvRequest, error) {
	return r.DB.DecideEnv(ctx, store.EnvVerdict(v))
}

func (r envRows) TakeEnv(ctx context.Context, organization, session, key string) ([]dashboard.SealedEnv, error) {
	rows, err := r.DB.TakeEnv(ctx, organization, session, key)
	list := make([]dashboard.SealedEnv, 0, len(rows))
	for _, v := range rows {
		list = append(list, dashboard.SealedEnv(v))
	}
	return list, err
}
