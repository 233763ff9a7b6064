package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
)

// Peers is how instances tell one another about MCP sessions.
type Peers interface {
	// Post makes sig durable; every instance is given it by [Server.Receive],
	// within about a second.
	Post(ctx context.Context, sig Signal) error
	// End notes that a session ended, until its id would have expired anyway.
	End(ctx context.Context, organization, session string, until time.Time) error
	// Ended reports whether it did.
	Ended(ctx context.Context, organization, session string) (bool, error)
}

// SignalKind is what a signal says.
type SignalKind string

// The kinds of signal.
const (
	SignalCancel SignalKind = "cancel" // a client cancelled a call that is in flight elsewhere
	SignalEnd    SignalKind = "end"    // a client ended its session
	// A client subscribed to a resource, or does no more. Its event stream may
	// be elsewhere.
	SignalLevel       SignalKind = "level" // a client said which log messages it wants
	SignalSubscribe   SignalKind = "subscribe"
	SignalUnsubscribe SignalKind = "unsubscribe"
)

// Signal is a word of one instance to all.
type Signal struct {
	Kind         SignalKind
	Organization string
	// Session is the hash of the MCP session's id; the id itself is a
	// credential and leaves the process nowhere.
	Session string
	// Data of a cancel: which call, and whether its client only gave up
	// waiting. Of a subscription: which resource.
	Data json.RawMessage
}

// cancelData is the Data of a SignalCancel.
type cancelData struct {
	ID      string `json:"id"` // see idKey
	Timeout bool   `json:"timeout,omitempty"`
}

const (
	// peerTimeout bounds one word to the peers.
	peerTimeout = 5 * time.Second
	// maxClockSkew is how far the clocks of two instances may be apart.
	maxClockSkew = 5 * time.Minute
	// maxSignalID is the longest request id that is told to peers. Clients
	// count, or take a UUID.
	maxSignalID = 128
)

// Receive takes a signal that some instance posted, this one included. It does
// not block, and one that comes twice does nothing.
func (s *Server) Receive(sig Signal) {
	name, ok := token.ParseSessionHash(sig.Session)
	if !ok {
		return
	}
	known := s.sessions.find(name)
	if known != nil && known.view.key.organization != sig.Organization {
		return
	}
	switch sig.Kind {
	case SignalCancel:
		if known != nil {
			known.cancelled(sig.Data)
		}
	case SignalLevel:
		if known != nil {
			known.setLevelFromPeer(sig.Data)
		}
	case SignalSubscribe, SignalUnsubscribe:
		if known != nil {
			s.applyPeerSubscription(known, sig.Kind, sig.Data)
		}
	case SignalEnd:
		if old := s.sessions.end(name, s.ids.Expiry(s.cfg.Now()).Add(maxClockSkew)); old != nil {
			s.closeSession(old)
		}
	}
}

// cancelled cancels the call that a signal names, if it is in flight here.
func (s *session) cancelled(data json.RawMessage) {
	var d cancelData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	c := s.inFlight(d.ID)
	switch {
	case c == nil:
	case d.Timeout:
		c.cancel(action.ErrCallerGone)
	default:
		c.cancel(action.ErrCancelled)
	}
}

// postCancel tells the other instances of a cancellation of a call that is not
// in flight here, if it may be in flight there.
func (s *Server) postCancel(x *exchange, id string, cause error) error {
	if s.cfg.Peers == nil || len(id) > maxSignalID || x.session.endedRecently(id) || !s.allowSignal(x, SignalCancel) {
		return nil
	}
	data, err := json.Marshal(cancelData{ID: id, Timeout: errors.Is(cause, action.ErrCallerGone)})
	if err != nil { // a string and a bool always encode
		return err
	}
	// A client that cancels may well not wait for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	return s.cfg.Peers.Post(ctx, Signal{
		Kind: SignalCancel, Organization: x.who.Organization, Session: x.session.name.String(), Data: data,
	})
}

// endSession ends a session on every instance; beyond what its principal may
// have told to peers, on this one. When it returns an error, the session goes
// on.
func (s *Server) endSession(x *exchange) error {
	until := x.session.ends.Add(maxClockSkew)
	if s.cfg.Peers == nil || !s.allowSignal(x, SignalEnd) {
		s.endSessionHere(x.session, until)
		return nil
	}
	// Nor may one that says goodbye.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	organization, name := x.who.Organization, x.session.name.String()
	if err := s.cfg.Peers.End(ctx, organization, name, until); err != nil {
		return err
	}
	s.endSessionHere(x.session, until)
	if err := s.cfg.Peers.Post(ctx, Signal{Kind: SignalEnd, Organization: organization, Session: name}); err != nil {
		s.cfg.Log.Warn("telling other instances that an MCP session ended; they forget it when it rests", "error", err)
	}
	return nil
}

func (s *Server) endSessionHere(old *session, until time.Time) {
	if s.sessions.end(old.name, until) != nil {
		s.closeSession(old)
	}
}

// sessionEnded reports whether a client ended the session, here or elsewhere.
func (s *Server) sessionEnded(x *exchange, name token.SessionHash) (bool, error) {
	if s.sessions.hasEnded(name) {
		return true, nil
	}
	if s.cfg.Peers == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), peerTimeout)
	defer cancel()
	return s.cfg.Peers.Ended(ctx, x.who.Organization, name.String())
}

const (
	// maxPerWindow is how much of one kind a principal has written to rows in a
	// minute, by one instance, beside its calls: an agent may cancel, reply, and
	// open and end sessions, as often as it likes.
	maxPerWindow     = 120
	rateWindowLength = time.Minute
)

// rateLimiter count what principals had told to peers, and what they replied.
// They are of principals and not of MCP sessions, which cost nothing to open.
type rateLimiter struct {
	mu      sync.Mutex
	windows map[rateKey]rateWindow
}

type rateKey struct {
	principal string
	kind      SignalKind // kindReply for a reply
}

type rateWindow struct {
	since time.Time // of the first word of its window
	count int
}

func (a rateWindow) expired(now time.Time) bool { return now.Sub(a.since) >= rateWindowLength }

// allow counts a word and reports whether it may be written. The first of a
// minute that may not is worth a line in the log.
func (a *rateLimiter) allow(k rateKey, now time.Time) (ok, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, known := a.windows[k]
	if !known || one.expired(now) {
		one = rateWindow{since: now}
	}
	one.count++
	a.windows[k] = one
	return one.count <= maxPerWindow, one.count == maxPerWindow+1
}

// expire drops what counts no longer.
func (a *rateLimiter) expire(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, one := range a.windows {
		if one.expired(now) {
			delete(a.windows, k)
		}
	}
}

// kindReply counts replies to questions among what is told to peers.
const kindReply SignalKind = "reply"

// allowReply reports whether one more reply of the principal is taken, and counts
// it.
func (s *Server) allowReply(x *exchange) bool {
	ok, first := s.limits.allow(rateKey{x.who.ID, kindReply}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session replies too often to questions; no more is taken of it within this minute", "session", x.who.ID)
	}
	return ok
}

// allowSignal reports whether peers are to be told of one more word of the kind,
// and counts it.
func (s *Server) allowSignal(x *exchange, kind SignalKind) bool {
	ok, first := s.limits.allow(rateKey{x.who.ID, kind}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session cancels calls or ends MCP sessions too often; other instances are told no more of it within this minute", "session", x.who.ID, "kind", kind)
	}
	return ok
}
