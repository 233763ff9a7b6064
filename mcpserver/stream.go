package mcpserver

import (
	"net/http"
	"sync"
	"time"
)

// stream is the writer of a long event stream of the SDK. Each write has its
// time, and keep-alives may come in between.
type stream struct {
	http.ResponseWriter
	rc *http.ResponseController

	mu       sync.Mutex
	begun    bool // the SDK wrote something, so it is a stream indeed
	shut     bool
	greeting []byte // to follow what the SDK begins with
}

// Write writes what the SDK gives it, which is always whole events.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline(writeWithin)
	n, err := s.ResponseWriter.Write(b)
	if !s.begun && err == nil && len(s.greeting) > 0 {
		_, err = s.ResponseWriter.Write(s.greeting)
	}
	s.begun = true
	return n, err
}

// FlushError flushes between writes.
func (s *stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rc.Flush()
}

// keepAlive writes a comment. When it cannot, the connection is broken, and
// net/http ends the request.
func (s *stream) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || s.shut {
		return
	}
	s.deadline(time.Second)
	if _, err := s.ResponseWriter.Write([]byte(": waiting\n\n")); err == nil {
		_ = s.rc.Flush() // the next write meets the same error
	}
}

// deadline gives the next write its time, where the writer knows deadlines.
func (s *stream) deadline(d time.Duration) { _ = s.rc.SetWriteDeadline(time.Now().Add(d)) }

// streams are the event streams that are open.
type streams struct {
	mu  sync.Mutex
	all map[*stream]bool
}

// open returns a writer that is kept alive until it is shut.
func (s *streams) open(w http.ResponseWriter, greeting []byte) *stream {
	st := &stream{ResponseWriter: w, rc: http.NewResponseController(w), greeting: greeting}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[st] = true
	return st
}

// shut makes sure that nothing is written any more: the request is over.
func (s *streams) shut(st *stream) {
	s.mu.Lock()
	delete(s.all, st)
	s.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.shut = true
}

// keepAlive writes a comment to each of them.
func (s *streams) keepAlive() {
	s.mu.Lock()
	open := make([]*stream, 0, len(s.all))
	for st := range s.all {
		open = append(open, st)
	}
	s.mu.Unlock()
	for _, st := range open {
		st.keepAlive()
	}
}
