package dashboard

import (
	"context"
	"io"
)

// Files keeps the bytes of evidence.
type Files interface {
	// Put keeps size bytes of that SHA-256, or nothing.
	Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error
	// Get returns what is kept, for the caller to close, and its size.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}
