package vault

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ParseKey reads a key of [KeySize] bytes written in hex. White space around
// it does not matter. The error never holds any of the text.
func ParseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("a key is %d bytes in hex, %d digits; make one with: openssl rand -hex %d", KeySize, 2*KeySize, KeySize)
	}
	return key, nil
}

// LoadKey reads the key in a file, and makes file and key when there is none.
// Of several processes that do so at once, all get the same key. A file that
// others may read is refused.
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

// makeKey writes a new key beside path and links it to its name, which fails
// when the name is taken, so that nobody ever reads half a key and nobody's
// key is replaced.
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
