package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/vault"
	"sallyport/store"
)

// rotation replaces the master key. Each step is idempotent, so that a rotation
// whose process died can be resumed.
type rotation struct {
	*Gateway
	by         string        // the user who requested it
	writeGrace time.Duration // how long writes with the old key may take to commit
	known      bool          // the database already recorded the sealing key
	resealed   int           // values sealed with the new key
	left       int           // values that could not be resealed
}

func (r *rotation) steps() []func(context.Context) error {
	return []func(context.Context) error{r.storeStableKeys, r.replaceKeyFile, r.recordRotation, r.reseal, r.waitForWriters, r.reseal, r.updateFingerprint, r.dropOldKeys}
}

// rotationWriteGrace exceeds the response time of SQLite's single writer.
const rotationWriteGrace = 3 * time.Second

// rotate seals all values with a new master key, or resumes a rotation in
// progress.
func (g *Gateway) rotate(ctx context.Context, organization, by string) (api.Rotated, error) {
	if organization != store.DefaultOrganization {
		return api.Rotated{}, action.NewError("operator_required")
	}
	if !g.rotating.TryLock() {
		return api.Rotated{}, action.NewError("rotation_running")
	}
	defer g.rotating.Unlock()
	if err := g.checkRotatable(); err != nil {
		return api.Rotated{}, err
	}
	r := &rotation{Gateway: g, by: by, writeGrace: rotationWriteGrace}
	if err := r.run(ctx); err != nil {
		return api.Rotated{}, err
	}
	return api.Rotated{KeyID: hexKeyID(g.Master.Sealing), Resealed: r.resealed, Left: r.left}, r.checkReplaced(ctx)
}

func hexKeyID(key []byte) string { return hex.EncodeToString(vault.KeyID(key)) }

func (r *rotation) run(ctx context.Context) error {
	for _, step := range r.steps() {
		if err := step(ctx); err != nil {
			return fmt.Errorf("rotating the master key: %w", err)
		}
	}
	level, msg := slog.LevelInfo, "all values are sealed with the master key"
	if r.left > 0 {
		level, msg = slog.LevelWarn, "some values are not sealed with the master key; the old key is kept"
	}
	r.log.Log(ctx, level, msg, "key", hexKeyID(r.Master.Sealing), "resealed", r.resealed, "left", r.left, "by", r.by)
	return nil
}

// checkReplaced returns an error if nothing was done because the new key was
// configured only for opening. It accepts a repeated rotation, which the
// history shows.
func (r *rotation) checkReplaced(ctx context.Context) error {
	if r.Master.file != "" || !r.known || r.resealed > 0 {
		return nil
	}
	last, err := r.DB.LastRotation(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	recorded := last.KeyID == hexKeyID(r.Master.Sealing)
	for _, key := range r.Master.given {
		recorded = recorded && slices.Contains(last.Old, hexKeyID(key))
	}
	if recorded {
		return nil
	}
	return action.NewError("master_key_not_replaced")
}

// checkRotatable returns an error with the steps to take first if this process
// alone cannot create a new key.
func (g *Gateway) checkRotatable() error {
	switch {
	case g.Master.file == "" && len(g.Master.given) == 0:
		return action.NewError("old_master_keys_missing")
	case g.Master.file != "" && g.DB.Shared():
		return action.NewError("master_key_in_file", g.Master.file)
	}
	return nil
}

// storeStableKeys stores the keys that do not change.
func (r *rotation) storeStableKeys(ctx context.Context) error {
	for name, key := range r.stableKeys {
		_, err := r.DB.VaultKey(ctx, name)
		if errors.Is(err, action.ErrNotFound) {
			var sealed []byte
			if sealed, err = r.vault.Seal(stableKeyRef(name), key); err == nil {
				err = r.DB.PutVaultKey(ctx, name, sealed)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceKeyFile creates a new key if the key file belongs to this process.
func (r *rotation) replaceKeyFile(context.Context) error {
	k := &r.Master
	if k.file == "" {
		return nil
	}
	sealing, retired, err := vault.ReplaceKey(k.file)
	if err != nil {
		return err
	}
	k.Sealing, k.retired = sealing, retired
	return r.vault.Use(k.Sealing, k.Opening()...)
}

// recordRotation records who replaced which keys, once, before a value can be
// read with the new key only.
func (r *rotation) recordRotation(ctx context.Context) error {
	fingerprint, err := r.DB.CheckedKey(ctx, "master")
	if r.known = fingerprint == command.Fingerprint("master", r.Master.Sealing); err != nil || r.known {
		return err
	}
	var olds []string
	for _, old := range r.Master.Opening() {
		olds = append(olds, hexKeyID(old))
	}
	return r.DB.RecordRotation(ctx, store.Rotation{Organization: store.DefaultOrganization, KeyID: hexKeyID(r.Master.Sealing), Old: olds, By: r.by})
}

// resealRounds limits the passes over values that were sealed with an old key
// meanwhile.
const resealRounds = 10

func (r *rotation) reseal(ctx context.Context) error {
	for range resealRounds {
		done, left, err := r.DB.Reseal(ctx, vault.KeyID(r.Master.Sealing), r.resealValue)
		r.resealed, r.left = r.resealed+done, left
		if err != nil || done == 0 {
			return err
		}
	}
	return nil
}

// resealValue seals a value with the new key. A value that no key decrypts was
// lost earlier.
func (r *rotation) resealValue(ref action.Ref, sealed []byte) ([]byte, error) {
	plain, err := r.vault.Open(ref, sealed)
	if err != nil {
		r.log.Warn("no key decrypts a sealed value", "table", ref.Table, "row", ref.Row, "column", ref.Column, "error", err)
		return nil, err
	}
	return r.vault.Seal(ref, plain)
}

// waitForWriters waits for writes that used the old key, before that key is
// dropped.
func (r *rotation) waitForWriters(ctx context.Context) error {
	if r.Master.file == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(r.writeGrace):
		return nil
	}
}

// updateFingerprint makes later starts require the new key.
func (r *rotation) updateFingerprint(ctx context.Context) error {
	var olds []string
	for _, old := range r.Master.Opening() {
		olds = append(olds, command.Fingerprint("master", old))
	}
	return r.DB.ReplaceKey(ctx, "master", command.Fingerprint("master", r.Master.Sealing), olds...)
}

// dropOldKeys removes the old keys. If a value may still need one, they are
// kept for opening, and a later rotation still creates a new key.
func (r *rotation) dropOldKeys(context.Context) error {
	k := &r.Master
	if k.file == "" {
		return nil
	}
	if r.left > 0 {
		return r.shelveOldKeys()
	}
	if err := vault.DropRetired(k.file); err != nil {
		return err
	}
	k.retired, k.shelved = nil, nil
	return r.vault.Use(k.Sealing, k.Opening()...)
}

func (r *rotation) shelveOldKeys() error {
	k := &r.Master
	err := vault.Shelve(k.file)
	if err == nil && k.retired != nil {
		k.shelved, k.retired = append(k.shelved, k.retired), nil
	}
	return err
}

// resumeRotation completes a rotation that was interrupted.
func (g *Gateway) resumeRotation(ctx context.Context) {
	if !g.rotating.TryLock() {
		return
	}
	defer g.rotating.Unlock()
	if g.Master.retired == nil {
		return
	}
	r := &rotation{Gateway: g, by: gatewayActor, writeGrace: rotationWriteGrace}
	if err := r.run(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("could not resume the rotation of the master key", "error", err)
	}
}

// gatewayActor is recorded when no user requested the rotation.
const gatewayActor = "gateway"
