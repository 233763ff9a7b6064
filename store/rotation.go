package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Rotation is a replacement of the master key. Keys are named by what tells
// nothing of them.
type Rotation struct {
	Organization string // in whose history it stands
	KeyID        string // of the key that seals from now on
	Old          []string
	By           string
}

// oldKeys are what was before a rotation, in its event.
type oldKeys struct {
	KeyIDs []string `json:"key_ids"`
}

// RecordRotation writes a rotation into the history, unless it is the newest
// one there: one that was stopped and goes on is written down once.
func (db *DB) RecordRotation(ctx context.Context, r Rotation) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		last, err := lastRotation(ctx, tx, r.Organization)
		if err != nil || last.KeyID == r.KeyID {
			return err
		}
		e := action.PolicyEvent{Organization: r.Organization, Kind: action.EventMasterKey, Subject: r.KeyID, By: r.By}
		return db.recordChange(ctx, tx, e, oldKeys{r.Old}, map[string]string{"key_id": r.KeyID})
	})
}

// LastRotation is the newest one; without a KeyID there was none.
func (db *DB) LastRotation(ctx context.Context, organization string) (Rotation, error) {
	return lastRotation(ctx, db.read, organization)
}

func lastRotation(ctx context.Context, tx bun.IDB, organization string) (r Rotation, err error) {
	var rows []policyEventRow
	var old oldKeys
	f := action.PolicyEventFilter{Organization: organization, Kind: action.EventMasterKey}
	if err = findPolicyEvents(f, tx, cursor{}, 0).Scan(ctx, &rows); err == nil && len(rows) > 0 { // a page of none, and the one that tells of more
		r = Rotation{Organization: organization, KeyID: rows[0].Subject, By: rows[0].By}
		err = json.Unmarshal([]byte(rows[0].Before), &old)
		r.Old = old.KeyIDs
	}
	if err != nil {
		err = fmt.Errorf("looking for the last rotation: %w", err)
	}
	return r, err
}
