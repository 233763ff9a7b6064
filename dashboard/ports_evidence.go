package dashboard

import (
	"context"
	"io"
	"time"

	"sallyport/action"
)

// Audit reads the evidence.
type Audit interface {
	AuditHeads(ctx context.Context, organization string) ([]action.AuditHead, error)
	// Evidence returns what proves an invocation; ErrNotFound.
	Evidence(ctx context.Context, organization, id string) (action.Evidence, error)
	// VerifyAudit looks through an organization's chain; known is a head that
	// somebody kept, or nil.
	VerifyAudit(ctx context.Context, organization string, known *action.AuditHead) (action.AuditReport, error)
	// Export and ExportPolicy hand over row after row, oldest first, in
	// constant memory, until yield returns an error, which they return. The
	// filter's Limit and Cursor are ignored.
	Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error
	ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error
}

// Files keeps the bytes of evidence.
type Files interface {
	// Put keeps size bytes of that SHA-256, or nothing.
	Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error
	// Get returns what is kept, for the caller to close, and its size.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}
