package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"sallyport/action"
)

// Store is an open folder or bucket. [Open] returns one. It is safe for concurrent
// use.
type Store struct{ backend backend }

// backend is a folder or a bucket. Its keys are valid slash-separated paths.
type backend interface {
	// put stores body under the key, or nothing when reading body fails.
	put(ctx context.Context, key string, body *upload) error
	// get fails with [fs.ErrNotExist] when there is no such key.
	get(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// removeAll removes every key below dir, and succeeds when there is none.
	removeAll(ctx context.Context, dir string) error
	close() error
}

// Open opens the store at an address: file:///a/folder, which is created if
// missing, or
// s3://bucket?region=eu-central-1&endpoint=https://minio.example.com&path_style=true&prefix=gate/.
// The region defaults to AWS_REGION, the endpoint to Amazon's. The credentials of a
// bucket are in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or
// the variables of a role.
func Open(_ context.Context, address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the storage of evidence files must be a URL: file:///folder or s3://bucket")
	}
	var b backend
	switch u.Scheme {
	case "file":
		b, err = openFolder(u)
	case "s3":
		b, err = openBucket(u)
	default:
		err = fmt.Errorf("the storage of evidence files must be file:///folder or s3://bucket, not %q", u.Scheme+"://")
	}
	if err != nil {
		return nil, err
	}
	return &Store{b}, nil
}

// Put reads exactly size bytes with the hex SHA-256 sum and stores them under the
// key, replacing what was there. If r has other content, nothing is stored:
// ErrInvalid (code "wrong_size" or "wrong_digest"). An error of r is returned
// unchanged; a failure of the store is ErrUnavailable.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error {
	if err := checkKey(key); err != nil {
		return unavailable(err)
	}
	body := newUpload(r, size, sum)
	err := s.backend.put(ctx, key, body)
	unread := body.stop() // a backend may still read in the background
	switch {
	case unread != nil && !errors.Is(unread, errUnfinished):
		return unread
	case err == nil:
		err = unread // a server may confirm what it did not receive
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// Get returns the content of a key, for the caller to close, and its size;
// ErrNotFound, or ErrUnavailable.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	err := checkKey(key)
	if err != nil {
		return nil, 0, unavailable(err)
	}
	r, size, err := s.backend.get(ctx, key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, action.Errorf(action.ErrNotFound, "file_not_found", "The content of this file no longer exists.")
	case err != nil:
		return nil, 0, unavailable(err)
	}
	return r, size, nil
}

// RemoveAll removes every key that begins with the prefix, which ends in a slash.
func (s *Store) RemoveAll(ctx context.Context, prefix string) error {
	dir, ok := strings.CutSuffix(prefix, "/")
	err := checkKey(dir)
	if !ok {
		err = fmt.Errorf("the prefix %q does not end in a slash", prefix)
	}
	if err == nil {
		err = s.backend.removeAll(ctx, dir)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// Close releases the folder or bucket.
func (s *Store) Close() error { return s.backend.close() }

// checkKey accepts what means the same in a folder and in a bucket.
func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '\\' }) {
		return fmt.Errorf("invalid key %q", key)
	}
	return nil
}

func unavailable(err error) error {
	return action.NewError("files_unavailable").WithCause(fmt.Errorf("storage of evidence files: %w", err))
}

// folder stores each key as the file at that path. No symbolic link below the root
// can lead out of it.
type folder struct{ root *os.Root }

func openFolder(u *url.URL) (*folder, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, errors.New("the folder of evidence files must be an absolute path: file:///var/lib/sallyport/evidence")
	}
	dir := filepath.FromSlash(u.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of evidence files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of evidence files: %w", err)
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

// upload reads the announced content from r. The read that completes it returns
// bytes only when r ends there and the digest is right, so that a receiver that
// counts bytes, as an HTTP server does, never has all of a wrong upload.
type upload struct {
	size int64
	sum  string

	mu      sync.Mutex // an HTTP transport may read on after its response
	r       io.Reader
	left    int64
	digest  hash.Hash
	started bool
	done    bool
	err     error
}

func newUpload(r io.Reader, size int64, sum string) *upload {
	return &upload{size: size, sum: sum, r: r, left: size, digest: sha256.New()}
}

// errUnfinished is the error of an upload whose reader stopped early.
var errUnfinished = errors.New("the upload was not read to its end")

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.started = true
	switch {
	case u.err != nil:
		return 0, u.err
	case u.done:
		return 0, io.EOF
	}
	n, err := u.r.Read(p[:min(int64(len(p)), u.left)])
	_, _ = u.digest.Write(p[:n]) // never fails
	u.left -= int64(n)
	switch {
	case u.left == 0:
		u.err = u.complete(err)
		u.done = u.err == nil
	case errors.Is(err, io.EOF):
		u.err = u.wrongSize()
	default:
		u.err = err
	}
	if u.err != nil {
		return 0, u.err
	}
	return n, nil
}

// complete checks the end of r and the digest.
func (u *upload) complete(err error) error {
	var more [1]byte
	if err == nil {
		_, err = io.ReadFull(u.r, more[:])
	}
	switch {
	case err == nil:
		return u.wrongSize()
	case !errors.Is(err, io.EOF):
		return err
	case hex.EncodeToString(u.digest.Sum(nil)) != u.sum:
		return action.NewError("wrong_digest")
	}
	return nil
}

func (u *upload) wrongSize() error {
	return action.NewError("wrong_size", u.size)
}

// unread reports whether nothing has been read, so that a request can be
// repeated.
func (u *upload) unread() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.started
}

// stop waits for a read in progress and prevents further ones. It returns why
// reading failed, errUnfinished if it did not come to the end, or nil.
func (u *upload) stop() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil && !u.done {
		u.err = errUnfinished
	}
	return u.err
}
