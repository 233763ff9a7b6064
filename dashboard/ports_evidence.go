package dashboard

import (
	"context"
	"io"

	"sallyport/action"
)

// Uploads keeps what sessions sent as evidence, but for the bytes.
type Uploads interface {
	// ReserveFile makes room for a file; there tells that its bytes are stored.
	ReserveFile(ctx context.Context, ref action.UploadRef, f action.UploadFile) (there bool, err error)
	// FileStored writes down that the bytes of a file are there.
	FileStored(ctx context.Context, ref action.UploadRef, name string) error
	// Upload returns one with its files; ErrNotFound.
	Upload(ctx context.Context, ref action.UploadRef) (action.Upload, error)
	ListUploads(ctx context.Context, organization, session string, limit int, cursor string) (action.Page[action.Upload], error)
}

// Files keeps the bytes of evidence.
type Files interface {
	// Put keeps size bytes of that SHA-256, or nothing.
	Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error
	// Get returns what is kept, for the caller to close, and its size.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

// EnvRequests keeps what variables agents ask for, and what people give until
// it is taken.
type EnvRequests interface {
	// EnvRequest returns ErrNotFound when the organization has no such.
	EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error)
	ListEnvRequests(ctx context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error)
	// DecideEnv returns ErrGone or ErrConflict when it is late.
	DecideEnv(ctx context.Context, v action.EnvVerdict) (action.EnvRequest, error)
	// TakeEnv hands out what was answered, once; the same key gets it again for
	// a few minutes.
	TakeEnv(ctx context.Context, organization, session, key string) ([]action.SealedEnv, error)
}
