package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
)

// folder stores each key as the file at that path. No symbolic link below the root
// can lead out of it.
type folder struct{ root *os.Root }

func openFolder(u *url.URL) (*folder, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("the folder of evidence is an absolute path: file:///var/lib/sallyport/evidence")
	}
	dir := filepath.FromSlash(u.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of evidence: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of evidence: %w", err)
	}
	return &folder{root}, nil
}

// put writes beside the final path, syncs and renames, so that a crash leaves the
// whole file or none. A temporary file that a crash leaves goes with its folder.
func (f *folder) put(ctx context.Context, key string, body *upload) error {
	dir := path.Dir(key)
	if err := f.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary := key + "." + rand.Text() + ".tmp"
	file, err := f.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	if err == nil {
		err = errors.Join(file.Sync(), ctx.Err())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.root.Rename(temporary, key)
	}
	if err != nil {
		_ = f.root.Remove(temporary)
		return err
	}
	for ; ; dir = path.Dir(dir) { // any of them may be new
		if err := f.sync(dir); err != nil || dir == "." {
			return err
		}
	}
}

func (f *folder) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	file, err := f.root.Open(key)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

func (f *folder) removeAll(_ context.Context, dir string) error {
	if err := f.root.RemoveAll(dir); err != nil {
		return err
	}
	if err := f.sync(path.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *folder) close() error { return f.root.Close() }
