package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sallyport/action"
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
