package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"

	"sallyport/action"
)

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
