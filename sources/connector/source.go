package connector

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Source is a remote MCP server.
type Source struct {
	cfg  Config
	url  *url.URL
	http *http.Client // bound to the URL's host; without credential

	ids     atomic.Int64                                     // of requests
	headers atomic.Pointer[map[string][]sources.HeaderParam] // by tool, of the last list
	cleaner atomic.Pointer[cleaner]                          // of the last credential

	life context.Context // of handshakes
	end  context.CancelFunc
	work sync.WaitGroup // calls, and what they leave in the background

	mu      sync.Mutex // the fields below
	closed  bool
	session *session // nil: none yet, or the last one died
	attempt *attempt // the handshake under way
	era     string   // protocol version to begin the next handshake with; empty: the newest
}

// New returns the source; nothing is sent before the first List or Call.
func New(c Config) (*Source, error) {
	c, u, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: c, url: u, http: guard.Client(c.Guard, u)}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// ID implements [sources.Source].
func (s *Source) ID() string { return s.cfg.ID }

// Close refuses new calls, waits for those that run, and ends the session.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
	s.mu.Lock()
	ses := s.session
	s.session = nil
	s.mu.Unlock()
	var err error
	if ses != nil {
		err = ses.sdk.Close()
	}
	s.http.CloseIdleConnections()
	return err
}

// begin counts a call that Close waits for; done ends it.
func (s *Source) begin() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed; try again.")
	}
	s.work.Add(1)
	return s.work.Done, nil
}
