package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/cmd/sallyport/backup"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/vault"
)

// SecretKey returns the given key, or the one in the data folder, which the first start
// generates.
func (g *Gateway) SecretKey(hex, file string) ([]byte, error) {
	if hex != "" {
		key, err := vault.ParseKey(hex)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", KeyVariable(file), err)
		}
		return key, nil
	}
	path := filepath.Join(g.Options.Data, file)
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		g.createdKeys = append(g.createdKeys, path)
	}
	return vault.LoadKey(path)
}

// removeCreatedKeys removes the keys that this start generated for a database that
// has other keys, so that a later start or a backup does not use them instead of the
// lost ones.
func (g *Gateway) removeCreatedKeys(err error) error {
	for _, path := range g.createdKeys {
		err = fmt.Errorf("%w (%s was missing: restore it, or set %s)", err, path, KeyVariable(filepath.Base(path)))
		if removeErr := os.Remove(path); removeErr != nil {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// VerifyRestored opens restored rows with their keys, verifies the audit log and
// ends pending calls.
func VerifyRestored(ctx context.Context, keys backup.RowKeys, std *command.Streams) (done backup.RestoredRows, err error) {
	g := &Gateway{Options: Options{Data: keys.Data, MasterKey: keys.MasterKey, OldMasterKeys: keys.OldMasterKeys, TokenKey: keys.TokenKey}, log: NewLogger(std.Err, "warn", "text")}
	defer g.Close()
	if err := g.openDatabase(ctx); err != nil {
		return done, err
	}
	heads, err := g.DB.AuditHeads(ctx, "")
	if err != nil {
		return done, err
	}
	for _, head := range heads {
		report, err := g.DB.VerifyAudit(ctx, head.Organization, g.AuditKey, nil)
		if err != nil {
			return done, err
		}
		if !report.OK {
			return backup.RestoredRows{Broken: &report}, nil
		}
		done.Links += report.Checked
	}
	done.Expired, err = g.DB.EndWaiting(ctx)
	return done, err
}

// masterKeys are the keys of the vault. A rotation changes them.
type masterKeys struct {
	Sealing []byte
	file    string   // of the sealing key; empty if the key is configured
	retired []byte   // the previous sealing key of the file; nil: none
	shelved [][]byte // earlier keys that some values are still sealed with
	given   [][]byte // configured keys that only decrypt
}

// Opening returns the keys that only decrypt.
func (k *masterKeys) Opening() [][]byte {
	olds := slices.Concat(k.shelved, k.given)
	if k.retired != nil {
		olds = append(olds, k.retired)
	}
	return olds
}

// OpenMaster reads the master keys and opens the vault.
func (g *Gateway) OpenMaster() (err error) {
	k := &g.Master
	for i, text := range g.Options.OldMasterKeys {
		key, err := vault.ParseKey(text)
		if err != nil {
			return fmt.Errorf("--old-master-keys, key %d: %w", i+1, err)
		}
		k.given = append(k.given, key)
	}
	if k.Sealing, err = g.SecretKey(g.Options.MasterKey, command.MasterFile); err != nil {
		return err
	}
	if g.Options.MasterKey == "" {
		k.file = filepath.Join(g.Options.Data, command.MasterFile)
		if k.retired, err = vault.LoadRetired(k.file); err != nil {
			return err
		}
		if k.shelved, err = vault.LoadShelved(k.file); err != nil {
			return err
		}
	}
	g.vault, err = vault.New(k.Sealing, k.Opening()...)
	return err
}

// Names of the stable keys. They outlive the master keys, because rows and the audit
// log contain hashes that were computed with them.
const (
	stableHash  = "hash"
	stableAudit = "audit"
)

func stableKeyRef(name string) action.Ref {
	return action.Ref{Table: "vault_keys", Row: name, Column: "sealed"}
}

// OpenStableKeys loads the keys that a rotation does not change. Before the first
// rotation they are derived from the master key of the database.
func (g *Gateway) OpenStableKeys(ctx context.Context, master []byte) error {
	hash, err := vault.HashKey(master)
	if err != nil {
		return err
	}
	g.stableKeys = map[string][]byte{stableHash: hash, stableAudit: command.Derive(master, "audit chain")}
	for name := range g.stableKeys {
		sealed, err := g.DB.VaultKey(ctx, name)
		if errors.Is(err, action.ErrNotFound) {
			continue
		}
		if err == nil {
			g.stableKeys[name], err = g.vault.Open(stableKeyRef(name), sealed)
		}
		if err != nil {
			return err
		}
	}
	g.vault.UseHash(g.stableKeys[stableHash])
	g.AuditKey = g.stableKeys[stableAudit]
	return nil
}

// checkKeys checks that all instances of a database have the same keys. With different
// keys they could not open each other's values or verify each other's tokens. During a
// rotation the database may still name the previous master key.
func (g *Gateway) checkKeys(ctx context.Context, signing []byte) error {
	known, err := g.DB.CheckedKey(ctx, "master")
	if err != nil {
		return err
	}
	master := g.Master.Sealing
	for _, old := range g.Master.Opening() {
		if command.Fingerprint("master", old) == known {
			master = old
		}
	}
	err = g.DB.CheckKeys(ctx, map[string]string{"master": command.Fingerprint("master", master), "token": command.Fingerprint("token", signing)})
	if err != nil {
		return err
	}
	return g.OpenStableKeys(ctx, master)
}

// KeyVariable returns the environment variable that replaces a key file.
func KeyVariable(file string) string {
	return "SALLYPORT_" + strings.ToUpper(strings.TrimSuffix(file, ".key")) + "_KEY"
}
