package command

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile replaces a file atomically, so that no reader sees half of it. An existing
// file keeps its mode. If path is a symbolic link, its target is replaced and the link
// stays.
func WriteFile(path string, content []byte) error {
	mode := fs.FileMode(0)
	at, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is a link to nothing; make what it points to, or remove it", path)
		}
		at = path
	case err != nil:
		return err
	default:
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file; name the file to write", path)
		}
		mode = info.Mode().Perm()
	}
	return ReplaceFile(at, content, mode)
}

// ReplaceFile writes a temporary file in the same folder, syncs it and renames it to
// path. Mode 0 means 0644.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return UnwritableError(path, err)
	}
	defer os.Remove(tmp) // no effect after the rename
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(cmp.Or(mode, 0o644))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(tmp, path)
}

// UnwritableError explains why a file cannot be created, and what to do. It names path,
// because err may name the temporary file.
func UnwritableError(path string, err error) error {
	folder := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s to write %s into; make it, or name another place", Printable(folder), Printable(filepath.Base(path)))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s cannot be written: the folder %s lets this user make no files; give it the right, or name another place", Printable(path), Printable(folder))
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s cannot be written: a part of its path is a file; remove that, or name another place", Printable(path))
	}
	return fmt.Errorf("%s cannot be written; name another place: %w", Printable(path), bare(err))
}

// UnreadableError explains why an existing file cannot be read.
func UnreadableError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read by this user; give it the right, or name another file", Printable(path))
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("there is no %s: a part of its path is a file; name another place", Printable(path))
	}
	return fmt.Errorf("%s cannot be read; name another file: %w", Printable(path), bare(err))
}

// bare returns an error without the path in it.
func bare(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
