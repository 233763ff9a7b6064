package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/vault"
	"sallyport/store"
)

// masterKeys are those of the vault. They change in a rotation.
type masterKeys struct {
	sealing []byte
	file    string   // that sealing is in; empty: it was given
	retired []byte   // that sealing replaces in its file; nil: none
	shelved [][]byte // that were replaced before, when some values were left
	given   [][]byte // further ones that only open
}

// opening are the keys that do not seal.
func (k *masterKeys) opening() [][]byte {
	olds := slices.Concat(k.shelved, k.given)
	if k.retired != nil {
		olds = append(olds, k.retired)
	}
	return olds
}

// openMaster reads the master keys, and opens the vault with them.
func (g *gateway) openMaster() (err error) {
	k := &g.master
	for i, text := range g.options.OldMasterKeys {
		key, err := vault.ParseKey(text)
		if err != nil {
			return fmt.Errorf("--old-master-keys, key %d: %w", i+1, err)
		}
		k.given = append(k.given, key)
	}
	if k.sealing, err = g.secretKey(g.options.MasterKey, masterFile); err != nil {
		return err
	}
	if g.options.MasterKey == "" {
		k.file = filepath.Join(g.options.Data, masterFile)
		if k.retired, err = vault.LoadRetired(k.file); err != nil {
			return err
		}
		if k.shelved, err = vault.LoadShelved(k.file); err != nil {
			return err
		}
	}
	g.vault, err = vault.New(k.sealing, k.opening()...)
	return err
}

const masterFile = "master.key"

// Names of the keys that outlive the master keys: rows and the chains of
// evidence hold what they made, which new ones could not make again.
const (
	keptHash  = "hash"
	keptAudit = "audit"
)

func keptRef(name string) action.Ref {
	return action.Ref{Table: "vault_keys", Row: name, Column: "sealed"}
}

// openKept finds the keys that were kept in a rotation. Before the first one
// they are derived of the master key that the rows were written with.
func (g *gateway) openKept(ctx context.Context, master []byte) error {
	hash, err := vault.HashKey(master)
	if err != nil {
		return err
	}
	g.kept = map[string][]byte{keptHash: hash, keptAudit: derive(master, "audit chain")}
	for name := range g.kept {
		sealed, err := g.db.VaultKey(ctx, name)
		if errors.Is(err, action.ErrNotFound) {
			continue
		}
		if err == nil {
			g.kept[name], err = g.vault.Open(keptRef(name), sealed)
		}
		if err != nil {
			return err
		}
	}
	g.vault.UseHash(g.kept[keptHash])
	g.auditKey = g.kept[keptAudit]
	return nil
}

// rotation replaces the master key. Each step can be done again after it was
// done, in part or in full, by a process that died meanwhile.
type rotation struct {
	*gateway
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
func (g *gateway) rotate(ctx context.Context, organization, by string) (api.Rotated, error) {
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
	r := &rotation{gateway: g, by: by, settle: rotationSettles}
	if err := r.run(ctx); err != nil {
		return api.Rotated{}, err
	}
	return api.Rotated{KeyID: keyName(g.master.sealing), Resealed: r.done, Left: r.left}, r.idle(ctx)
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
	r.log.Log(ctx, level, says, "key", keyName(r.master.sealing), "resealed", r.done, "left", r.left, "by", r.by)
	return nil
}

// idle is an error when nothing was done, as the new key was given only to open.
// A rotation that ended and is run again is told by the history.
func (r *rotation) idle(ctx context.Context) error {
	if r.master.file != "" || !r.same || r.done > 0 {
		return nil
	}
	last, err := r.db.LastRotation(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	again := last.KeyID == keyName(r.master.sealing)
	for _, key := range r.master.given {
		again = again && slices.Contains(last.Old, keyName(key))
	}
	if again {
		return nil
	}
	return action.NewError("master_key_not_replaced")
}

// rotatable tells what is to be done first where this process alone cannot
// make a new key.
func (g *gateway) rotatable() error {
	switch {
	case g.master.file == "" && len(g.master.given) == 0:
		return action.NewError("old_master_keys_missing")
	case g.master.file != "" && g.db.Shared():
		return action.NewError("master_key_in_file", g.master.file)
	}
	return nil
}

// keep writes down the keys that do not change.
func (r *rotation) keep(ctx context.Context) error {
	for name, key := range r.kept {
		_, err := r.db.VaultKey(ctx, name)
		if errors.Is(err, action.ErrNotFound) {
			var sealed []byte
			if sealed, err = r.vault.Seal(keptRef(name), key); err == nil {
				err = r.db.PutVaultKey(ctx, name, sealed)
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
	k := &r.master
	if k.file == "" {
		return nil
	}
	sealing, retired, err := vault.ReplaceKey(k.file)
	if err != nil {
		return err
	}
	k.sealing, k.retired = sealing, retired
	return r.vault.Use(k.sealing, k.opening()...)
}

// record writes down who replaced which keys, once, before anything needs the
// new one alone.
func (r *rotation) record(ctx context.Context) error {
	known, err := r.db.CheckedKey(ctx, "master")
	if r.same = known == fingerprint("master", r.master.sealing); err != nil || r.same {
		return err
	}
	var olds []string
	for _, old := range r.master.opening() {
		olds = append(olds, keyName(old))
	}
	return r.db.RecordRotation(ctx, store.Rotation{Organization: store.DefaultOrganization, KeyID: keyName(r.master.sealing), Old: olds, By: r.by})
}

// resealRounds is how often it is looked for what was sealed with another key
// meanwhile.
const resealRounds = 10

func (r *rotation) reseal(ctx context.Context) error {
	for range resealRounds {
		done, left, err := r.db.Reseal(ctx, vault.KeyID(r.master.sealing), r.again)
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
	if r.master.file == "" {
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
	for _, old := range r.master.opening() {
		olds = append(olds, fingerprint("master", old))
	}
	return r.db.ReplaceKey(ctx, "master", fingerprint("master", r.master.sealing), olds...)
}

// drop forgets the old keys. When something may still be read with one, they
// stay as further ones, and a later rotation makes a new key all the same.
func (r *rotation) drop(context.Context) error {
	k := &r.master
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
	return r.vault.Use(k.sealing, k.opening()...)
}

func (r *rotation) shelve() error {
	k := &r.master
	err := vault.Shelve(k.file)
	if err == nil && k.retired != nil {
		k.shelved, k.retired = append(k.shelved, k.retired), nil
	}
	return err
}

// resume ends a rotation that was stopped.
func (g *gateway) resume(ctx context.Context) {
	if !g.rotating.TryLock() {
		return
	}
	defer g.rotating.Unlock()
	if g.master.retired == nil {
		return
	}
	r := &rotation{gateway: g, by: itself, settle: rotationSettles}
	if err := r.run(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("going on with a rotation that was stopped", "error", err)
	}
}

// itself stands for who asked when nobody did.
const itself = "gateway"
