package connector

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Source is a remote MCP server. It is safe for concurrent use.
type Source struct {
	cfg  Config
	url  *url.URL
	http *http.Client // bound to the URL's host; without credential

	ids     atomic.Int64                                     // of requests
	headers atomic.Pointer[map[string][]sources.HeaderParam] // by tool, of the last list
	cleaner atomic.Pointer[cleaner]                          // of the last credential

	features action.ClientFeatures // what MayAsk comes to
	circuit  circuit

	ctx     context.Context // of handshakes and of listening
	cancel  context.CancelFunc
	running sync.WaitGroup // calls, and what they leave in the background
	streams sync.WaitGroup // streams of sessions

	mu             sync.Mutex // the fields below
	closed         bool
	slots          map[sessionKey]*sessionSlot
	era            string               // protocol version to begin the next handshake with; empty: the newest
	capabilities   sources.Capabilities // of the last handshake
	instructions   string               // likewise: the server's instructions
	handshakeSteps []sources.Step       // of the last one that was for all
	listSteps      []sources.Step       // of the last list

	subscriptions subscriptionSet
	notices       noticeQueue
}

// New returns the source. It sends nothing before the first List or Call.
func New(c Config) (*Source, error) {
	c, u, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: c, url: u, http: guard.Client(c.Guard, u), features: action.AskFeatures(c.MayAsk), slots: map[sessionKey]*sessionSlot{}}
	s.circuit = circuit{after: c.TripAfter, first: c.Backoff, now: time.Now}
	s.subscriptions.sending, s.subscriptions.timeout = make(chan struct{}, 1), subscribeTimeout
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// ID implements [sources.Source].
func (s *Source) ID() string { return s.cfg.ID }

// Close refuses new calls, waits for running ones, and closes the sessions.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.mu.Lock()
	seats := s.slots
	s.slots = map[sessionKey]*sessionSlot{}
	s.mu.Unlock()
	errs := make(chan error, len(seats))
	for _, at := range seats {
		go func() { errs <- at.close() }()
	}
	var err error
	for range seats {
		err = errors.Join(err, <-errs)
	}
	s.streams.Wait()
	s.http.CloseIdleConnections()
	return err
}

// close closes the session of an unused slot.
func (at *sessionSlot) close() error {
	if at.session == nil {
		return nil
	}
	at.session.cancel()
	return at.session.sdk.Close()
}

// begin registers a call that Close waits for; done ends it.
func (s *Source) begin() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed. Retry.")
	}
	s.running.Add(1)
	return s.running.Done, nil
}
