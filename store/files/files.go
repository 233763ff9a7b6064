package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

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
		return nil, errors.New("the store of evidence is no URL; want file:///folder or s3://bucket")
	}
	var b backend
	switch u.Scheme {
	case "file":
		b, err = openFolder(u)
	case "s3":
		b, err = openBucket(u)
	default:
		err = fmt.Errorf("the store of evidence is file:///folder or s3://bucket, not %q", u.Scheme+"://")
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
		return nil, 0, action.Errorf(action.ErrNotFound, "file_not_found", "The bytes of this file are not there any more.")
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
	return action.NewError("files_unavailable").WithCause(fmt.Errorf("store of evidence: %w", err))
}
