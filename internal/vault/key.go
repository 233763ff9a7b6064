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
