package ingest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// smallBody is the size to which any delivery may grow, in bytes, where a
	// provider asks for no more.
	smallBody = 1 << 20
	// firstBytes is how much a body is given before any of it came.
	firstBytes = 16 << 10
	// restTime is how long one may take for what nobody wants.
	restTime = time.Second / 2
)

// body reads a delivery's body, whole or not at all. release has to be called
// when it is no longer needed, whatever comes back. Whoever can reach the URL can
// send one, without a secret: so it is given memory only as it comes, of what
// there is for all, and has to come at a pace.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
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
	in := &inflow{room: s.bodies.room(), from: r.Body, whole: whole, pace: newPace(w)}
	for err == nil && int64(len(in.bytes)) <= limit {
		err = in.more(r.Context())
	}
	switch {
	case int64(len(in.bytes)) > limit:
		err = errTooLarge
	case errors.Is(err, io.EOF):
		err = nil
		hurry(w, 0) // or a slow answer would look like a lost sender
	}
	return in.bytes, in.room.leave, err
}

// inflow is a body that comes in.
type inflow struct {
	room  *room
	from  io.Reader
	whole int64 // its length at most, and one more
	pace  *pace
	bytes []byte
}

// more reads on; [io.EOF] when there is nothing more.
func (in *inflow) more(ctx context.Context) error {
	if len(in.bytes) == cap(in.bytes) {
		if err := in.grow(ctx); err != nil {
			return err
		}
	}
	in.pace.next(len(in.bytes))
	n, err := in.from.Read(in.bytes[len(in.bytes):cap(in.bytes)])
	in.bytes = in.bytes[:len(in.bytes)+n]
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	}
	return errBroken
}

// grow doubles the room for it.
func (in *inflow) grow(ctx context.Context) error {
	has := int64(cap(in.bytes))
	size := max(2*has, firstBytes)
	if in.whole > has {
		size = min(size, in.whole)
	}
	waited, err := in.room.take(ctx, size)
	if err != nil {
		return err
	}
	in.pace.rest(waited)
	in.bytes = append(make([]byte, 0, size), in.bytes...)
	return nil
}

const (
	// stallTime is how long nothing may come.
	stallTime = 3 * time.Second
	// leastRate is how much has to come in a second, after that time, on average.
	leastRate = 32 << 10
)

// pace bounds how long a sender may take.
type pace struct {
	w     http.ResponseWriter
	began time.Time
}

func newPace(w http.ResponseWriter) *pace { return &pace{w: w, began: time.Now()} }

// next gives the sender of which so much came time for something more.
func (p *pace) next(came int) {
	owed := p.began.Add(stallTime + time.Duration(came)*time.Second/leastRate)
	hurry(p.w, min(stallTime, max(time.Until(owed), time.Nanosecond)))
}

// rest does not count a time in which he had to wait.
func (p *pace) rest(waited time.Duration) { p.began = p.began.Add(waited) }

// hurry sets the time that the sender has for what is still to be read; zero is
// any. Not every connection can; there the server's own limits hold.
func hurry(w http.ResponseWriter, d time.Duration) {
	var end time.Time
	if d > 0 {
		end = time.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(end)
}
