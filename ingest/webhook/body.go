package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// defaultMaxBody is the size to which any delivery may grow, in bytes, where a
	// provider asks for no more.
	defaultMaxBody = 1 << 20
	// initialBuffer is how much a body is given before any of it came.
	initialBuffer = 16 << 10
	// drainTimeout is how long one may take for what nobody wants.
	drainTimeout = time.Second / 2
)

// readBody reads a delivery's body, whole or not at all. release has to be called
// when it is no longer needed, whatever comes back. Whoever can reach the URL can
// send one, without a secret: so it is given memory only as it comes, of what
// there is for all, and has to come at a pace.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	if encoding := r.Header.Values("Content-Encoding"); len(encoding) > 1 || len(encoding) == 1 && encoding[0] != "" && encoding[0] != "identity" {
		return nil, func() {}, errEncoding // what is signed is what was sent, and few say which
	}
	if r.ContentLength > limit {
		return nil, func() {}, errTooLarge
	}
	whole := limit + 1 // one byte more tells that it is too large
	if r.ContentLength >= 0 {
		whole = r.ContentLength + 1
	}
	in := &bodyReader{memory: s.memory.reserve(), source: r.Body, maxSize: whole, deadline: newReadDeadline(w)}
	for err == nil && int64(len(in.buffer)) <= limit {
		err = in.read(r.Context())
	}
	switch {
	case int64(len(in.buffer)) > limit:
		err = errTooLarge
	case errors.Is(err, io.EOF):
		err = nil
		setReadDeadline(w, 0) // or a slow answer would look like a lost sender
	}
	return in.buffer, in.memory.release, err
}

// bodyReader is a body that comes in.
type bodyReader struct {
	memory   *reservation
	source   io.Reader
	maxSize  int64 // its length at most, and one more
	deadline *readDeadline
	buffer   []byte
}

// read reads on; [io.EOF] when there is nothing more.
func (in *bodyReader) read(ctx context.Context) error {
	if len(in.buffer) == cap(in.buffer) {
		if err := in.grow(ctx); err != nil {
			return err
		}
	}
	in.deadline.extend(len(in.buffer))
	n, err := in.source.Read(in.buffer[len(in.buffer):cap(in.buffer)])
	in.buffer = in.buffer[:len(in.buffer)+n]
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	}
	return errBroken
}

// grow doubles the room for it.
func (in *bodyReader) grow(ctx context.Context) error {
	has := int64(cap(in.buffer))
	size := max(2*has, initialBuffer)
	if in.maxSize > has {
		size = min(size, in.maxSize)
	}
	waited, err := in.memory.grow(ctx, size)
	if err != nil {
		return err
	}
	in.deadline.pause(waited)
	in.buffer = append(make([]byte, 0, size), in.buffer...)
	return nil
}

const (
	// stallTimeout is how long nothing may come.
	stallTimeout = 3 * time.Second
	// minRate is how much has to come in a second, after that time, on average.
	minRate = 32 << 10
)

// readDeadline bounds how long a sender may take.
type readDeadline struct {
	w     http.ResponseWriter
	start time.Time
}

func newReadDeadline(w http.ResponseWriter) *readDeadline {
	return &readDeadline{w: w, start: time.Now()}
}

// extend gives the sender of which so much came time for something more.
func (p *readDeadline) extend(came int) {
	owed := p.start.Add(stallTimeout + time.Duration(came)*time.Second/minRate)
	setReadDeadline(p.w, min(stallTimeout, max(time.Until(owed), time.Nanosecond)))
}

// pause does not count a time in which he had to wait.
func (p *readDeadline) pause(waited time.Duration) { p.start = p.start.Add(waited) }

// setReadDeadline sets the time that the sender has for what is still to be read; zero is
// any. Not every connection can; there the server's own limits hold.
func setReadDeadline(w http.ResponseWriter, d time.Duration) {
	var end time.Time
	if d > 0 {
		end = time.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(end)
}

const (
	// maxMemory is how much memory all bodies may have at once. Large ones may not
	// have all of it: three quarters.
	maxMemory = 256 << 20
	// maxLargeBodies is how many may be larger than smallBody at once.
	maxLargeBodies = 16
	// largeTimeout is how long one waits for another. Some senders try only once.
	largeTimeout = 5 * time.Second
)

// memoryBudget is the memory for what is being taken in.
type memoryBudget struct {
	limit      int64
	used       atomic.Int64
	largeSlots chan struct{} // one for each
}

func newMemoryBudget(limit int64) *memoryBudget {
	return &memoryBudget{limit: limit, largeSlots: make(chan struct{}, maxLargeBodies)}
}

func (b *memoryBudget) reserve() *reservation { return &reservation{budget: b} }

// reservation is what one body has of it.
type reservation struct {
	budget *memoryBudget
	size   int64
	large  bool
}

// grow has the room grow to a size, and says how long that was waited for.
func (r *reservation) grow(ctx context.Context, size int64) (waited time.Duration, err error) {
	limit := r.budget.limit
	if size > defaultMaxBody+1 {
		began := time.Now()
		if err := r.acquireLarge(ctx); err != nil {
			return 0, err
		}
		waited, limit = time.Since(began), limit/4*3
	}
	more := size - r.size
	if r.budget.used.Add(more) > limit {
		r.budget.used.Add(-more)
		return waited, errBusy
	}
	r.size = size
	return waited, nil
}

// acquireLarge waits until there are few enough large ones.
func (r *reservation) acquireLarge(ctx context.Context) error {
	if r.large {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, largeTimeout)
	defer cancel()
	select {
	case r.budget.largeSlots <- struct{}{}:
		r.large = true
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

// release gives all of it back.
func (r *reservation) release() {
	r.budget.used.Add(-r.size)
	if r.large {
		<-r.budget.largeSlots
	}
	r.size, r.large = 0, false
}
