package connector

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/sources"
)

// The protocol versions at which behaviour changes.
const (
	stateless  = "2026-07-28" // no sessions; every request tells its version
	lastLegacy = "2025-11-25"
)

// session is what a handshake agreed on. Without sessions it stays good for
// ever; with them, until the server forgets it.
type session struct {
	sdk       *mcp.ClientSession
	id        string // Mcp-Session-Id; empty: the server gave none
	version   string
	stateless bool

	users   int  // calls that use it; guarded by the source's mutex
	dropped bool // no new call may use it
}

// attempt is a handshake under way, which several calls may wait for.
type attempt struct {
	done    chan struct{}
	session *session
	err     error
}

// acquire returns the session, made if need be. Whoever acquires releases.
// Its errors are of kind ErrUnavailable: no call was sent yet.
func (s *Source) acquire(ctx context.Context) (*session, error) {
	s.mu.Lock()
	if s.session != nil {
		defer s.mu.Unlock()
		s.session.users++
		return s.session, nil
	}
	a := s.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		s.attempt = a
		s.work.Go(func() { s.connect(a) })
	}
	s.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, interrupted(ctx, action.ErrUnavailable)
	}
	if a.err != nil {
		return nil, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.session.users++
	return a.session, nil
}

func (s *Source) release(ses *session) {
	s.mu.Lock()
	ses.users--
	last := ses.dropped && ses.users == 0
	s.mu.Unlock()
	if last {
		s.hangUp(ses)
	}
}

// drop makes the next call shake hands again. The session is ended when no
// call uses it any more: ending it would end them.
func (s *Source) drop(ses *session) {
	s.mu.Lock()
	if s.session == ses {
		s.session = nil
	}
	ses.dropped = true
	s.mu.Unlock()
}

// hangUp ends a session in the background. It runs within a call, so that
// Close waits for it.
func (s *Source) hangUp(ses *session) {
	s.work.Go(func() {
		if err := ses.sdk.Close(); err != nil {
			s.cfg.Log.Debug("ending a session", "source", s.cfg.ID, "error", s.scrub(err))
		}
	})
}

// connect makes one handshake for all who wait for it.
func (s *Source) connect(a *attempt) {
	ctx, stop := context.WithTimeout(s.life, s.cfg.ConnectTimeout)
	defer stop()
	s.mu.Lock()
	era := s.era
	s.mu.Unlock()
	ses, err := s.shake(ctx, era)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.session, s.era = ses, ses.version
	case era == "" && ctx.Err() != nil:
		// Some old servers never answer a method that they do not know.
		s.era = lastLegacy
	default:
		s.era = ""
	}
	a.session, a.err = ses, err
	s.attempt = nil
	close(a.done)
}

// shake makes the handshake: server/discover, and initialize where that is
// not known.
func (s *Source) shake(ctx context.Context, era string) (ses *session, err error) {
	seen := &sight{expired: ctx.Err}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handshake panicked: %v", p)
		}
		if err != nil {
			err = s.handshakeFault(ctx, seen, err)
		}
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "sallyport", Version: s.cfg.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler),
	})
	sdk, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url.String(), HTTPClient: s.client(nil, seen), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		return nil, err
	}
	seen.done()
	version := sdk.InitializeResult().ProtocolVersion
	return &session{sdk: sdk, id: sdk.ID(), version: version, stateless: version >= stateless}, nil
}

// sight is what was seen on the wire of a handshake, whose errors do not
// always tell. It also ends a handshake that is out of time: the SDK would go
// on to tell the server so, which may take as long again.
type sight struct {
	mu      sync.Mutex
	expired func() error // nil: the handshake is done
	status  int
	content string
	err     error
}

func (s *sight) look(resp *http.Response, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if resp != nil {
		s.status, s.content = resp.StatusCode, resp.Header.Get("Content-Type")
	}
}

func (s *sight) over() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		return nil
	}
	return s.expired()
}

func (s *sight) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = nil
}

// handshakeFault says what is wrong when no session came about. Nothing was
// executed.
func (s *Source) handshakeFault(ctx context.Context, seen *sight, err error) error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	cause := s.scrub(err)
	switch {
	case seen.err != nil:
		return s.lost(ctx, action.ErrUnavailable, seen.err)
	case ctx.Err() != nil:
		return s.lost(ctx, action.ErrUnavailable, context.Cause(ctx))
	case seen.status >= 300:
		if e := statusFault(seen.status); e != nil {
			e.Kind, e.Err = action.ErrUnavailable, cause
			return e
		}
	case !strings.HasPrefix(seen.content, "application/json") && !strings.HasPrefix(seen.content, "text/event-stream"):
		return &action.Error{
			Kind: action.ErrUnavailable, Code: sources.FaultTransport, Err: cause,
			Message: "The server answers, but not as an MCP server over streamable HTTP does; check the URL, which often ends in /mcp.",
		}
	}
	return s.withText(&action.Error{
		Kind: action.ErrUnavailable, Code: sources.FaultProtocol, Err: cause,
		Message: "The server did not agree to an MCP session.",
	}, err)
}
