package vault

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ParseKey parses a key of [KeySize] bytes in hex, ignoring surrounding white
// space. The error never contains the text.
func ParseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("a key is %d bytes in hex, %d digits; make one with: openssl rand -hex %d", KeySize, 2*KeySize, KeySize)
	}
	return key, nil
}

// LoadKey reads the key from a file, and creates both if the file does not
// exist. Concurrent processes get the same key. A file that others can read is
// an error.
func LoadKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the key file: %w", err)
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the key file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the key file %s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the key file %s may be read by others (mode %04o); run: chmod 600 %[1]s", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return nil, fmt.Errorf("reading the key file: %w", err)
	}
	key, err := ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w", path, err)
	}
	return key, nil
}

// makeKey writes a new key to a temporary file and links it to path, which
// fails if path exists: no process reads a partial key, and no key is replaced.
func makeKey(path string) error {
	fresh, err := writeKey(path)
	if err != nil {
		return err
	}
	defer os.Remove(fresh) //nolint:errcheck // nothing depends on it
	if err := os.Link(fresh, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A key file is rotated in three steps, and an interruption between them loses
// no key: the old key gets a second name, a new key replaces it under the first
// one, and once nothing needs the old key its second name is removed. If it may
// still be needed it gets a third name instead, and the file can be rotated
// again.

// Retired returns the path of the old key during a rotation.
func Retired(path string) string { return path + ".old" }

// LoadRetired reads the old key of a rotation in progress; nil: there is none.
func LoadRetired(path string) ([]byte, error) {
	current, err := readKey(path)
	if err != nil {
		return nil, err
	}
	old, err := readKey(Retired(path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(old, current) { // stopped before the new one came
		return nil, nil
	}
	return old, err
}

// ReplaceKey writes a new key and keeps the old one beside it. It resumes an
// interrupted rotation with its keys.
func ReplaceKey(path string) (master, old []byte, err error) {
	if old, err = LoadRetired(path); err == nil && old == nil {
		if err = replaceKey(path); err == nil {
			old, err = LoadRetired(path)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("replacing the key in %s: %w", path, err)
	}
	master, err = readKey(path)
	return master, old, err
}

func replaceKey(path string) error {
	if err := os.Link(path, Retired(path)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := syncDir(dir); err != nil { // before the first name can point to another
		return err
	}
	fresh, err := writeKey(path)
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return syncDir(dir)
}

// writeKey writes a new key to a temporary file and returns its path.
func writeKey(path string) (name string, err error) {
	key := make([]byte, KeySize)
	rand.Read(key)                                                            //nolint:errcheck // never fails: it ends the process instead
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // O_EXCL, mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Shelve ends a rotation whose old key may still be needed: the old key stays
// beside the new one, under a name with its [KeyID]. Without an old key it does
// nothing.
func Shelve(path string) error {
	old, err := readKey(Retired(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Rename(Retired(path), Retired(path)+"."+hex.EncodeToString(KeyID(old)))
	}
	if err != nil {
		return fmt.Errorf("keeping the old key: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// LoadShelved reads the shelved keys.
func LoadShelved(path string) (keys [][]byte, err error) {
	names, err := shelved(path)
	for _, name := range names {
		key, err := readKey(name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, err
}

func shelved(path string) (names []string, err error) {
	dir, prefix := filepath.Dir(path), filepath.Base(Retired(path))+"."
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if id, ok := strings.CutPrefix(f.Name(), prefix); ok && len(id) == 2*keyIDLen {
			names = append(names, filepath.Join(dir, f.Name()))
		}
	}
	return names, err
}

// DropRetired deletes the old keys, including shelved ones: what they sealed
// can no longer be read.
func DropRetired(path string) error {
	names, err := shelved(path)
	for _, name := range append(names, Retired(path)) {
		if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("removing the old key: %w", err)
	}
	return syncDir(filepath.Dir(path))
}
