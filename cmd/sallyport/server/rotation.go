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

// rotation replaces the master key. Each step can be done again after it was
// done, in part or in full, by a process that died meanwhile.
type rotation struct {
	*Gateway
	by     string        // who asked for it
	settle time.Duration // how long what began with the old key may take to be written
	same   bool          // the key that seals is the one that the rows knew
	done   int           // values that were sealed anew
	left   int           // that could not be
}

func (r *rotation) steps() []func(context.Context) error {
	return []func(context.Context) error{r.keep, r.replace, r.record, r.reseal, r.wait, r.reseal, r.note, r.drop}
}

// rotationSettles is above the time in which the file's one writer answers.
const rotationSettles = 3 * time.Second

// rotate has everything sealed with a new master key. One that has begun goes
// on instead.
func (g *Gateway) rotate(ctx context.Context, organization, by string) (api.Rotated, error) {
	if organization != store.DefaultOrganization {
		return api.Rotated{}, action.NewError("operator_required")
	}
	if !g.rotating.TryLock() {
		return api.Rotated{}, action.NewError("rotation_running")
	}
	defer g.rotating.Unlock()
	if err := g.rotatable(); err != nil {
		return api.Rotated{}, err
	}
	r := &rotation{Gateway: g, by: by, settle: rotationSettles}
	if err := r.run(ctx); err != nil {
		return api.Rotated{}, err
	}
	return api.Rotated{KeyID: keyName(g.Master.Sealing), Resealed: r.done, Left: r.left}, r.idle(ctx)
}

func keyName(key []byte) string { return hex.EncodeToString(vault.KeyID(key)) }

func (r *rotation) run(ctx context.Context) error {
	for _, step := range r.steps() {
		if err := step(ctx); err != nil {
			return fmt.Errorf("rotating the master key: %w", err)
		}
	}
	level, says := slog.LevelInfo, "everything is sealed with the master key"
	if r.left > 0 {
		level, says = slog.LevelWarn, "some values are not sealed with the master key; the old one is kept"
	}
	r.log.Log(ctx, level, says, "key", keyName(r.Master.Sealing), "resealed", r.done, "left", r.left, "by", r.by)
	return nil
}

// idle is an error when nothing was done, as the new key was given only to open.
// A rotation that ended and is run again is told by the history.
func (r *rotation) idle(ctx context.Context) error {
	if r.Master.file != "" || !r.same || r.done > 0 {
		return nil
	}
	last, err := r.DB.LastRotation(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	again := last.KeyID == keyName(r.Master.Sealing)
	for _, key := range r.Master.given {
		again = again && slices.Contains(last.Old, keyName(key))
	}
	if again {
		return nil
	}
	return action.NewError("master_key_not_replaced")
}

// rotatable tells what is to be done first where this process alone cannot
// make a new key.
func (g *Gateway) rotatable() error {
	switch {
	case g.Master.file == "" && len(g.Master.given) == 0:
		return action.NewError("old_master_keys_missing")
	case g.Master.file != "" && g.DB.Shared():
		return action.NewError("master_key_in_file", g.Master.file)
	}
	return nil
}

// keep writes down the keys that do not change.
func (r *rotation) keep(ctx context.Context) error {
	for name, key := range r.kept {
		_, err := r.DB.VaultKey(ctx, name)
		if errors.Is(err, action.ErrNotFound) {
			var sealed []byte
			if sealed, err = r.vault.Seal(keptRef(name), key); err == nil {
				err = r.DB.PutVaultKey(ctx, name, sealed)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace makes a new key where it is this process's to make.
func (r *rotation) replace(context.Context) error {
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

// record writes down who replaced which keys, once, before anything needs the
// new one alone.
func (r *rotation) record(ctx context.Context) error {
	known, err := r.DB.CheckedKey(ctx, "master")
	if r.same = known == command.Fingerprint("master", r.Master.Sealing); err != nil || r.same {
		return err
	}
	var olds []string
	for _, old := range r.Master.Opening() {
		olds = append(olds, keyName(old))
	}
	return r.DB.RecordRotation(ctx, store.Rotation{Organization: store.DefaultOrganization, KeyID: keyName(r.Master.Sealing), Old: olds, By: r.by})
}

// resealRounds is how often it is looked for what was sealed with another key
// meanwhile.
const resealRounds = 10

func (r *rotation) reseal(ctx context.Context) error {
	for range resealRounds {
		done, left, err := r.DB.Reseal(ctx, vault.KeyID(r.Master.Sealing), r.again)
		r.done, r.left = r.done+done, left
		if err != nil || done == 0 {
			return err
		}
	}
	return nil
}

// again seals a value with the new key. What opens with no key was lost before.
func (r *rotation) again(ref action.Ref, sealed []byte) ([]byte, error) {
	plain, err := r.vault.Open(ref, sealed)
	if err != nil {
		r.log.Warn("a sealed value opens with none of the keys", "table", ref.Table, "row", ref.Row, "column", ref.Column, "error", err)
		return nil, err
	}
	return r.vault.Seal(ref, plain)
}

// wait lets those write who sealed with the old key just before, where that key
// is about to go.
func (r *rotation) wait(ctx context.Context) error {
	if r.Master.file == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(r.settle):
		return nil
	}
}

// note has later starts want the new key.
func (r *rotation) note(ctx context.Context) error {
	var olds []string
	for _, old := range r.Master.Opening() {
		olds = append(olds, command.Fingerprint("master", old))
	}
	return r.DB.ReplaceKey(ctx, "master", command.Fingerprint("master", r.Master.Sealing), olds...)
}

// drop forgets the old keys. When something may still be read with one, they
// stay as further ones, and a later rotation makes a new key all the same.
func (r *rotation) drop(context.Context) error {
	k := &r.Master
	if k.file == "" {
		return nil
	}
	if r.left > 0 {
		return r.shelve()
	}
	if err := vault.DropRetired(k.file); err != nil {
		return err
	}
	k.retired, k.shelved = nil, nil
	return r.vault.Use(k.Sealing, k.Opening()...)
}

func (r *rotation) shelve() error {
	k := &r.Master
	err := vault.Shelve(k.file)
	if err == nil && k.retired != nil {
		k.shelved, k.retired = append(k.shelved, k.retired), nil
	}
	return err
}

// resume ends a rotation that was stopped.
func (g *Gateway) resume(ctx context.Context) {
	if !g.rotating.TryLock() {
		return
	}
	defer g.rotating.Unlock()
	if g.Master.retired == nil {
		return
	}
	r := &rotation{Gateway: g, by: itself, settle: rotationSettles}
	if err := r.run(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("going on with a rotation that was stopped", "error", err)
	}
}

// itself stands for who asked when nobody did.
const itself = "gateway"
