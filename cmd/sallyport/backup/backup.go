// Package backup backs up the data folder of a gateway and restores it. Rows in
// PostgreSQL are backed up with its own tools.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sallyport/action"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/vault"
	"sallyport/store"
	"sallyport/store/files"
)

// Command is `sallyport backup`.
type Command struct {
	command.Database
	To          string `arg:"" type:"path" help:"Folder to create; it must not exist, or must be empty."`
	WithoutKeys bool   `help:"Leave out the key files; to decrypt values, you then need your own copies of them."`
}

// manifest describes a backup. It is written last: a folder without it is not a backup.
type manifest struct {
	Format       int       `json:"format"`
	Version      string    `json:"version"`
	TakenAt      time.Time `json:"taken_at"`
	Keys         []string  `json:"keys"` // file names, never the keys
	Database     fileSum   `json:"database"`
	Files        int       `json:"files"`
	FilesMissing int       `json:"files_missing"`
}

type fileSum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	manifestFile = "backup.json"
	backupFormat = 1
)

// Run copies the data folder, whether a gateway runs on it or not. It reads the files
// and not the API: permission to read the folder is permission to copy it, and no API
// key should reveal everything in it.
func (c *Command) Run(ctx context.Context, std *command.Streams) error {
	data, err := embeddedFolder(&c.Database, "back up")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(c.To)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the target of the backup: %w; name an empty folder or one that does not exist", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; name an empty folder or one that does not exist", c.To)
	}
	part, err := os.MkdirTemp(filepath.Dir(c.To), ".sallyport-backup-*") // mode 0700
	if err != nil {
		return fmt.Errorf("creating the backup: %w", err)
	}
	defer os.RemoveAll(part)
	m := &manifest{Format: backupFormat, Version: command.Version(), TakenAt: time.Now().UTC()}
	hasMaster, err := c.copyAll(ctx, data, part, m)
	if err != nil {
		return err
	}
	// The target must not exist for the rename. Rmdir fails if it is no longer empty.
	if err := syscall.Rmdir(c.To); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing %s: %w; no backup was created: name a folder in it that does not exist", c.To, err)
	}
	if err := os.Rename(part, c.To); err != nil {
		return fmt.Errorf("moving the backup into place: %w; no backup was created: name another folder", err)
	}
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(m)
	}
	m.report(std.Out, c.To, hasMaster)
	return nil
}

// embeddedFolder returns the data folder of a gateway that keeps its rows in SQLite.
func embeddedFolder(w *command.Database, what string) (string, error) {
	if w.DatabaseURL != "" {
		return "", fmt.Errorf("this command cannot %s a PostgreSQL database; see docs/backup.md", what)
	}
	if w.Data == "" {
		return command.DataFolder(), nil
	}
	return w.Data, nil
}

// copyAll copies everything to the folder part, and reports whether the master key of
// the database is among the copied keys.
func (c *Command) copyAll(ctx context.Context, data, part string, m *manifest) (hasMaster bool, err error) {
	database := filepath.Join(part, command.DatabaseFile)
	keys, err := copyRows(ctx, data, database)
	if err != nil {
		return false, err
	}
	rows, err := store.OpenFileReadOnly(database)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if err := rows.Integrity(ctx); err != nil {
		return false, err
	}
	if hasMaster, err = containsMaster(ctx, rows, keys); err != nil {
		return false, err
	}
	if !c.WithoutKeys {
		for name, text := range keys {
			if err := command.ReplaceFile(filepath.Join(part, name), text, 0o600); err != nil {
				return false, err
			}
		}
		m.Keys = slices.Sorted(maps.Keys(keys))
	}
	if m.Files, m.FilesMissing, err = copyFiles(ctx, rows, data, part); err != nil {
		return false, err
	}
	if m.Database, err = sumOf(database); err != nil {
		return false, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return false, err
	}
	return hasMaster && !c.WithoutKeys, command.ReplaceFile(filepath.Join(part, manifestFile), append(text, '\n'), 0o600)
}

// keyRounds limits how often a copy is retried because the keys were rotated.
const keyRounds = 5

// copyRows copies the database and reads its keys. It retries until the keys are the
// same before and after the copy.
func copyRows(ctx context.Context, data, to string) (map[string][]byte, error) {
	for range keyRounds {
		before, err := readKeys(data)
		if err != nil {
			return nil, err
		}
		if err := store.Backup(ctx, filepath.Join(data, command.DatabaseFile), to); err != nil {
			return nil, err
		}
		after, err := readKeys(data)
		if err != nil {
			return nil, err
		}
		if maps.EqualFunc(before, after, bytes.Equal) {
			return after, nil
		}
		if err := os.Remove(to); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the master key is being rotated; create the backup after sallyport secret rotate has finished")
}

// readKeys returns the key files of a data folder by name.
func readKeys(data string) (map[string][]byte, error) {
	keys := map[string][]byte{}
	entries, err := os.ReadDir(data)
	for _, e := range entries {
		if name := e.Name(); name == command.TokenFile || name == command.MasterFile || strings.HasPrefix(name, command.MasterFile+".") {
			text, err := os.ReadFile(filepath.Join(data, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed by a rotation
			}
			if err != nil {
				return nil, fmt.Errorf("reading the keys: %w", err)
			}
			keys[name] = text
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the data folder: %w", err)
	}
	return keys, nil
}

// containsMaster reports whether one of the keys is the master key of the database.
func containsMaster(ctx context.Context, rows *store.DB, keys map[string][]byte) (bool, error) {
	known, err := rows.CheckedKey(ctx, "master")
	if err != nil {
		return false, err
	}
	for name, text := range keys {
		key, err := vault.ParseKey(string(text))
		if err == nil && name != command.TokenFile && command.Fingerprint("master", key) == known {
			return true, nil
		}
	}
	return false, nil
}

// copyFiles copies the evidence files that rows refer to. The rows are copied before
// the files, so only files that are removed in between are missing.
func copyFiles(ctx context.Context, rows *store.DB, from, to string) (copied, missing int, err error) {
	var source, target *files.Store
	if _, err := os.Stat(filepath.Join(from, command.EvidenceFolder)); err == nil {
		if source, err = openFolder(ctx, from); err != nil {
			return 0, 0, err
		}
		defer source.Close()
		if target, err = openFolder(ctx, to); err != nil {
			return 0, 0, err
		}
		defer target.Close()
	}
	err = rows.StoredFiles(ctx, func(f store.StoredFile) error {
		if source == nil {
			missing++
			return nil
		}
		r, _, err := source.Get(ctx, f.Key)
		if errors.Is(err, action.ErrNotFound) {
			missing++
			return nil
		}
		if err != nil {
			return err
		}
		defer r.Close()
		copied++
		return target.Put(ctx, f.Key, r, f.Size, f.SHA256)
	})
	return copied, missing, err
}

func openFolder(ctx context.Context, data string) (*files.Store, error) {
	at, err := command.EvidenceURL(data)
	if err != nil {
		return nil, err
	}
	return files.Open(ctx, at)
}

func sumOf(path string) (s fileSum, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	digest := sha256.New()
	s.Size, err = io.Copy(digest, f)
	s.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return s, err
}

// report prints what the backup contains and what else a restore needs.
func (m *manifest) report(w io.Writer, to string, hasMaster bool) {
	fmt.Fprintf(w, "%s contains the database as of %s (%d bytes, verified) and %s of evidence.\n", to, m.TakenAt.Format(time.RFC3339), m.Database.Size, command.Plural(m.Files, "file"))
	if m.FilesMissing > 0 {
		fmt.Fprintf(w, "Not in the data folder: %s of evidence, deleted during the backup or stored elsewhere (serve --evidence). Back up that storage too.\n", command.Plural(m.FilesMissing, "file"))
	}
	if len(m.Keys) > 0 {
		fmt.Fprintf(w, "It contains the keys (%s): anyone who can read this folder can read every secret. Protect it accordingly.\n", strings.Join(m.Keys, ", "))
	}
	if !hasMaster {
		fmt.Fprintln(w, "It does NOT contain the master key of this database, without which the backup is useless: keep SALLYPORT_MASTER_KEY (or master.key) and SALLYPORT_TOKEN_KEY in another place.")
	}
}
