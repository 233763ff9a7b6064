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
	// defaultMaxBody is the largest body in bytes, unless the provider allows more.
	defaultMaxBody = 1 << 20
	// initialBuffer is the first buffer of a body.
	initialBuffer = 16 << 10
	// drainTimeout bounds reading the rest of a rejected body.
	drainTimeout = time.Second / 2
)

// readBody reads the whole body. The caller must call release when the body is no longer
// needed, also after an error. Anybody who can reach the URL can send a body, so memory
// grows only with what arrives, within a shared budget, and senders must keep a minimum
// rate.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	if encoding := r.Header.Values("Content-Encoding"); len(encoding) > 1 || len(encoding) == 1 && encoding[0] != "" && encoding[0] != "identity" {
		return nil, func() {}, errEncoding // senders differ in whether they sign the compressed bytes
	}
	if r.ContentLength > limit {
		return nil, func() {}, errTooLarge
	}
	whole := limit + 1 // one more byte reveals a body that is too large
	if r.ContentLength >= 0 {
		whole = r.ContentLength + 1
	}
	in := &bodyReader{memory: s.memory.reserve(), source: r.Body, maxSize: whole, deadline: &readDeadline{w: w, start: time.Now()}}
	for err == nil && int64(len(in.buffer)) <= limit {
		err = in.read(r.Context())
	}
	switch {
	case int64(len(in.buffer)) > limit:
		err = errTooLarge
	case errors.Is(err, io.EOF):
		err = nil
		setReadDeadline(w, 0) // otherwise a slow answer would look like a lost connection
	}
	return in.buffer, in.memory.release, err
}

// bodyReader reads a body in steps.
type bodyReader struct {
	memory   *reservation
	source   io.Reader
	maxSize  int64 // its largest size plus one
	deadline *readDeadline
	buffer   []byte
}

// read reads more of the body; [io.EOF] at the end.
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

// grow doubles the buffer.
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
	// stallTimeout is how long a sender may be silent.
	stallTimeout = 3 * time.Second
	// minRate is the required average number of bytes per second after that time.
	minRate = 32 << 10
)

// readDeadline bounds how long a sender may take.
type readDeadline struct {
	w     http.ResponseWriter
	start time.Time
}

// extend sets the deadline of the next read, given the bytes received.
func (p *readDeadline) extend(came int) {
	owed := p.start.Add(stallTimeout + time.Duration(came)*time.Second/minRate)
	setReadDeadline(p.w, min(stallTimeout, max(time.Until(owed), time.Nanosecond)))
}

// pause excludes a time during which the sender had to wait.
func (p *readDeadline) pause(waited time.Duration) { p.start = p.start.Add(waited) }

// setReadDeadline sets the time for reading the rest; zero removes the limit. Where
// connections do not support deadlines, the limits of the http.Server apply.
func setReadDeadline(w http.ResponseWriter, d time.Duration) {
	var end time.Time
	if d > 0 {
		end = time.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(end)
}

const (
	// maxMemory bounds the memory of all bodies; large ones may use three quarters of it.
	maxMemory = 256 << 20
	// maxLargeBodies bounds the number of bodies above defaultMaxBody.
	maxLargeBodies = 16
	// largeTimeout is how long a large body waits for its turn: some senders do not retry.
	largeTimeout = 5 * time.Second
)

// memoryBudget is the shared memory of bodies.
type memoryBudget struct {
	limit      int64
	used       atomic.Int64
	largeSlots chan struct{} // one for each
}

func newMemoryBudget(limit int64) *memoryBudget {
	return &memoryBudget{limit: limit, largeSlots: make(chan struct{}, maxLargeBodies)}
}

func (b *memoryBudget) reserve() *reservation { return &reservation{budget: b} }

// reservation is the share of one body.
type reservation struct {
	budget *memoryBudget
	size   int64
	large  bool
}

// grow increases the reservation and returns how long that had to wait.
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

// acquireLarge waits for one of the slots for large bodies.
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

// release returns the reservation.
func (r *reservation) release() {
	r.budget.used.Add(-r.size)
	if r.large {
		<-r.budget.largeSlots
	}
	r.size, r.large = 0, false
}
