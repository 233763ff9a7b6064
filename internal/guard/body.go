package guard

import (
	"io"

	"sallyport/action"
)

// LimitBody returns body with an error instead of anything beyond n bytes: an
// [*action.Error] of kind ErrTooLarge with the code "body_too_large". A
// truncated body must never look complete.
func LimitBody(body io.ReadCloser, n int64) io.ReadCloser {
	return &limitedReader{body: body, left: n, limit: n}
}

type limitedReader struct {
	body        io.ReadCloser
	left, limit int64
	err         error // returned by every later read
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.err != nil || len(p) == 0 {
		return 0, l.err
	}
	// One byte more than is left tells an end from an excess.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.body.Read(p)
	if int64(n) > l.left {
		n = int(l.left)
		err = action.NewError("body_too_large", l.limit)
	}
	l.left -= int64(n)
	l.err = err
	return n, err
}

func (l *limitedReader) Close() error { return l.body.Close() }
