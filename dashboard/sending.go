package dashboard

import (
	"errors"
	"io"
	"sync"
	"time"

	"sallyport/action"
)

const (
	// sendingAtOnce is how many files of one session come in at a time.
	sendingAtOnce = 4
	// sendAgain is when to try again what another sender is in the way of.
	sendAgain = 10 * time.Second

	// A file may take as long as its line does: so many bytes have to come in
	// such a time, and all of it within leastTime or at leastRate. Only what its
	// sender is waited for counts.
	stallAfter = time.Minute
	steadily   = 64 << 10
	leastTime  = 10 * time.Minute
	leastRate  = 8 << 10 // a second

	// restWithin is for what is left of a body that nobody wants.
	restWithin = 5 * time.Second
)

// sending are the files that come in to this instance. What an upload may have is
// counted once for each file, so there must be one sender for each: he would get
// around all limits with many.
type sending struct {
	mu    sync.Mutex
	files map[string]bool // by where the bytes go
	of    map[string]int  // by session
}

func newSending() *sending { return &sending{files: map[string]bool{}, of: map[string]int{}} }

// begin takes a place for a file until end is called.
func (s *sending) begin(ref action.UploadRef, key string) (end func(), err error) {
	session := ref.Organization + "/" + ref.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.files[key]:
		return nil, action.NewError("file_underway").WithRetry(sendAgain)
	case s.of[session] >= sendingAtOnce:
		return nil, action.NewError("too_many_files_underway").WithRetry(sendAgain)
	}
	s.files[key] = true
	s.of[session]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.files, key)
		if s.of[session]--; s.of[session] == 0 {
			delete(s.of, session)
		}
	}, nil
}

// steady reads a body whose sender is waited for while enough comes. Between two
// reads the connection has no deadline: the store's time is not the sender's, and
// a deadline that passes after the last byte ends the request, and all later ones
// of its connection.
type steady struct {
	io.Reader
	deadline func(time.Time)
	patience time.Duration // for the next bytes that are enough
	whole    time.Duration // for all of them
	came     int
	err      error // of the sender
	over     bool  // nothing more is read
}

func newSteady(r io.Reader, size int64, deadline func(time.Time)) *steady {
	return &steady{
		Reader: r, deadline: deadline, patience: stallAfter,
		whole: max(leastTime, time.Duration(min(size, action.MaxUploadFile))*time.Second/leastRate),
	}
}

// Read implements io.Reader.
func (s *steady) Read(p []byte) (int, error) {
	if s.over {
		return 0, s.end()
	}
	began := time.Now()
	s.deadline(began.Add(min(s.patience, s.whole)))
	n, err := s.Reader.Read(p)
	took := time.Since(began)
	s.patience, s.whole = s.patience-took, s.whole-took
	if s.came += n; s.came >= steadily {
		s.came, s.patience = 0, stallAfter
	}
	switch {
	case errors.Is(err, io.EOF):
		s.over = true
	case err != nil:
		s.over, s.err = true, err
		return n, err // the deadline stays, so that nothing waits for the rest
	}
	s.deadline(time.Time{})
	return n, err
}

func (s *steady) end() error {
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// leave bounds the wait for what is left, as net/http reads some of it.
func (s *steady) leave() {
	if !s.over {
		s.deadline(time.Now().Add(restWithin))
	}
}
