package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"sallyport/action"
)

// Store is an open folder or bucket. [Open] makes one.
type Store struct{ bucket *blob.Bucket }

// Put reads exactly size bytes with the SHA-256 sum, in hex, and keeps them
// under the key; what was there is replaced. When r has others, nothing is kept:
// ErrInvalid (code "wrong_size" or "wrong_digest"). An error of r is returned as
// it is, and one of the store is an ErrUnavailable.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error {
	ctx, giveUp := context.WithCancel(ctx) // a cancelled writer keeps nothing
	defer giveUp()
	w, err := s.bucket.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream", DisableContentTypeDetection: true})
	if err != nil {
		return away(err)
	}
	if err := fill(w, r, size, sum); err != nil {
		giveUp()
		_ = w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return away(err)
	}
	return nil
}

func fill(w io.Writer, r io.Reader, size int64, sum string) error {
	in, digest := &reader{Reader: io.LimitReader(r, size+1)}, sha256.New()
	n, err := io.Copy(io.MultiWriter(w, digest), in)
	switch {
	case in.err != nil:
		return in.err
	case err != nil:
		return away(err)
	case n != size:
		return action.Errorf(action.ErrInvalid, "wrong_size", "The file does not have the %d bytes that were announced; send it again.", size)
	case hex.EncodeToString(digest.Sum(nil)) != sum:
		return action.Errorf(action.ErrInvalid, "wrong_digest", "The file's SHA-256 is not the one that was announced: it changed, or was damaged on its way; send it again.")
	}
	return nil
}

// reader tells an error of who sends from one of the store.
type reader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// Get returns the bytes under a key and how many they are, for the caller to
// close; ErrNotFound, or ErrUnavailable.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, err := s.bucket.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, 0, action.Errorf(action.ErrNotFound, "file_not_found", "The bytes of this file are not there any more.")
	}
	if err != nil {
		return nil, 0, away(err)
	}
	return r, r.Size(), nil
}

// RemoveAll removes everything whose key begins with prefix.
func (s *Store) RemoveAll(ctx context.Context, prefix string) error {
	for list := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.bucket.Delete(ctx, o.Key)
		}
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return away(err)
		}
	}
}

// Close lets go of the folder or bucket.
func (s *Store) Close() error { return s.bucket.Close() }

func away(err error) error {
	return &action.Error{
		Kind: action.ErrUnavailable, Code: "files_unavailable", Message: "The store of evidence cannot be reached or is full; try again in a moment.",
		Err: fmt.Errorf("store of evidence: %w", err),
	}
}
